"""Building a tick: how far each operator progresses, and the fused queries that process tuples up to there.

An operator's progress is one timestamp: it has processed every tuple below it. Tuples between the progress
of two operators are in the queue between them; a query crosses as many operators as their progress allows,
and a block is stored only where one of them stops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Protocol

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from headgate.model.joins import WindowJoin
from headgate.model.network import QueryDefinition
from headgate.model.operator import Eddy, Select
from headgate.model.operator_inputs import DerivedInput, StreamInput
from headgate.spark import sql
from headgate.spark.arrival.intake import Arrival
from headgate.spark.attempts import AttemptedOperator, Attempts
from headgate.spark.blocks import BlockStore
from headgate.spark.eddies.queue import EddySnapshot, probing_timestamps
from headgate.spark.expected_matches import key_samples
from headgate.spark.manifest import Manifest, OperatorState
from headgate.spark.operators.base import Stretch
from headgate.spark.operators.inputs import LogInput, Retained, StoreTask, TickInput, log_columns
from headgate.spark.prepared import Prepared
from headgate.spark.rows import Rows, Spread, cut_at, progress_of
from headgate.spark.samples import Trial, WindowContent, join_samples
from headgate.spark.sql import BEGINNING_US, END_US
from headgate.spark.stream_log import StreamLogs
from headgate.spark.tick_inputs import InputBuilder
from headgate.spark.tick_plan import Moved, TickPlan

# fewer tuples than this are not worth a shuffle
_ROWS_TO_SPREAD = 1_000


class EddyTuples(Protocol):
    """Eddies as a tick sees them."""

    def entering_tuples(self, eddy: str, tuples: DataFrame) -> DataFrame:
        """Tuples on their way into an eddy, as they are stored in its queue."""

    def finished_tuples(self, eddy: str, snapshot: EddySnapshot) -> DataFrame | None:
        """The tuples that have left the eddy."""


class TickBuilder:
    """Builds a tick's queries, operator by operator in topological order."""

    def __init__(
        self,
        prepared: Prepared,
        logs: StreamLogs,
        store: BlockStore,
        eddies: EddyTuples,
        attempts: Attempts,
    ) -> None:
        self._prepared = prepared
        self._attempts = attempts
        self._network = prepared.network
        self._logs = logs
        self._store = store
        self._eddies = eddies
        self._inputs = InputBuilder(prepared, logs, store, attempts)
        self._cuts = count()
        by_utility = (q.name for q in self._network.queries.values() if q.utility and not q.utility.stream)
        self._ranking = {name for query in by_utility for name in self._network.operators_of(query)}
        """Operators whose keys rank tuples."""

    def add(
        self,
        name: str,
        before: Manifest,
        arrivals: Mapping[str, Arrival],
        plan: TickPlan,
        end_of_input: bool,
        snapshots: Mapping[str, EddySnapshot],
    ) -> None:
        """Plan an operator's part of the tick."""
        operator = self._attempts.operator(name)
        if isinstance(operator.settings, Eddy):
            self._add_eddy(name, arrivals, plan, snapshots[name])
            return
        state = before.operators.get(name, OperatorState(blocks=((),) * len(operator.settings.inputs)))
        inputs = [
            self._inputs.input(name, number, state, before, arrivals, plan)
            for number in range(len(operator.settings.inputs))
        ]
        upstream = [one.rows for one in inputs]
        old, share = state.progress_ts, plan.chosen.shares[name]
        bound = progress_of(upstream) if operator.is_ordered else END_US
        if end_of_input and all(rows.idle for rows in upstream):
            bound += operator.reach_us
        bound = max(bound, old)
        new = bound if share >= 1.0 else _cut(inputs, old, bound, share, operator.is_ordered)
        plan.progress[name] = new
        if (attempted := self._attempts.get(name)) is not None:
            inputs = self._set_aside(attempted, inputs, state, new, plan)
        if self._attempts.are_lifetimes_on:
            self._set_aside_lifetimes(name, inputs, old, new, plan)
        if operator.is_ordered:
            rows = self._add_ordered(name, inputs, state, new, before, plan, snapshots)
        else:
            rows = self._add_stateless(name, inputs[0], old, new, plan)
        fetched = sum(one.waiting_rows(old, new) for one in inputs)
        plan.moved[name] = Moved(rows.count, fetched)
        upstream_rows = max(rows.count, *(r.upstream_rows for r in upstream))
        plan.rows[name] = self._passed_on(
            name,
            replace(
                rows,
                # a queue is cut by its expected length: stored tuples and those still to arrive
                upstream_rows=upstream_rows,
                count=rows.count * plan.chosen.selectivities[name],
                # a cut leaves tuples behind: readers must not pass them, even if the stream is idle
                idle=new >= bound and all(r.idle for r in upstream),
                progress_ts=new if operator.is_ordered else min(new, *(r.progress_ts for r in upstream)),
            ),
            plan,
        )

    def results(self, query: QueryDefinition, plan: TickPlan) -> str | None:
        """The SQL of a query's results, once all operators are added; None if there can be none."""
        parts = []
        for name in query.outputs:
            items, rows = self._prepared.result_items(query, name), plan.rows[name].query
            parts.append(rows and sql.by_slice(rows, partial(sql.select, items)))
        return sql.union(parts)

    def _read(self, query: str) -> DataFrame:
        return self._store.spark.sql(sql.as_query(query))

    def _set_aside(
        self,
        attempted: AttemptedOperator,
        inputs: Sequence[TickInput],
        state: OperatorState,
        new: int,
        plan: TickPlan,
    ) -> list[TickInput]:
        """The inputs without tuples for which an expression fails; these become dead letters."""
        old, lenient = state.progress_ts, attempted.lenient
        checked = [attempted.read(one, number) for number, one in enumerate(inputs)]
        combined = None
        if lenient.is_ordered:
            arrived = [one.content(old, new) if new > old else None for one in inputs]
            if attempted.predicates:
                combined = lenient.results(checked, Stretch(old, new, new, state)).query
        else:
            arrived = [one.taken(old, new, BEGINNING_US, END_US) for one in inputs]
            taken = checked[0].taken(old, new, BEGINNING_US, END_US)
            combined = lenient.applied(taken) if taken is not None and attempted.predicates else None
        plan.letters += self._attempts.letters(lenient.name, arrived, combined, plan.batch_id)
        return checked

    def _set_aside_lifetimes(
        self, name: str, inputs: Sequence[TickInput], old: int, new: int, plan: TickPlan
    ) -> None:
        """Dead letters of tuples that tell no end of their own, where they are first read."""
        for number, one in enumerate(inputs):
            window, source = self._inputs.window(name, number), self._network.operators[name].inputs[number]
            if window is None or window == self._prepared.window(name, number):
                continue
            stream: StreamInput | DerivedInput
            if isinstance(one, LogInput) and self._prepared.is_materialised(name):
                columns = self._logs.schemas[one.source.stream].struct.names
                stream = replace(one.source, columns=tuple(c for c in columns if not sql.is_system(c)))
                read = replace(one, source=stream, window=None, decorate=None)
                is_ordered = self._prepared.operators[name].is_ordered
                tuples = read.content(old, new) if is_ordered else read.taken(old, new, BEGINNING_US, END_US)
            elif isinstance(source, DerivedInput):
                columns = self._prepared.operators[source.operator].output.names
                stream = replace(source, columns=tuple(c for c in columns if not sql.is_system(c)))
                below = plan.rows[source.operator].query
                tuples = below and sql.select(log_columns(stream, None, is_numbered=False), below)
            else:
                continue
            if tuples is not None:
                letters = self._attempts.lifetime_letters(name, stream, window, tuples, plan.batch_id)
                plan.letters.append(letters)

    def _add_stateless(self, name: str, one: TickInput, old: int, new: int, plan: TickPlan) -> Rows:
        operator = self._attempts.operator(name)
        retained = one.retain(new) if new < END_US else Retained(())
        self._keep(name, [retained], plan)
        rows = one.rows.count * one.rows.share_below(new) + one.waiting_rows(old, new)
        is_wanted = self._prepared.is_materialised(name)

        def read_range(from_ts: int, to_ts: int) -> str | None:
            tuples = one.taken(old, new, from_ts, to_ts)
            if tuples is None:
                return None
            return sql.by_slice(self._spread_out(tuples, rows, new), operator.applied)

        if plan.trying and isinstance(operator.settings, Select):
            alone = self._prepared.predicate_order.to_try(operator.settings)
            taken = one.taken(old, new, BEGINNING_US, END_US) if alone else None
            if taken is not None:
                plan.trials.append(Trial(name, alone, self._read(taken), rows))
        waiting = [block for block in one.blocks if block.max_ts >= old]
        return Rows(
            query=read_range(BEGINNING_US, END_US) if is_wanted else None,
            count=rows,
            upstream_rows=rows,
            min_ts=min([one.rows.min_ts, *(max(old, block.min_ts) for block in waiting)]),
            max_ts=min(max([one.rows.max_ts, *(block.max_ts for block in waiting)]), new - 1),
            progress_ts=END_US,
            spreads=one.spreads(old, BEGINNING_US, new),
            reader=read_range,
        )

    def _spread_out(self, tuples: str, rows: float, new: int) -> str:
        """Repartition what a cut takes: its tuples are adjacent, and one task would process them all."""
        if new >= END_US or rows < _ROWS_TO_SPREAD:
            return tuples
        # Spark would evaluate predicates before it spreads, were it not for something to count in between
        number = next(self._cuts)
        spread = self._read(tuples).repartition(self._store.parallelism)
        spread = spread.observe(f"taken {number}", F.count(F.lit(1)).alias("rows"))
        return self._store.views.define(f"spread {number % 1000}", spread)

    def _add_ordered(
        self,
        name: str,
        inputs: list[TickInput],
        state: OperatorState,
        new: int,
        before: Manifest,
        plan: TickPlan,
        snapshots: Mapping[str, EddySnapshot],
    ) -> Rows:
        operator, old = self._attempts.operator(name), state.progress_ts
        if plan.sampling and isinstance(operator.settings, WindowJoin):
            contents = [self._content(one, old) for one in inputs]
            plan.samples += join_samples(operator.settings, contents)
            if name in self._ranking:
                plan.keys += key_samples(operator.settings, contents)
        since = min([new, *probing_timestamps(self._network, name, old, snapshots)])
        stretch = Stretch(old, new, since, state, before.settings.orders, self._store.parallelism)
        found = operator.results(inputs, stretch)
        self._keep(name, found.retained, plan)
        plan.stores += found.stores
        plan.groups[name] = state.groups if found.groups is None else tuple(found.groups)
        rows = sum(one.rows.count * one.rows.share_below(new) + one.waiting_rows(old, new) for one in inputs)
        emitted = (Spread.over(rows, (old, new - 1)),) if old > BEGINNING_US else ()
        return Rows(found.query, rows, rows, old, new - 1, new, spreads=emitted)

    def _content(self, one: TickInput, old: int) -> WindowContent | None:
        query = one.content(BEGINNING_US, old) if old > BEGINNING_US else None
        if query is None:
            return None
        return WindowContent(self._read(query), max(1, round(sum(b.rows for b in one.blocks))))

    def _keep(self, name: str, retained: list[Retained], plan: TickPlan) -> None:
        plan.retained[name] = [list(one.blocks) for one in retained]
        plan.pushing[name] = [list(one.pushing.blocks) if one.pushing else [] for one in retained]
        for number, one in enumerate(retained):
            if one.query is not None:
                plan.stores.append(StoreTask(name, number, one.query, one.columns, one.expected_rows))
            pushing = one.pushing
            if pushing is not None and pushing.query is not None:
                task = StoreTask(
                    name, number, pushing.query, pushing.columns, pushing.expected_rows, is_pushing=True
                )
                plan.stores.append(task)

    def _passed_on(self, name: str, rows: Rows, plan: TickPlan) -> Rows:
        """The output of an operator for its readers: computed once, counted if this tick counts."""
        if not self._network.readers(name):
            return rows
        if rows.query is None:
            self._count_apart(name, rows, plan)
            return rows
        several = self._prepared.physical_readers(name) > 1
        if not several and not plan.counting:
            return rows
        tuples = self._read(rows.query)
        if several:
            tuples = tuples.persist()
            plan.ready.append(tuples)
        if plan.counting:
            plan.counted[name] = Observation(f"output of {name}")
            tuples = tuples.observe(plan.counted[name], F.count(F.lit(1)).alias("rows"))
        return rows.named(self._store.views.define(f"output of {name}", tuples))

    def _count_apart(self, name: str, rows: Rows, plan: TickPlan) -> None:
        """Count the output of a selection that its readers evaluate themselves."""
        if plan.counting and not self._prepared.is_materialised(name) and rows.reader is not None:
            output = rows.reader(BEGINNING_US, END_US)
            if output is not None:
                plan.selected[name] = self._read(output)

    def _add_eddy(
        self, name: str, arrivals: Mapping[str, Arrival], plan: TickPlan, snapshot: EddySnapshot
    ) -> None:
        """An eddy in a tick: new tuples enter its queue, finished ones continue."""
        source, window = self._network.operators[name].inputs[0], self._inputs.window(name, 0)
        entering = self._inputs.entering(source, window, arrivals, plan)
        plan.progress[name] = BEGINNING_US
        plan.retained[name] = [list(snapshot.inside)]
        plan.moved[name] = Moved(plan.chosen.taken[name])
        if entering.query is not None:
            tuples = self._eddies.entering_tuples(name, self._read(entering.query))
            expected = max(entering.count, entering.upstream_rows)
            plan.stores.append(StoreTask(name, 0, tuples, tuples.schema, expected))
        finished = snapshot.finished
        comes = [entering.min_ts] if entering.query is not None else []
        oldest_ts = min([block.min_ts for block in snapshot.inside] + comes, default=END_US)
        view = None
        if (through := self._eddies.finished_tuples(name, snapshot)) is not None:
            view = self._store.views.define(f"through {name}", through)
        rows = Rows(
            query=view,
            count=sum(block.rows for block in finished),
            upstream_rows=sum(block.rows for block in finished),
            min_ts=min((block.min_ts for block in finished), default=END_US),
            max_ts=max((block.max_ts for block in finished), default=BEGINNING_US),
            # whatever keeps order waits for what is still inside
            progress_ts=min(entering.progress_ts, oldest_ts),
            idle=entering.idle and oldest_ts == END_US,
            spreads=tuple(block.spread for block in finished),
        )
        plan.rows[name] = self._passed_on(name, rows, plan)


def _cut(inputs: list[TickInput], old: int, bound: int, share: float, is_ordered: bool) -> int:
    """The timestamp below which ``share`` of the waiting tuples lie; never before the old one."""
    if share <= 0.0:
        return old
    lowest = old if is_ordered else BEGINNING_US
    spreads = [spread for one in inputs for spread in one.spreads(old, lowest, bound)]
    return max(old, min(bound, cut_at(spreads, share, bound)))

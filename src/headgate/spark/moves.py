"""Moves: how far each operator gets in a tick, and the fused plans that carry the tuples there.

An operator's progress is one timestamp, its frontier. Tuples between the frontiers of two operators
stand in the queue between them; a plan crosses as many operators as the frontiers allow, and a block is
stored only where a frontier stops it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headgate.model.operator import (
    Aggregate,
    Eddy,
    Operator,
    Project,
    RelationJoin,
    Select,
    StreamInput,
    WindowJoin,
    WindowUpdate,
)
from headgate.model.window import RowWindow, TimeWindow, UnboundedWindow, Window
from headgate.runtime.asking import Asking
from headgate.spark.blocks import BlockStore
from headgate.spark.columns import BEGINNING_US, END_US, FINAL, TS, tick_constant
from headgate.spark.compiled import Compiled
from headgate.spark.eddies.crossing import add_eddy, probed_since
from headgate.spark.eddies.eddies import Eddies
from headgate.spark.eddies.line import Standing
from headgate.spark.flow import Flow, Moved, StoreTask, TickPlan
from headgate.spark.intake import Inflow
from headgate.spark.landing import landed_schema
from headgate.spark.manifest import BlockRef, Manifest, OperatorState
from headgate.spark.plans import aggregate, running, simple
from headgate.spark.plans.rows import EXPIRY, EXPIRY_SEQ, timeline, with_expiry
from headgate.spark.plans.side import Side, between, union
from headgate.spark.plans.window_join import JoinInput, window_join
from headgate.spark.plans.window_update import arrivals
from headgate.spark.probing import Content, probes_of
from headgate.spark.spread import Spread, cut_at
from headgate.spark.trial import Trial


class Mover:
    """Builds a tick's plans, operator by operator in topological order."""

    def __init__(self, compiled: Compiled, store: BlockStore, eddies: Eddies, asking: Asking) -> None:
        self._compiled = compiled
        self._network = compiled.network
        self._store = store
        self._eddies = eddies
        self._asking = asking
        self._cuts = count()

    def _side(self, name: str, number: int, blocks: tuple[BlockRef, ...], flow: Flow) -> Side:
        """An input of an operator: what is stored for it, and what flows."""
        return Side(
            schema=self._compiled.inputs[name][number],
            blocks=blocks,
            fresh=flow.tuples,
            fresh_rows=flow.rows,
            fresh_made_of=max(flow.rows, flow.made_of),
            fresh_min_ts=flow.min_ts,
            fresh_max_ts=flow.max_ts,
            fresh_within=flow.within,
            fresh_spreads=flow.spreads,
        )

    def _source_flow(self, name: str, number: int, inflows: Mapping[str, Inflow], plan: TickPlan) -> Flow:
        source = self._network.operators[name].inputs[number]
        if not isinstance(source, StreamInput):
            return plan.flows[source.operator]
        inflow = inflows[source.stream]
        tuples = inflow.frame
        if tuples is not None:
            tuples = simple.intake(tuples, source, self._compiled.windows[name][number])
        frontier, part = inflow.state.frontier_ts, None
        if inflow.suffix is not None:
            read, window = inflow.suffix, self._compiled.windows[name][number]

            def part(from_ts: int, to_ts: int) -> DataFrame:
                return between(simple.intake(read(from_ts), source, window), from_ts, to_ts)

        return Flow(
            tuples,
            inflow.rows,
            inflow.min_ts,
            inflow.max_ts,
            frontier,
            inflow.released,
            inflow.spreads,
            part=part,
        )

    def add(
        self,
        name: str,
        before: Manifest,
        inflows: Mapping[str, Inflow],
        plan: TickPlan,
        flush: bool,
        standings: Mapping[str, Standing],
    ) -> None:
        """Plan an operator's part of the tick."""
        operator, share = self._network.operators[name], plan.chosen.shares[name]
        if isinstance(operator, Eddy):
            entering = self._source_flow(name, 0, inflows, plan)
            add_eddy(self._eddies, name, entering, standings[name], plan)
            plan.flows[name].tuples = plan.pass_on(name, plan.flows[name].tuples)
            plan.moved[name] = Moved(plan.chosen.taken[name])
            return
        state = before.operators.get(name, OperatorState(blocks=((),) * len(operator.inputs)))
        flows = [self._source_flow(name, i, inflows, plan) for i in range(len(operator.inputs))]
        sides = [self._side(name, i, state.blocks[i], flow) for i, flow in enumerate(flows)]
        old = state.frontier_ts
        bound = max(_bound(flows), old) if is_ordered(operator) else END_US
        if flush and isinstance(operator, Aggregate) and all(flow.released for flow in flows):
            # at the end of input, every boundary whose window holds tuples is due
            bound += _reach_us(operator.window) or 0
        new = bound if share >= 1.0 else self._cut(sides, old, bound, share, is_ordered(operator))
        plan.frontiers[name] = new
        if is_ordered(operator):
            self._add_ordered(operator, sides, old, new, before, inflows, plan, standings)
        else:
            self._add_simple(operator, sides[0], old, new, plan)
        flow = plan.flows[name]
        plan.moved[name] = Moved(flow.rows, sum(side.waiting_rows(old, new) for side in sides))
        # a queue is cut by how many tuples stand in it, stored ones and those to come
        flow.made_of = max(flow.rows, *(f.made_of for f in flows))
        flow.rows *= plan.chosen.selectivities[name]
        readers = self._network.readers(name)
        if len(readers) > 1:
            plan.compute_once(flow)
        if readers:
            flow.tuples = plan.pass_on(name, flow.tuples)
        # a cut leaves tuples behind: readers must not pass them, even if the stream holds nobody back
        flow.released = new >= bound and all(f.released for f in flows)
        flow.complete_ts = min(new, *(f.complete_ts for f in flows)) if not is_ordered(operator) else new

    def _cut(self, sides: list[Side], old: int, bound: int, share: float, ordered: bool) -> int:
        """The timestamp below which ``share`` of the waiting tuples lie; never before the old one."""
        if share <= 0.0:
            return old
        lowest = old if ordered else BEGINNING_US
        spreads = [spread for side in sides for spread in side.spreads(old, lowest, bound)]
        return max(old, min(bound, cut_at(spreads, share, bound)))

    def _add_simple(self, operator: Operator, side: Side, old: int, new: int, plan: TickPlan) -> None:
        taken = self._waiting(side, old, new, BEGINNING_US, END_US)
        kept = [block for block in side.blocks if block.max_ts >= new]
        plan.kept[operator.name] = [kept]
        if (left := side.fresh_within(new, END_US)) is not None:
            rows = side.fresh_made_of * (1 - side.fresh_share(new))
            plan.stores.append(StoreTask(operator.name, 0, left, rows))
        rows = side.fresh_rows * side.fresh_share(new) + side.waiting_rows(old, new)
        out = None
        if taken is not None:
            out = self._applied(operator, self._spread_out(taken, rows, new))
            if plan.trying and isinstance(operator, Select) and (alone := self._asking.to_try(operator)):
                plan.trials.append(Trial(operator.name, alone, taken, rows))
        low = min([side.fresh_min_ts, *[max(old, b.min_ts) for b in side.blocks]])
        high = max([side.fresh_max_ts, *[b.max_ts for b in side.blocks]])

        def part(from_ts: int, to_ts: int) -> DataFrame | None:
            tuples = self._waiting(side, old, new, from_ts, to_ts)
            return None if tuples is None else self._applied(operator, self._spread_out(tuples, rows, new))

        taken_from = side.spreads(old, BEGINNING_US, new)
        plan.flows[operator.name] = Flow(
            out, rows, low, min(high, new - 1), END_US, False, taken_from, part=part
        )

    def _waiting(self, side: Side, old: int, new: int, from_ts: int, to_ts: int) -> DataFrame | None:
        """What an operator takes, of that what lies between two timestamps; stragglers are fresh ones."""
        upto = min(new, to_ts)
        return union([side.stored(self._store, max(old, from_ts), upto), side.fresh_within(from_ts, upto)])

    def _spread_out(self, tuples: DataFrame, rows: float, new: int) -> DataFrame:
        """What a cut takes stands together: without this it would be the work of one task."""
        if new >= END_US or rows < _ROWS_TO_SPREAD:
            return tuples
        # Spark would ask predicates before it spreads, were it not for something to count in between
        spread = tuples.repartition(self._store.parallelism)
        return spread.observe(f"taken {next(self._cuts)}", F.count(F.lit(1)).alias("rows"))

    def _applied(self, operator: Operator, tuples: DataFrame) -> DataFrame:
        if isinstance(operator, Select):
            return simple.select(tuples, self._asking.order(operator))
        if isinstance(operator, RelationJoin):
            return simple.relation_join(tuples, operator, self._compiled.relations[operator.relation])
        assert isinstance(operator, Project)
        return simple.project(tuples, operator, self._compiled.timestamp(operator.name))

    def _add_ordered(
        self,
        operator: Operator,
        sides: list[Side],
        old: int,
        new: int,
        before: Manifest,
        inflows: Mapping[str, Inflow],
        plan: TickPlan,
        standings: Mapping[str, Standing],
    ) -> None:
        windows = self._compiled.windows[operator.name]
        timed = [
            self._timed(operator, number, side, window, old, new, inflows)
            for number, (side, window) in enumerate(zip(sides, windows, strict=True))
        ]
        if plan.probing and isinstance(operator, WindowJoin):
            plan.probes += probes_of(operator, [self._content(side) for side in sides])
        out = None
        if new > old:
            if isinstance(operator, WindowJoin):
                order = before.course.orders.get(operator.name)
                joining = [_join_input(*pair, old, new) for pair in timed]
                out = window_join(operator, joining, old, new, order)
            elif isinstance(operator, WindowUpdate):
                come = [side.tuples(self._store, old, new) for side in sides]
                out = arrivals(self._compiled.inputs[operator.name], come)
            else:
                assert isinstance(operator, Aggregate)
                out = self._aggregated(operator, timed[0][1], old, new, before, plan)
        rows = sum(side.fresh_rows * side.fresh_share(new) + side.waiting_rows(old, new) for side in sides)
        plan.kept[operator.name] = []
        since = min([new, *probed_since(self._network, operator.name, old, standings)])
        for number, ((side, tuples), window) in enumerate(zip(timed, windows, strict=True)):
            self._keep_window(operator.name, number, side, tuples, window, old, new, since, plan)
        emitted = (Spread.over(rows, (old, new - 1)),) if old > BEGINNING_US else ()
        plan.flows[operator.name] = Flow(out, rows, old, new - 1, new, False, emitted)

    def _content(self, side: Side) -> Content | None:
        stored = side.stored(self._store)
        return None if stored is None else Content(stored, sum(block.rows for block in side.blocks))

    def _timed(
        self,
        operator: Operator,
        number: int,
        side: Side,
        window: Window | None,
        old: int,
        new: int,
        inflows: Mapping[str, Inflow],
    ) -> tuple[Side, DataFrame | None]:
        """A side's tuples that this tick's results may need; row windows with their expiry."""
        if isinstance(window, RowWindow):
            tuples = side.tuples(self._store)
            return side, None if tuples is None else self._expiring(
                operator, number, tuples, window, old, inflows
            )
        reach = _reach_us(window)
        from_ts = BEGINNING_US if old <= BEGINNING_US or reach is None else old - reach
        if isinstance(window, UnboundedWindow):
            from_ts = old
        return side, side.tuples(self._store, from_ts, new)

    def _expiring(
        self,
        operator: Operator,
        number: int,
        tuples: DataFrame,
        window: RowWindow,
        old: int,
        inflows: Mapping[str, Inflow],
    ) -> DataFrame:
        stream = _stream_of(operator, number)
        state = inflows[stream].state
        if not state.landed:
            return with_expiry(tuples, window, None, 0)
        schema = landed_schema(self._compiled.raw[stream], self._compiled.landing[stream])
        landed = between(self._store.read(state.landed, schema), old, END_US).where(F.col(FINAL))
        rows = sum(block.rows_from(old) for block in state.landed)
        return with_expiry(tuples, window, timeline(landed, window), rows)

    def _aggregated(
        self,
        operator: Aggregate,
        tuples: DataFrame | None,
        old: int,
        new: int,
        before: Manifest,
        plan: TickPlan,
    ) -> DataFrame | None:
        if tuples is None:
            return None
        window = operator.window
        if isinstance(window, UnboundedWindow):
            return self._running(operator, tuples, before, plan)
        if isinstance(window, TimeWindow) and window.slide_us:
            return aggregate.sliding(operator, tuples, max(old, _EARLIEST), new)
        return aggregate.per_tuple(operator, between(tuples, BEGINNING_US, new), old)

    def _running(self, operator: Aggregate, tuples: DataFrame, before: Manifest, plan: TickPlan) -> DataFrame:
        state = before.operators.get(operator.name, OperatorState())
        schema = self._compiled.groups[operator.name]
        carried = self._store.read([state.groups], schema) if state.groups else None
        groups = running.carry(operator, tuples, carried)
        assert groups is not None
        rows = (state.groups.rows if state.groups else 0) + 1
        plan.stores.append(StoreTask(operator.name, None, groups, rows))
        return running.running(operator, tuples, carried)

    def _keep_window(
        self,
        name: str,
        number: int,
        side: Side,
        tuples: DataFrame | None,
        window: Window | None,
        old: int,
        new: int,
        since: int,
        plan: TickPlan,
    ) -> None:
        """Keep what waits, and what is inside of a window for tuples from ``since`` on."""
        if isinstance(window, RowWindow):
            plan.kept[name].append([])
            if tuples is None:
                return
            if side.fresh is None and new == old:
                plan.kept[name][-1] = list(side.blocks)
                return
            inside = (
                F.col(EXPIRY).isNull()
                | (F.col(EXPIRY) >= tick_constant(new))
                | (F.col(TS) >= tick_constant(new))
            )
            alive = tuples.where(inside).drop(EXPIRY, EXPIRY_SEQ)
            rows = side.fresh_made_of + sum(block.rows for block in side.blocks)
            plan.stores.append(StoreTask(name, number, alive, rows))
            return
        reach = _reach_us(window)
        from_ts = new if isinstance(window, UnboundedWindow) or reach is None else since - reach
        plan.kept[name].append([block for block in side.blocks if block.max_ts >= from_ts])
        if (left := side.fresh_within(from_ts, END_US)) is not None:
            rows = side.fresh_made_of * (1 - side.fresh_share(from_ts))
            plan.stores.append(StoreTask(name, number, left, rows))


# fewer tuples than this are not worth a shuffle
_ROWS_TO_SPREAD = 1_000
# sliding boundaries are counted from here when nothing has been emitted yet
_EARLIEST = -(2**60)


def _bound(flows: list[Flow]) -> int:
    """How far an operator that keeps order may get: the progress of its slowest input."""
    holding = [flow.complete_ts for flow in flows if not flow.released]
    return min(holding) if holding else max(flow.complete_ts for flow in flows)


def _stream_of(operator: Operator, number: int) -> str:
    """The stream whose tuples an input of an ordered operator holds."""
    if isinstance(operator, WindowUpdate):
        return operator.sides[number].stream
    assert isinstance(operator, Aggregate)
    return operator.stream


def is_ordered(operator: Operator) -> bool:
    """Whether the operator consumes its inputs in timestamp order."""
    return isinstance(operator, (WindowUpdate, Aggregate))


def _reach_us(window: Window | None) -> int | None:
    return window.reach_us if isinstance(window, TimeWindow) else None


def _join_input(side: Side, tuples: DataFrame | None, old: int, new: int) -> JoinInput | None:
    if tuples is None:
        return None
    fresh = side.fresh_rows * side.fresh_share(new)
    new_rows = fresh + side.waiting_rows(old, new)
    old_rows = sum(block.rows for block in side.blocks) - side.waiting_rows(old)
    return JoinInput(between(tuples, BEGINNING_US, new), old_rows, new_rows)

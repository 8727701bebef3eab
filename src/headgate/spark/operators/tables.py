"""Rankings, and tables: the current rows of queries whose results change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql.types import StructType

from headgate.model.expression import AggregateExpression, Expression
from headgate.model.operator import Table, Top
from headgate.model.sql_tree import column_tree
from headgate.model.table import RANK, Groups, Held, Named, Ranked, RankedState, Ranking, Step, Where
from headgate.spark import sql
from headgate.spark.blocks import BlockStore
from headgate.spark.manifest import BlockRef
from headgate.spark.operators import aggregate
from headgate.spark.operators.base import (
    OperatorContext,
    Results,
    SparkOperator,
    Stretch,
    orderable,
    spark_operator,
)
from headgate.spark.operators.inputs import StoreTask, TickInput
from headgate.spark.operators.stateless import TIMESTAMP
from headgate.spark.sql import BEGINNING_US, TS

LAST = AggregateExpression("$last", "MAX", Expression(column_tree(TS)))
"""Of every group, the timestamp of its last tuple."""


def first_rows(ranking: Ranking, rows: str, within: Sequence[str], ties: Sequence[str]) -> str:
    """The first rows of every partition ``within`` some columns, with their ranks.

    Rows that are equal in the order of the ranking are ordered by ``ties``, so that a row number does not
    depend on how rows are divided among tasks and ticks.
    """
    by = [*within, *(key.text for key in ranking.keys)]
    order = [*map(str, ranking.order), *(ties if ranking.function == "ROW_NUMBER" else ())]
    partition = f"PARTITION BY {', '.join(by)} " if by else ""
    rank = f"{ranking.function.lower()}() OVER ({partition}ORDER BY {', '.join(order)})"
    ranked = sql.select(["*", f"{rank} AS {sql.name(RANK)}"], rows)
    return sql.select(["*"], ranked, [f"{sql.name(RANK)} <= {ranking.rows}"])


class TopOperator(SparkOperator):
    """Passes on the first rows of every instant."""

    settings: Top

    def results(self, inputs: Sequence[TickInput], stretch: Stretch) -> Results:
        """The first rows of instants between the old and the new progress."""
        [one] = inputs
        rows = stretch.content(one)
        return Results(rows and self.top(rows), [one.retain(stretch.new_ts)])

    def top(self, rows: str) -> str:
        """The first rows, with their ranks."""
        return first_rows(self.settings.ranking, rows, [sql.name(TS)], orderable(self.inputs[0]))


class TableOperator(SparkOperator):
    """Emits all current rows after a change; its state is carried from tick to tick."""

    settings: Table

    def __init__(self, settings: Table, timestamp: str, store: BlockStore) -> None:
        super().__init__(settings)
        self._timestamp = timestamp
        self._store = store
        self.types: dict[str, str] = {}
        """Types of the aggregates of its state; set when the network is prepared."""
        self.columns = StructType([])
        """Columns of its state; set when the network is prepared."""

    def results(self, inputs: Sequence[TickInput], stretch: Stretch) -> Results:
        """The current rows, if there are new tuples, and the state to carry."""
        [one] = inputs
        if isinstance(self.settings.state, Held):
            return self._held(one, self.settings.state, stretch)
        retained = [one.retain(stretch.new_ts)]
        tuples = stretch.content(one)
        if tuples is None:
            return Results(None, retained)
        kept = stretch.state.groups
        carried = self._store.view(f"state of {self.name}", kept, self.columns) if kept else None
        state = self.state(tuples, carried)
        rows = 1 + sum(block.rows for block in kept) + one.rows.count
        store = StoreTask(self.name, None, state, self.columns, rows)
        return Results(self.emitted(tuples, carried, state), retained, [store], groups=())

    def _held(self, one: TickInput, state: Held, stretch: Stretch) -> Results:
        """The rows at the last instant that has been reached; time alone changes them, too."""
        from_ts = max(BEGINNING_US, stretch.new_ts - 1 - state.range_us)
        retained = [one.retain(from_ts)]
        if stretch.new_ts <= stretch.old_ts:
            return Results(None, retained)
        tuples = one.content(from_ts, stretch.new_ts) or self._nothing
        return Results(self.rows(self.state(tuples, None)), retained)

    @property
    def _nothing(self) -> str:
        """No tuples, with the columns of the input."""
        nulls = [
            f"CAST(NULL AS {f.dataType.simpleString()}) AS {sql.name(f.name)}" for f in self.inputs[0].fields
        ]
        return f"SELECT {sql.listed(nulls)}\nFROM range(0)"

    def emitted(self, tuples: str, carried: str | None, state: str) -> str:
        """All current rows, after these tuples have changed the state."""
        del tuples, carried
        return self.rows(state)

    def current(self, kept: Sequence[BlockRef]) -> str:
        """The current rows, from the blocks of its state."""
        return self.rows(self._store.view(f"state of {self.name}", kept, self.columns))

    def state(self, tuples: str, carried: str | None) -> str:
        """The state after these tuples."""
        state = self.settings.state
        if isinstance(state, Groups):
            timed = replace(state, aggregates=(*state.aggregates, LAST))
            # an aggregate without keys has a row, even over no tuples
            return aggregate.carry(timed, tuples, carried, without_keys="")
        if isinstance(state, Held):
            return sql.select(sql.names([TS, *state.columns]), tuples)
        return self._first_rows(state, tuples, carried)

    def _first_rows(self, state: RankedState, tuples: str, carried: str | None) -> str:
        names = sql.names([TS, *state.columns])
        both = sql.union([carried and sql.select(names, carried), sql.select(names, tuples)])
        assert both is not None
        known = StructType([f for f in self.inputs[0].fields if f.name in state.columns])
        return first_rows(state.ranking, both, (), orderable(known))

    def rows(self, state: str) -> str:
        """The current rows, computed from the state."""
        own = self.settings.state
        if isinstance(own, Groups):
            values = [f"{text} AS {sql.name(name)}" for name, text in aggregate.final(own, self.types)]
            ts = f"{sql.name(f'{LAST.name}_max')} AS {sql.name(TS)}"
            rows, columns = sql.select([ts, *aggregate.group_names(own), *values], state), _columns(own)
        else:
            rows, columns = state, [*own.columns, *([] if isinstance(own, Held) else [RANK])]
        *before, last = self.settings.steps
        assert isinstance(last, Named), "a select list is the last step"
        for step in before:
            rows, columns = applied(step, rows, columns)
        shown = [f"{self._timestamp} AS {TIMESTAMP}", *map(sql.aliased, last.items), sql.name(TS)]
        return sql.select(shown, rows)


def applied(step: Step, rows: str, columns: Sequence[str]) -> tuple[str, list[str]]:
    """Rows after a step, and their columns."""
    own = sql.name(TS)
    if isinstance(step, Where):
        return sql.select(["*"], rows, [sql.conjunction(step.predicates)]), [*columns]
    if isinstance(step, Ranked):
        ranked = first_rows(step.ranking, rows, (), sql.names([TS, *columns]))
        return ranked, [*columns, RANK]
    if isinstance(step, Named):
        return sql.select([own, *map(sql.aliased, step.items)], rows), [item.name for item in step.items]
    assert isinstance(step, Groups)
    groups = aggregate.group_names(step)
    values = [f"{text} AS {sql.name(call.name)}" for call, text in aggregate.direct(step)]
    grouped = sql.select([f"max({own}) AS {own}", *groups, *values], aggregate.keyed(step, rows, [TS]))
    by = f"\nGROUP BY {', '.join(groups)}" if groups else ""
    return grouped + by, _columns(step)


def _columns(groups: Groups) -> list[str]:
    return [*(key.name for key in groups.keys), *(call.name for call in groups.aggregates)]


@spark_operator.register
def _top(settings: Top, context: OperatorContext) -> SparkOperator:
    del context
    return TopOperator(settings)


@spark_operator.register
def _table(settings: Table, context: OperatorContext) -> SparkOperator:
    return TableOperator(settings, context.timestamp(settings.name), context.store)

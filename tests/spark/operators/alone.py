"""An operator by itself: lists of tuples stand in for the logs of streams and for stored blocks.

``Alone`` takes an operator through ticks. After each, it drops all that the operator did not ask to keep, so
what an operator retains is shown to be enough by its results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, LongType, StructField, StructType
from tests.oracle.brute_force import Results, Tuple

from headgate.model.expression import Expression, column_of
from headgate.model.network import StreamDefinition
from headgate.model.operator import Select
from headgate.model.operator_inputs import StreamInput
from headgate.model.window import RowWindow, UntilWindow, Window
from headgate.spark import sql
from headgate.spark.blocks import ONE_TASK_ROWS
from headgate.spark.manifest import BlockRef, OperatorState
from headgate.spark.operators.base import SparkOperator, Stretch
from headgate.spark.operators.inputs import LogInput, QueueInput, Retained, TickInput
from headgate.spark.rows import NOTHING, Rows, Spread
from headgate.spark.sql import END_US, SEQ, TS, UNTIL, window_key
from headgate.spark.stream_log import LogSchema
from headgate.statistics.store import PredicateEstimates, PredicateOrder

COLUMNS = ("k", "v")
_USER = StructType([StructField(name, IntegerType()) for name in COLUMNS])


class Tables:
    """Blocks by path, read as VALUES; both a log of streams and a store of blocks."""

    def __init__(self, streams: Iterable[str] = ("s",), is_numbered: bool = True) -> None:
        self.schemas = {
            name: LogSchema(StreamDefinition(name, "csv", None), _USER, None, "k", is_numbered, False)
            for name in streams
        }
        self.one_task_rows = ONE_TASK_ROWS
        self._blocks: dict[str, tuple[StructType, list[tuple[Any, ...]]]] = {}

    def put(
        self, struct: StructType, rows: Sequence[tuple[Any, ...]], first_seq: int | None = None
    ) -> BlockRef | None:
        """A block of rows; none if there are none."""
        if not rows:
            return None
        path = f"block {len(self._blocks)}"
        self._blocks[path] = struct, list(rows)
        times = [row[struct.names.index(TS)] for row in rows] if TS in struct.names else [0]
        return BlockRef(path, len(rows), 8 * len(rows), min(times), max(times), first_seq=first_seq)

    def view(self, name: str, blocks: Sequence[BlockRef], schema: StructType | None = None) -> str:
        """The rows of some blocks."""
        del name
        found = [self._blocks[block.path] for block in blocks]
        struct = schema or found[0][0]
        places = [[own.names.index(column) for column in struct.names] for own, _ in found]
        rows = [
            tuple(row[i] for i in order) for order, (_, own) in zip(places, found, strict=True) for row in own
        ]
        return values(struct, rows)


def values(struct: StructType, rows: Sequence[tuple[Any, ...]]) -> str:
    """Rows as the text of a query."""
    items = [
        f"CAST(col{place} AS {f.dataType.simpleString()}) AS {sql.name(f.name)}"
        for place, f in enumerate(struct.fields, start=1)
    ]
    if not rows:
        nothing = ", ".join(["NULL"] * len(items))
        return f"SELECT {', '.join(items)} FROM VALUES ({nothing}) WHERE FALSE"
    return f"SELECT {', '.join(items)} FROM VALUES {', '.join(map(_listed, rows))}"


def _listed(row: tuple[Any, ...]) -> str:
    return f"({', '.join('NULL' if value is None else repr(value) for value in row)})"


def side_struct(alias: str, window: Window | None, is_numbered: bool = True) -> StructType:
    """The columns of an input of ours, inside a plan."""
    fields = [StructField(TS, LongType())]
    if is_numbered and window is not None:
        keys = window.keys if isinstance(window, RowWindow) else ()
        fields += [StructField(SEQ, LongType())]
        fields += [StructField(window_key(i), IntegerType()) for i in range(len(keys))]
    if isinstance(window, UntilWindow):
        fields.append(StructField(UNTIL, LongType()))
    return StructType([*fields, *(StructField(column_of(alias, c), IntegerType()) for c in COLUMNS)])


def stream_input(alias: str, stream: str = "s") -> StreamInput:
    """All columns of a stream."""
    return StreamInput(stream, alias, COLUMNS)


def at_least(alias: str, least: int) -> Select:
    """A selection that both a log and a queue can stand behind."""
    column = column_of(alias, "v")
    return Select(f"select {alias}", stream_input(alias), (Expression.parse(f"{column} >= {least}"),))


@dataclass(frozen=True)
class Tick:
    """How many tuples of each side have arrived by then, and how far the operator goes."""

    arrived: tuple[int, ...]
    new_ts: int


@dataclass
class Feed:
    """One input: tuples in timestamp order, those with a value of at least ``least`` if there is one.

    ``is_queue`` tells whether the operator reads them from a queue of its own rather than from the log.
    """

    alias: str
    tuples: Sequence[Tuple]
    window: Window | None
    least: int | None = None
    is_queue: bool = False
    is_numbered: bool = True
    stream: str = "s"

    @property
    def struct(self) -> StructType:
        """Its columns inside a plan."""
        return side_struct(self.alias, self.window, self.is_numbered)

    def passes(self, tuple_: Tuple) -> bool:
        """Whether a tuple gets through the selection below."""
        value = tuple_.row["v"]
        return self.least is None or (value is not None and value >= self.least)

    def log(
        self, tables: Tables, blocks: Sequence[BlockRef], since: int, upto: int, selected: bool
    ) -> LogInput:
        """The log, with the tuples that come now as a fresh block."""
        come = self.tuples[since:upto]
        rows = [
            (t.row["k"], t.row["v"], t.ts, *([since + i] if self.is_numbered else []))
            for i, t in enumerate(come)
        ]
        fresh = tables.put(tables.schemas[self.stream].struct, rows, since if self.is_numbered else None)
        return LogInput(
            logs=tables,  # type: ignore[arg-type]
            source=stream_input(self.alias, self.stream),
            window=self.window,
            selects=(at_least(self.alias, self.least),) if selected and self.least is not None else (),
            predicate_order=PredicateOrder({}, {}, PredicateEstimates({})),
            blocks=tuple(blocks),
            fresh=() if fresh is None else (fresh,),
            rows=counted(come),
        )

    def flowing(self, since: int, upto: int) -> Rows:
        """What the operator below a queue passes on."""
        come = [(i, self.tuples[i]) for i in range(since, upto) if self.passes(self.tuples[i])]
        if not come:
            return NOTHING
        keys = self.window.keys if isinstance(self.window, RowWindow) else ()
        rows = []
        for i, t in come:
            system = [i, *(t.row[key] for key in keys)] if SEQ in self.struct.names else []
            if isinstance(self.window, UntilWindow):
                # the value is when the tuple ends, in seconds
                system.append(None if t.row["v"] is None else t.row["v"] * 1_000_000)
            rows.append((t.ts, *system, *(t.row[c] for c in COLUMNS)))
        return counted([t for _, t in come], values(self.struct, rows))


def counted(tuples: Sequence[Tuple], query: str | None = None) -> Rows:
    """What is known of tuples that come in a tick."""
    if not tuples:
        return NOTHING
    times = [tuple_.ts for tuple_ in tuples]
    spread = Spread.over(len(times), (min(times), max(times)))
    return Rows(query, len(times), len(times), min(times), max(times), END_US, spreads=(spread,))


@dataclass
class Alone:
    """Carries an operator through ticks, with nothing in between but what it retains."""

    spark: SparkSession
    operator: SparkOperator
    feeds: Sequence[Feed]
    tables: Tables
    state: OperatorState = field(init=False)
    most_kept_tuples: int = 0

    def __post_init__(self) -> None:
        nothing: tuple[tuple[BlockRef, ...], ...] = ((),) * len(self.feeds)
        self.state = OperatorState(blocks=nothing, pushing=nothing)
        self.operator.inputs = tuple(feed.struct for feed in self.feeds)

    def run(self, ticks: Sequence[Tick]) -> Results:
        """The results of all ticks."""
        found: Results = Counter()
        arrived = (0,) * len(self.feeds)
        for tick in ticks:
            found.update(self._tick(arrived, tick))
            arrived = tick.arrived
        return found

    def _tick(self, arrived: tuple[int, ...], tick: Tick) -> list[tuple[Any, ...]]:
        inputs = [
            self._input(number, feed, arrived[number], tick.arrived[number])
            for number, feed in enumerate(self.feeds)
        ]
        old = self.state.progress_ts
        results = self.operator.results(inputs, Stretch(old, tick.new_ts, tick.new_ts, self.state))
        found = self._collected(results.query) if results.query is not None else []
        groups = list(self.state.groups if results.groups is None else results.groups)
        for task in results.stores:
            assert isinstance(task.tuples, str) and task.operator == self.operator.name
            if (block := self._stored(task.tuples, task.level)) is not None:
                groups.append(block)
        self.state = OperatorState(
            tick.new_ts,
            tuple(self._kept(one) for one in results.retained),
            tuple(groups),
            tuple(self._kept(one.pushing) for one in results.retained),
        )
        kept = [block for side in self.state.blocks for block in side]
        self.most_kept_tuples = max(self.most_kept_tuples, sum(block.rows for block in kept))
        return found

    def _input(self, number: int, feed: Feed, since: int, upto: int) -> TickInput:
        blocks = self.state.blocks[number]
        if not feed.is_queue:
            return feed.log(self.tables, blocks, since, upto, selected=True)
        below = None
        if isinstance(feed.window, RowWindow):
            below = feed.log(self.tables, self.state.pushing[number], since, upto, selected=False)
        rows = feed.flowing(since, upto)
        return QueueInput(self.tables, feed.alias, feed.struct, blocks, rows, below)  # type: ignore[arg-type]

    def _collected(self, query: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.spark.sql(query).collect()]

    def _kept(self, retained: Retained | None) -> tuple[BlockRef, ...]:
        if retained is None:
            return ()
        stored = None if retained.query is None else self._stored(retained.query, None)
        return (*retained.blocks, *([] if stored is None else [stored]))

    def _stored(self, query: str, level: int | None) -> BlockRef | None:
        frame = self.spark.sql(query)
        block = self.tables.put(frame.schema, [tuple(row) for row in frame.collect()])
        if block is None or level is None:
            return block
        return BlockRef(block.path, block.rows, block.bytes, block.min_ts, block.max_ts, step=level)


def random_tuples(
    rng: Random, most: int = 14, times: Sequence[int] = range(-6, 7), unit_us: int = 1_000_000
) -> list[Tuple]:
    """A stream in timestamp order, with equal timestamps and nulls."""
    drawn = sorted(rng.choice(times) for _ in range(rng.randint(most // 2, most)))
    rows = [{"k": rng.choice((None, 0, 0, 1, 1)), "v": rng.choice((None, *range(-3, 4)))} for _ in drawn]
    return [Tuple(ts * unit_us, row) for ts, row in zip(drawn, rows, strict=True)]


def random_ticks(rng: Random, sides: Sequence[Sequence[Tuple]], end_us: int = 1, most: int = 3) -> list[Tick]:
    """Ticks in which an operator goes no further than what has arrived; the last one takes all.

    ``end_us`` is how far it goes beyond the last tuple in the end.
    """
    last = max(side[-1].ts for side in sides) + end_us
    found: list[Tick] = []
    arrived, old = (0,) * len(sides), min(side[0].ts for side in sides) - 5
    for left in range(rng.randint(1, most) - 1, 0, -1):
        # about as many tuples in every tick
        arrived = tuple(
            rng.randint(before, before + 2 * (len(side) - before) // (left + 1))
            for before, side in zip(arrived, sides, strict=True)
        )
        bound = min([last, *(s[n].ts for s, n in zip(sides, arrived, strict=True) if n < len(s))])
        edges = {edge for side in sides for t in side for edge in (t.ts, t.ts + 1) if old <= edge <= bound}
        old = max(old, rng.choice([bound, bound, *sorted({old, *edges})]))
        found.append(Tick(arrived, old))
    return [*found, Tick(tuple(map(len, sides)), last)]


def at_once(sides: Sequence[Sequence[Tuple]], end_us: int = 1) -> list[Tick]:
    """One tick with everything in it."""
    return [Tick(tuple(map(len, sides)), max(side[-1].ts for side in sides) + end_us)]

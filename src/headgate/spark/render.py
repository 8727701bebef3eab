"""The SQL of a query in a steady tick, for people to read (``explain --after sql``).

It is built by the same code as a tick, over empty blocks, as if windows, queues and groups held tuples, every
stream delivered new ones, no queue were cut, and inputs were small. ``:old`` and ``:new`` are an operator's
progress before and after the tick. The view of a stream holds the blocks of its log that the operator reads:
retained and new ones, or new ones alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headgate.model.event import StreamCounts
from headgate.model.network import Network, QueryDefinition
from headgate.model.operator import Eddy
from headgate.model.window import RowWindow, Window
from headgate.spark import sql
from headgate.spark.arrival.intake import Arrival
from headgate.spark.attempts import Attempts
from headgate.spark.blocks import BlockStore
from headgate.spark.build import TickBuilder
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.eddies.queue import EddySnapshot
from headgate.spark.file_system import Files
from headgate.spark.manifest import BlockRef, Manifest, OperatorState, StreamState
from headgate.spark.operators.base import SparkOperator
from headgate.spark.prepare import Functions, Preparation
from headgate.spark.prepared import Prepared
from headgate.spark.rows import Rows
from headgate.spark.sources import Sources
from headgate.spark.stream_log import StreamLogs
from headgate.spark.tick_plan import Chosen, TickPlan
from headgate.statistics.store import PredicateEstimates

# so far apart that a boundary of any window lies between them
_OLD, _NEW = sql.Symbol(0, ":old"), sql.Symbol(2**50, ":new")
# tuples that enter an eddy hold its readers back, which must still progress
_FIRST_COMES_AT = sql.Symbol(_NEW - 1, _NEW.text)
# tuples of a block lie on both sides of the bounds, so that none of these is omitted
_MIN_TS, _MAX_TS = -(2**60), 2**60
_ROWS = 1_000
# sequence number of the first tuple that arrives in the tick
_FIRST_NEW_SEQ = 2**40
_FRESH = "new"


def query_texts(
    spark: SparkSession,
    network: Network,
    sources: Sources,
    functions: Functions,
    predicates: PredicateEstimates,
) -> dict[str, str]:
    """The text of every query, by name; no query runs."""
    files = Files(spark)
    store = _NoBlocks(spark, files, Checkpoint(files, ""))
    prepared = Preparation(spark, network, sources, functions, store, predicates).run()
    return _SteadyTick(prepared, _NoLogs(spark, sources, store, prepared.logs), store).texts()


class _NoBlocks(BlockStore):
    """Blocks without tuples."""

    def read(self, blocks: Sequence[BlockRef], schema: StructType) -> DataFrame:
        """No tuples."""
        del blocks
        return self.empty(schema)


class _NoLogs(StreamLogs):
    """Logs without tuples, as views whose names show what a tick would read."""

    def view(self, stream: str, blocks: Sequence[BlockRef]) -> str:
        """A view named after its stream."""
        all_new = all(block.path == _FRESH for block in blocks)
        view = sql.name(f"new {stream}" if all_new else stream)
        self._store.empty(self.schemas[stream].struct).createOrReplaceTempView(view)
        return view


class _NoEddies:
    """Eddies without tuples."""

    def __init__(self, prepared: Prepared, store: BlockStore) -> None:
        self._prepared = prepared
        self._store = store

    def entering_tuples(self, eddy: str, tuples: DataFrame) -> DataFrame:
        """The tuples unchanged."""
        del eddy
        return tuples

    def finished_tuples(self, eddy: str, snapshot: EddySnapshot) -> DataFrame:
        """No tuples."""
        del snapshot
        return self._store.empty(self._prepared.operators[eddy].output)


class _SteadyTick(TickBuilder):
    """Builds a tick in the middle of a run, and records the text behind each view."""

    def __init__(self, prepared: Prepared, logs: StreamLogs, store: BlockStore) -> None:
        super().__init__(prepared, logs, store, _NoEddies(prepared, store), Attempts(prepared, store))
        self._shared: dict[str, tuple[str, str]] = {}
        self._entering: dict[str, str] = {}

    def texts(self) -> dict[str, str]:
        """The text of every query."""
        operators = self._prepared.operators
        before = Manifest(operators={name: _state(operator) for name, operator in operators.items()})
        arrivals = {name: _arrival() for name in self._network.streams}
        eddies = [name for name, operator in operators.items() if isinstance(operator.settings, Eddy)]
        snapshots = {name: EddySnapshot(finished=(_block(name),)) for name in eddies}
        everything, nothing = dict.fromkeys(operators, 1.0), dict.fromkeys(operators, 0.0)
        plan = TickPlan(Chosen(everything, taken=nothing, selectivities=everything))
        try:
            for name in operators:
                self.add(name, before, arrivals, plan, False, snapshots)
            return {query.name: self._text(query, plan) for query in self._network.queries.values()}
        finally:
            plan.release()

    def _text(self, query: QueryDefinition, plan: TickPlan) -> str:
        names = self._network.operators_of(query.name)
        notes = [self._entering[name] for name in names if name in self._entering]
        shared = [self._shared[name] for name in names if name in self._shared]
        views = ",\n".join(f"{view} AS {sql.relation(sql.as_query(text))}" for view, text in shared)
        return "\n".join([*notes, *([f"WITH {views}"] if views else []), self.results(query, plan) or ""])

    def _read(self, query: str) -> DataFrame:
        return self._store.spark.sql(sql.as_query(query), {"old": int(_OLD), "new": int(_NEW)})

    def _passed_on(self, name: str, rows: Rows, plan: TickPlan) -> Rows:
        passed_on = super()._passed_on(name, rows, plan)
        if passed_on.query is not None and rows.query is not None and passed_on.query != rows.query:
            self._shared[name] = passed_on.query, rows.query
        return passed_on

    def _add_eddy(
        self, name: str, arrivals: Mapping[str, Arrival], plan: TickPlan, snapshot: EddySnapshot
    ) -> None:
        super()._add_eddy(name, arrivals, plan, snapshot)
        source, window = self._network.operators[name].inputs[0], self._inputs.window(name, 0)
        entering = self._inputs.entering(source, window, arrivals, plan).query
        if entering is not None:
            note = f"{sql.name(f'through {name}')} is what has come out of the eddy, into which goes:"
            lines = [note, *sql.as_query(entering).split("\n")]
            self._entering[name] = "\n".join(f"-- {line}" for line in lines)


def _state(operator: SparkOperator) -> OperatorState:
    """An operator's state after some ticks; stateless operators have no blocks."""
    if not operator.is_ordered:
        return OperatorState(blocks=((),) * len(operator.settings.inputs))
    blocks = tuple((_kept(window),) for window in operator.windows)
    return OperatorState(_OLD, blocks, groups=(_block("groups"),), pushing=blocks)


def _kept(window: Window | None) -> BlockRef:
    """A full row window, so that new tuples push others out."""
    rows = window.rows if isinstance(window, RowWindow) else _ROWS
    return _block("kept", rows, _FIRST_NEW_SEQ - rows)


def _arrival() -> Arrival:
    rows = Rows(None, _ROWS, _ROWS, _FIRST_COMES_AT, _MAX_TS, progress_ts=_NEW)
    return Arrival(StreamState(), (_block(_FRESH, first_seq=_FIRST_NEW_SEQ),), rows, StreamCounts())


def _block(path: str, rows: int = _ROWS, first_seq: int | None = None) -> BlockRef:
    return BlockRef(path, rows, 0, _MIN_TS, _MAX_TS, first_seq=first_seq, step=0)

"""A session: all that the command line, the dashboard and library users call."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from headgate import cql
from headgate.control.admission import Refused, check_admission, with_machine_bounds
from headgate.control.overrides import FixedController, Overrides, has_orders
from headgate.cql.measure import parse_duration_us
from headgate.cql.statement import CreateFunction, CreateQuery
from headgate.errors import SetupError
from headgate.handle import Launcher, Run, RunSettings, duration_s, locate
from headgate.model.network import FunctionDefinition, Network, RelationDefinition, StreamDefinition
from headgate.model.profile import Profiles
from headgate.placed import located_function, plain_function, router_for_run
from headgate.planning.catalog import Catalog
from headgate.planning.logical import LogicalPlan
from headgate.planning.lower import Stages
from headgate.routing.policies import Router
from headgate.runtime.drive import Observer
from headgate.scheduling import Strategy, strategy_named
from headgate.scheduling.baselines import Fifo
from headgate.statistics.profile_file import Measured
from headgate.statistics.profiling import Profiler, Sampling, rests, sampled
from headgate.statistics.store import PredicateEstimates, StatisticsStore

# task slots for pools, in addition to the processors: two jobs of an eddy overlap, besides those of another
POOL_TASKS = 4
# least ticks of a profiling round: fewer prove nothing
_TICKS_PER_ROUND = 3


class Session:
    """Continuous queries over one Spark application.

    >>> session = Session()
    >>> session.execute("CREATE STREAM ...; CREATE QUERY q AS SELECT ...")
    >>> run = session.start(until_done=True)
    >>> run.wait()
    >>> run.arrow("q")
    """

    def __init__(self, spark: Any = None, master: str = "local[*]") -> None:
        from headgate.spark.sinks import SINK_FORMATS
        from headgate.spark.sources import RELATION_FORMATS, STREAM_FORMATS

        self._given = spark
        self._master = master
        self._registered: dict[str, tuple[Callable[..., Any], str | None]] = {}
        self.catalog = Catalog(
            lambda source: self._sources.schema_of(source),
            known_sources=sorted({*STREAM_FORMATS, *RELATION_FORMATS}),
            known_sinks=SINK_FORMATS,
        )
        self._callbacks: dict[str, Callable[[Any, int], None]] = {}
        self._functions: dict[str, Callable[..., Any]] = {}
        self.measured: Measured | None = None
        """Statistics of an earlier run or profile; with them, queries are admitted by their bounds."""
        self.warnings: tuple[str, ...] = ()
        """What admission could not check, and queries that it admits although they do not fit."""
        self._planned: tuple[int, Stages] | None = None

    @cached_property
    def _spark(self) -> Any:
        """Started on first use, when it is known whether there are pools."""
        from headgate.spark.application.cluster import own_session, private_session

        tasks = POOL_TASKS if self.catalog.pools else 0
        found = private_session(self._given or own_session(self._master, tasks))
        for name, (fn, returns) in self._registered.items():
            found.udf.register(name, fn, returns)
        return found

    @cached_property
    def _sources(self) -> Any:
        from headgate.spark.file_system import Files
        from headgate.spark.sources import Sources

        return Sources(self._spark, Files(self._spark))

    def execute(self, text: str, origin: str = "<cql>", force: bool = False) -> Session:
        """Declare the streams, relations and queries of a CQL text.

        Raises ``Refused`` if, according to a profile, a query would exceed its latency or memory bound, or
        make another one exceed its own; none of the text's queries is declared then. ``force`` admits them
        all the same.
        """
        new = []
        for statement in cql.parse(text, origin):
            self.catalog.declare(statement)
            if isinstance(statement, CreateQuery):
                new.append(statement.name.text)
            elif isinstance(statement, CreateFunction):
                found = located_function(statement.location.text, statement.location.span)
                self.function(statement.name.text, found, statement.returns)
        if self.measured is not None and new and not force:
            try:
                self.warnings = check_admission(self.network(), new, self.measured)
            except Refused:
                for name in new:
                    self.catalog.drop_query(name)
                raise
        return self

    def stream(
        self,
        name: str,
        df: Any,
        timestamp: str | None = None,
        watermark: str = "0 s",
        idle_after: str = "10 s",
        slack: str | None = None,
    ) -> Session:
        """Declare a streaming DataFrame as a stream; ``slack`` is the old name of ``watermark``."""
        if not df.isStreaming:
            advice = "use session.relation, or readStream"
            raise SetupError(f"stream {name}: the DataFrame is not streaming; {advice}")
        from headgate.spark.sources import schema_from

        self._sources.frames[name] = df
        declared = StreamDefinition(
            name=name,
            format="dataframe",
            schema=schema_from(df.schema),
            timestamp=timestamp,
            watermark_delay_us=parse_duration_us(slack or watermark),
            idle_after_us=parse_duration_us(idle_after),
        )
        self.catalog.add_stream(declared)
        return self

    def relation(self, name: str, df: Any) -> Session:
        """Declare a DataFrame as a stored relation."""
        if df.isStreaming:
            raise SetupError(f"relation {name}: the DataFrame is streaming; use session.stream")
        from headgate.spark.sources import schema_from

        self._sources.frames[name] = df
        self.catalog.add_relation(RelationDefinition(name, "dataframe", schema_from(df.schema)))
        return self

    def function(self, name: str, fn: Callable[..., Any], returns: str = "string") -> Session:
        """Register a Python function (or a Spark UDF) for use in expressions."""
        from headgate.spark.user_functions import declared

        of_udf = getattr(fn, "returnType", None)
        self._registered[name] = (declared(name, fn, returns), returns) if of_udf is None else (fn, None)
        if "_spark" in vars(self):
            self._spark.udf.register(name, *self._registered[name])
        if of_udf is not None:
            returns = of_udf.simpleString()
        self._functions[name.lower()] = plain_function(fn)
        self.catalog.add_function(FunctionDefinition(name, returns))
        return self

    def callback(
        self, name: str, fn: Callable[[Any, int], None], timeout: str | float | None = None
    ) -> Session:
        """Register a function for INTO callback: called with an Arrow table and its batch id.

        A run fails if a call takes longer than ``timeout`` (a number of seconds, or '60 s'). Without a
        timeout it waits, and gives a call up only ten seconds after ``Run.stop``.
        """
        from headgate.spark.sinks import TimedCallback

        if not callable(fn):
            raise SetupError(f"callback {name}: {fn!r} cannot be called")
        self._callbacks[name] = fn if timeout is None else TimedCallback(fn, duration_s(timeout))
        return self

    def plans(self) -> list[LogicalPlan]:
        """The bound queries."""
        return list(self._stages().bound)

    def network(self) -> Network:
        """The operators that would run."""
        return self._stages().lowered

    def _stages(self) -> Stages:
        """All queries, planned anew only if the catalog has changed."""
        version = self.catalog.version
        if self._planned is None or self._planned[0] != version:
            self._planned = version, Stages.of(self.catalog)
        return self._planned[1]

    def sql(self) -> dict[str, str]:
        """The Spark SQL of every query as a tick runs it, by name; no query runs.

        ``:old`` and ``:new`` stand for an operator's progress before and after the tick, in microseconds.
        """
        from headgate.spark.render import query_texts

        predicates = PredicateEstimates(self._known_predicates())
        return query_texts(self._spark, self.network(), self._sources, self._functions, predicates)

    def _known_predicates(self) -> Mapping[str, Profiles]:
        return {} if self.measured is None else self.measured.predicates

    def _network_on(self, checkpoint: str | Path | None) -> Network:
        """The operators that would run: unshared ones, where the checkpoint was written without sharing."""
        from headgate.spark.checkpoint import Checkpoint
        from headgate.spark.file_system import Files

        planned = self._stages()
        if checkpoint is None or not planned.lowered.shared:
            return planned.lowered
        kept = Checkpoint(Files(self._spark), locate(checkpoint))
        return planned.unshared if kept.belongs_to(planned.unshared) else planned.lowered

    def start(
        self,
        until_done: bool = False,
        strategy: str | Strategy = "fifo",
        memory: str | int | None = None,
        checkpoint: str | Path | None = None,
        tick_budget: str | float | None = None,
        observers: Iterable[Observer] = (),
        profiles: Profiles | None = None,
        keep: Mapping[str, float] | None = None,
        seed: int | None = None,
        routing: str | Router = "optimal",
        orders: Mapping[str, Sequence[str]] | None = None,
        balance_pools: bool = False,
    ) -> Run:
        """Start all declared queries.

        ``tick_budget`` is the CPU time of a tick (a number of seconds, or '500 ms'); ``memory`` the backlog
        above which sources are held back; ``profiles`` the measurements of an earlier run; ``keep`` the keep
        ratios of streams from the beginning, applied by a hash of ``seed`` and tuple; ``orders`` the aliases
        of queries in the order to join them, which replaces the estimated best order. ``routing`` is the
        policy by which tuples visit pools; ``balance_pools`` moves slots between pools.
        """
        if not self.catalog.queries:
            raise SetupError("nothing to run: no CREATE QUERY was executed")
        network = self._network_on(checkpoint)
        known = Measured(profiles or {}, predicates=self._known_predicates())
        settings = RunSettings(
            strategy=strategy_named(strategy) if isinstance(strategy, str) else strategy,
            statistics=StatisticsStore(network, known),
            until_done=until_done,
            memory=memory,
            checkpoint=checkpoint,
            tick_budget=tick_budget,
            observers=observers,
            overrides=Overrides.checked(network, keep or {}, seed, orders or {}),
            plans=self._stages().optimized,
            routing=router_for_run(routing) if isinstance(routing, str) else routing,
            balance_pools=balance_pools,
            warnings=self.warnings,
        )
        return self._launcher().launch(network, settings)

    def _launcher(self) -> Launcher:
        return Launcher(self._spark, self._sources, self._callbacks, self._functions)

    def profile(
        self,
        seconds: float = 20.0,
        progress: Callable[[str], None] = lambda text: None,
        say: Callable[[str], None] = lambda text: None,
    ) -> Measured:
        """Run all declared queries over a sample, and measure the cost and selectivity of their operators.

        Results are discarded. Streams that end are read again until the time is over. If that was too short
        to measure every operator, it is extended, which ``say`` is told. ``Measured.not_measured`` names what
        could not be measured all the same.
        """
        if not self.catalog.queries:
            raise SetupError("nothing to profile: no CREATE QUERY was executed")
        from headgate.spark.application.cluster import processors
        from headgate.spark.measuring import known_rates

        network = self.network()
        rates = known_rates(self._sources, network.streams.values())
        endless = not all(self._sources.ends(stream) for stream in network.streams.values())
        statistics = StatisticsStore(network, Measured({}, predicates=self._known_predicates()))
        # the selectivity of a join of two is that of its predicate
        profiler, controller = Profiler(network, seconds, statistics), FixedController(has_orders(network))
        while profiler.wants_more() or self._extended(profiler, say):
            progress(profiler.stage)
            settings = RunSettings(
                strategy=Sampling(profiler.rounds) if profiler.separates_operators else Fifo(),
                statistics=statistics,
                until_done=not endless,
                tick_budget=float("inf"),
                rest_s=None if profiler.separates_operators else rests(),
                controller=controller,
            )
            sample = sampled(network, profiler.files_per_tick, rates.declared)
            run = self._launcher().launch(sample, settings)
            # on a busy machine, a source may take longer to start than a round lasts
            run.run_for(profiler.seconds_left, _TICKS_PER_ROUND)
            profiler.end_round(run.status())
            shutil.rmtree(run.checkpoint, ignore_errors=True)
        self.measured = with_machine_bounds(profiler.measured(rates, processors(self._spark)), network)
        return self.measured

    @staticmethod
    def _extended(profiler: Profiler, say: Callable[[str], None]) -> bool:
        missing = profiler.extend()
        if missing:
            say(f"measuring longer than asked: {missing}")
        return bool(missing)

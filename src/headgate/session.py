"""A session: all that the command line, the dashboard and library users call."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from headgate import cql
from headgate.adaptation.controller import TICK_OF_BOUND, Adaptive, Setting
from headgate.adaptation.wishes import Wishes
from headgate.admission import Refused, Watch, judge
from headgate.cql.duration import parse_duration_us
from headgate.cql.size import parse_bytes
from headgate.cql.statement import CreateFunction, CreateQuery
from headgate.errors import SetupError
from headgate.handle import Run, duration_s
from headgate.model.measured import Measured
from headgate.model.network import Network, RelationDefinition, StreamDefinition
from headgate.model.pool import FunctionDefinition
from headgate.model.profile import Profiles
from headgate.placed import located_function, plain_function, router_for_run
from headgate.planning.catalog import Catalog
from headgate.planning.logical import LogicalPlan
from headgate.planning.stages import Stages
from headgate.profiling import Profiler, Rests, sampled
from headgate.routing.router import Router
from headgate.runtime.helm import Helm, Watching
from headgate.runtime.observers import Observer, guarded
from headgate.runtime.sampling import Sampling
from headgate.scheduling import Strategy, strategy_named
from headgate.scheduling.fifo import Fifo
from headgate.scheduling.threshold import Threshold
from headgate.status import Recorder

# tasks of pools beside the processors: two jobs of an eddy overlap, and another eddy may have its own
POOL_TASKS = 4
# processor seconds of a tick where no query has a latency bound
_TICK_S = 1.0
# fewer ticks of a profile say nothing
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
        """What is known of the operators; with it, queries are admitted by their bounds."""
        self._planned: tuple[int, Stages] | None = None

    @cached_property
    def _spark(self) -> Any:
        """Started when it is first needed: by then, whether there are pools is known."""
        from headgate.spark.cluster import own_session, private_session

        tasks = POOL_TASKS if self.catalog.placements.pools else 0
        found = private_session(self._given or own_session(self._master, tasks))
        for name, (fn, returns) in self._registered.items():
            found.udf.register(name, fn, returns)
        return found

    @cached_property
    def _sources(self) -> Any:
        from headgate.spark.files import Files
        from headgate.spark.sources import Sources

        return Sources(self._spark, Files(self._spark))

    def execute(self, text: str, origin: str = "<cql>", force: bool = False) -> Session:
        """Declare the streams, relations and queries of a CQL text.

        Raises ``Refused`` if a profile says that a query would not keep its latency or memory bound, or
        would make another one break its own; none of the text's queries is declared then. ``force`` lets
        them in all the same.
        """
        new = []
        for statement in cql.parse(text, origin):
            self.catalog.declare(statement)
            if isinstance(statement, CreateQuery):
                new.append(statement.name.text)
            elif isinstance(statement, CreateFunction):
                found = located_function(statement.location, statement.location_span)
                self.function(statement.name.text, found, statement.returns)
        if self.measured is not None and new and not force:
            from headgate.spark.cluster import processors

            try:
                judge(self.network(), new, self.measured, processors(self._spark))
            except Refused:
                for name in new:
                    self.catalog.drop_query(name)
                raise
        return self

    def stream(
        self, name: str, df: Any, timestamp: str | None = None, slack: str = "0 s", idle_after: str = "10 s"
    ) -> Session:
        """Declare a streaming DataFrame as a stream."""
        if not df.isStreaming:
            raise SetupError(
                f"stream {name}: the DataFrame is not streaming; use session.relation, or readStream"
            )
        from headgate.spark.sources import schema_from

        self._sources.frames[name] = df
        self.catalog.add_stream(
            StreamDefinition(
                name=name,
                format="dataframe",
                schema=schema_from(df.schema),
                timestamp=timestamp,
                slack_us=parse_duration_us(slack),
                idle_after_us=parse_duration_us(idle_after),
            )
        )
        return self

    def relation(self, name: str, df: Any) -> Session:
        """Declare a DataFrame as a stored relation."""
        if df.isStreaming:
            raise SetupError(f"relation {name}: the DataFrame is streaming; use session.stream")
        from headgate.spark.sources import schema_from

        self._sources.frames[name] = df
        self.catalog.add_relation(
            RelationDefinition(name=name, format="dataframe", schema=schema_from(df.schema))
        )
        return self

    def function(self, name: str, fn: Callable[..., Any], returns: str = "string") -> Session:
        """Register a Python function (or a Spark UDF) for use in expressions."""
        from headgate.spark.functions import declared

        of_udf = getattr(fn, "returnType", None)
        self._registered[name] = (declared(name, fn, returns), returns) if of_udf is None else (fn, None)
        if "_spark" in vars(self):
            self._spark.udf.register(name, *self._registered[name])
        if of_udf is not None:
            returns = of_udf.simpleString()
        self._functions[name.lower()] = plain_function(fn)
        self.catalog.placements.add_function(FunctionDefinition(name, returns))
        return self

    def callback(
        self, name: str, fn: Callable[[Any, int], None], timeout: str | float | None = None
    ) -> Session:
        """Register a function for INTO callback: called with an Arrow table and its batch id.

        A run fails if a call takes longer than ``timeout`` (a number of seconds, or '60 s'). Without one it
        waits; only once it is being stopped, it gives a call up after ten seconds.
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

        ``:old`` and ``:new`` stand for how far an operator has come before and after the tick, in
        microseconds.
        """
        from headgate.spark.render import query_texts

        return query_texts(
            self._spark, self.network(), self._sources, self._functions, self._known_predicates()
        )

    def _known_predicates(self) -> Mapping[str, Profiles]:
        return {} if self.measured is None else self.measured.predicates

    def _network_on(self, checkpoint: str | Path | None) -> Network:
        """The operators that would run; a checkpoint of queries that did not share any goes on without."""
        from headgate.spark.checkpoint import Checkpoint
        from headgate.spark.files import Files

        planned = self._stages()
        if checkpoint is None or not planned.lowered.shared:
            return planned.lowered
        kept = Checkpoint(Files(self._spark), _located(checkpoint))
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

        ``tick_budget`` is the processor time of a tick (a number of seconds, or '500 ms'); ``memory``
        the backlog above which sources are held back; ``profiles`` what an earlier run has measured;
        ``keep`` shares of streams to keep from the beginning, chosen by hash of ``seed`` and tuple;
        ``orders`` the aliases of queries in the order to join them, whatever the figures say.
        ``routing`` is the policy by which tuples visit pools; ``balance_pools`` moves slots between them.
        """
        if not self.catalog.queries:
            raise SetupError("nothing to run: no CREATE QUERY was executed")
        chosen = strategy_named(strategy) if isinstance(strategy, str) else strategy
        network = self._network_on(checkpoint)
        return self._launch(
            network,
            until_done,
            chosen,
            memory,
            checkpoint,
            tick_budget,
            observers,
            profiles or {},
            wishes=Wishes.checked(network, keep or {}, seed, orders or {}),
            routing=router_for_run(routing) if isinstance(routing, str) else routing,
            balance_pools=balance_pools,
        )

    def _budget_s(self, given: str | float | None, network: Network, until_done: bool) -> float:
        """Processor seconds of a tick: as given, or as latency bounds allow, or what keeps ticks short.

        Files that are read to their end are a batch, which nothing waits for; and where load may be shed, the
        controller keeps ticks short.
        """
        if given is not None:
            return _seconds(given)
        is_batch = until_done and all(map(self._sources.is_file_stream, network.streams.values()))
        if is_batch or network.sheddable():
            return float("inf")
        bounds = [query.latency_s for query in network.queries.values() if query.latency_s is not None]
        return TICK_OF_BOUND * min(bounds) if bounds else _TICK_S

    def profile(self, seconds: float = 20.0, progress: Callable[[str], None] = lambda text: None) -> Measured:
        """Run all declared queries over a sample, and say what their operators cost and pass on.

        Results go nowhere. Streams that end are read again until the time is over.
        """
        if not self.catalog.queries:
            raise SetupError("nothing to profile: no CREATE QUERY was executed")
        from headgate.spark.rates import tuples_per_s

        network = self.network()
        endless = not all(self._sources.ends(stream) for stream in network.streams.values())
        profiler, watching = Profiler(network, seconds), Watching(network)
        earlier: Run | None = None
        while profiler.wants_more():
            progress(profiler.stage)
            earlier = self._launch(
                sampled(network, profiler.files_per_tick),
                not endless,
                Sampling(profiler.rounds) if profiler.tells_apart else Fifo(),
                profiles=earlier.profiles() if earlier is not None else {},
                rest_s=None if profiler.tells_apart else Rests(),
                tick_budget=float("inf"),
                helm=Helm(watching),
                earlier=earlier,
                remembers_ticks=profiler.goes_on,
            )
            # on a busy machine, a source may take longer to start than a round to last
            earlier.run_for(profiler.seconds_left, _TICKS_PER_ROUND)
            profiler.take_in(earlier.measured(), earlier.status())
            shutil.rmtree(earlier.checkpoint, ignore_errors=True)
        found = profiler.measured(tuples_per_s(self._sources, network.streams.values()))
        told = {} if earlier is None else earlier.measured().predicates
        self.measured = replace(found, predicates={**told, **watching.matches.predicates(network)})
        return self.measured

    def _launch(
        self,
        network: Network,
        until_done: bool,
        strategy: Strategy,
        memory: str | int | None = None,
        checkpoint: str | Path | None = None,
        tick_budget: str | float | None = None,
        observers: Iterable[Observer] = (),
        profiles: Profiles = MappingProxyType({}),
        wishes: Wishes | None = None,
        routing: Router | None = None,
        balance_pools: bool = False,
        rest_s: Callable[[float], float] | None = None,
        helm: Helm | None = None,
        earlier: Run | None = None,
        remembers_ticks: bool = False,
    ) -> Run:
        from headgate.spark.cluster import processors
        from headgate.spark.engine import TickLimits
        from headgate.spark.run import SparkRun

        limits = TickLimits(
            budget_s=self._budget_s(tick_budget, network, until_done),
            memory_bytes=_bytes(memory, network),
            processors=processors(self._spark),
        )
        if isinstance(strategy, Threshold) and memory is not None:
            strategy.memory_bytes = limits.memory_bytes
        temporary = checkpoint is None
        folder = tempfile.mkdtemp(prefix="headgate-") if checkpoint is None else _located(checkpoint)
        recorder = Recorder(network)
        observers = guarded(observers)
        try:
            if wishes is not None:
                setting = Setting(
                    network=network,
                    plans=self._stages().optimized,
                    profiles=lambda: run.profiles(),
                    ticks=recorder.recent,
                    memory_bytes=limits.memory_bytes,
                    is_live=not (
                        until_done and all(map(self._sources.is_file_stream, network.streams.values()))
                    ),
                    processors=limits.processors,
                    known=profiles,
                    orders=wishes.orders,
                )
                controller = Adaptive(setting) if setting.is_worth_it else None
                helm = Helm(controller, wishes.keep, wishes.seed)
                observers = [*observers, *([controller] if controller else [])]
            watch = Watch(network, lambda: run.profiles(), lambda: handle.measured().tick, recorder.warn)
            run = SparkRun(
                spark=self._spark,
                network=network,
                sources=self._sources,
                strategy=strategy,
                checkpoint_folder=folder,
                limits=limits,
                known=profiles,
                until_done=until_done,
                callbacks=self._callbacks,
                # files are read as fast as they can be: their rate says nothing
                observers=[recorder, *observers, *([] if until_done else [watch])],
                helm=helm,
                functions=self._functions,
                router=routing,
                balance_pools=balance_pools,
                known_predicates=self._known_predicates(),
                rest_s=rest_s,
            )
            handle = Run(run, recorder, temporary, network)
            if earlier is not None:
                handle.go_on_from(earlier, remembers_ticks)
            if run.pools_want_tasks:
                recorder.warn(run.pools_want_tasks)
            run.start()
        except BaseException:
            if temporary:
                shutil.rmtree(folder, ignore_errors=True)
            raise
        return handle


def _located(checkpoint: str | Path) -> str:
    """A local path made absolute; an address with a scheme as it is."""
    text = str(checkpoint)
    return text if "://" in text else str(Path(text).absolute())


def _seconds(budget: str | float) -> float:
    seconds = duration_s(budget)
    if seconds <= 0:
        raise SetupError("a tick budget must be more than 0 s")
    return seconds


def _bytes(memory: str | int | None, network: Network) -> float:
    """The run's own limit, and what the queries ask for together."""
    asked = [q.memory_bytes for q in network.queries.values() if q.memory_bytes is not None]
    own = parse_bytes(memory) if isinstance(memory, str) else memory
    return min([float(sum(asked))] if asked else [float("inf")], key=float) if own is None else float(own)

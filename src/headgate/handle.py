"""The handle of a run: inspect, change and stop running queries; and how a network is started on Spark."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headgate.control.admission import BoundsWatch
from headgate.control.controller import TICK_OF_BOUND, AdaptiveController, ControlledRun
from headgate.control.overrides import FixedController, ManualController, Overrides, check_keep_ratios
from headgate.cql.measure import parse_bytes, parse_duration_us
from headgate.errors import SetupError, known_names
from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.planning.logical import LogicalPlan
from headgate.routing.policies import Router
from headgate.runtime.drive import Controller, Observer, guarded
from headgate.scheduling import Strategy, strategy_named
from headgate.scheduling.capacity import Threshold
from headgate.statistics.profile_file import Measured
from headgate.statistics.store import StatisticsStore
from headgate.status import Recorder, RunStatus

# CPU seconds of a tick where no query has a latency bound
_TICK_S = 1.0
# how long to wait for the first ticks, where some are required
_MOST_PATIENCE_S = 60.0
_POLL_EVERY_S = 0.1


@dataclass(eq=False, repr=False)
class Run:
    """The handle of running queries."""

    _run: Any
    _recorder: Recorder
    is_temporary: bool
    """Whether the checkpoint was made for this run alone, and may be removed with it."""
    _network: Network
    _controller: ManualController
    _statistics: StatisticsStore
    _processors: int

    @property
    def checkpoint(self) -> str:
        """Folder of the run's durable state."""
        return str(self._run.checkpoint.root)

    @property
    def is_running(self) -> bool:
        """Whether the queries are still running."""
        return bool(self._run.is_running)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end, and return whether it has come. Raises the error that made the run fail."""
        return bool(self._run.wait(timeout_s))

    def run_for(self, seconds: float, least_ticks: int = 0) -> None:
        """Run for a time, and until at least so many ticks have had input, then stop."""
        patience_s = max(0.0, _MOST_PATIENCE_S - seconds) if least_ticks else 0.0
        is_over = self.wait(seconds)
        given_up_s = time.monotonic() + patience_s
        while not is_over and time.monotonic() < given_up_s:
            if sum(tick.rows_in > 0 for tick in self.status().history) >= least_ticks:
                break
            is_over = self.wait(_POLL_EVERY_S)
        if not is_over:
            self.stop()

    def stop(self) -> None:
        """Finish the current tick, then end."""
        self._run.stop()

    def change(
        self,
        strategy: str | Strategy | None = None,
        memory: str | int | None = None,
        latency: Mapping[str, str | float | None] | None = None,
    ) -> None:
        """Change the strategy, the memory limit, or latency bounds of queries.

        ``latency`` maps queries to bounds such as '2 s' or a number of seconds; None removes a bound.
        """
        bounds = {}
        for query, bound in (latency or {}).items():
            self._known(query)
            bounds[query] = None if bound is None else duration_s(bound)
        chosen = strategy_named(strategy) if isinstance(strategy, str) else strategy
        limit = parse_bytes(memory) if isinstance(memory, str) else memory
        self._run.change(chosen, limit, bounds)

    def shed(self, keep: Mapping[str, float]) -> None:
        """Set the keep ratios of streams, from 0 to 1, from the tick after next on.

        Only streams whose queries all declare overload = 'shed' can be shed.
        """
        check_keep_ratios(self._network, keep)
        self._controller.shed(keep)

    def status(self) -> RunStatus:
        """Counts, backlog and latency so far."""
        return self._recorder.status()

    def measured(self) -> Measured:
        """Statistics of the whole run: operators, predicates, rates of streams, and ticks."""
        status = self.status()
        rates = {name: c.rows_in / status.seconds for name, c in status.streams.items() if status.seconds}
        return self._statistics.snapshot(rates, self._processors)

    def pools(self) -> Mapping[str, Any]:
        """Statistics of every pool: slots, calls, tuples passed, and busy seconds."""
        found: Mapping[str, Any] = self._run.pools.status()
        return found

    def alter_pool(self, name: str, slots: int) -> None:
        """Change the number of slots of a pool, from the next job on."""
        self._run.pools.alter(name, slots)

    def warnings(self) -> tuple[str, ...]:
        """Warnings so far: queries that may exceed their bounds, or that admission could not check."""
        return self._recorder.warnings

    def results(self, query: str) -> Any:
        """Results so far as a Spark DataFrame."""
        self._known(query)
        return self._run.results(query)

    def arrow(self, query: str) -> Any:
        """Results so far as an Arrow table."""
        return self.results(query).toArrow()

    def dead_letters(self) -> Any:
        """Rows that were late or did not parse, as a Spark DataFrame; None if there are none."""
        return self._run.dead_letters()

    def profiles(self) -> Profiles:
        """The current profile of each operator."""
        return self._statistics.profiles

    def _known(self, query: str) -> None:
        if query not in self._network.queries:
            raise SetupError(f"unknown query {query}; known: {known_names(self._network.queries)}")


def duration_s(given: str | float) -> float:
    """Seconds, given as a number or as text like '500 ms'."""
    return parse_duration_us(given) / 1e6 if isinstance(given, str) else float(given)


@dataclass(frozen=True)
class RunSettings:
    """How a network is to run, see ``Session.start``; with ``overrides``, a controller may adapt it."""

    strategy: Strategy
    statistics: StatisticsStore
    until_done: bool = False
    memory: str | int | None = None
    checkpoint: str | Path | None = None
    tick_budget: str | float | None = None
    observers: Iterable[Observer] = ()
    overrides: Overrides | None = None
    plans: Sequence[LogicalPlan] = ()
    routing: Router | None = None
    balance_pools: bool = False
    rest_s: Callable[[float], float] | None = None
    controller: Controller | None = None
    warnings: Sequence[str] = ()
    """Of admission."""


@dataclass(frozen=True)
class Launcher:
    """Starts runs of one session."""

    spark: Any
    sources: Any
    callbacks: Mapping[str, Callable[[Any, int], None]]
    functions: Mapping[str, Callable[..., Any]]

    def launch(self, network: Network, settings: RunSettings) -> Run:
        """Start a network; a checkpoint made for this run alone is removed if it does not start."""
        if settings.checkpoint is not None:
            return self._launch(network, settings, locate(settings.checkpoint))
        folder = tempfile.mkdtemp(prefix="headgate-")
        try:
            return self._launch(network, settings, folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def _launch(self, network: Network, settings: RunSettings, folder: str) -> Run:
        from headgate.spark.application.cluster import processors
        from headgate.spark.engine import TickLimits
        from headgate.spark.run import SparkRun

        limits = TickLimits(
            budget_s=self._budget_s(network, settings),
            memory_bytes=_memory_bytes(settings.memory, network),
            processors=processors(self.spark),
        )
        strategy, statistics = settings.strategy, settings.statistics
        if isinstance(strategy, Threshold) and settings.memory is not None:
            strategy.memory_bytes = limits.memory_bytes
        recorder = Recorder(network)
        statistics.follow(recorder.recent)
        observers: list[Observer] = [recorder, *guarded(settings.observers)]
        controller = settings.controller or FixedController()
        if settings.overrides is not None:
            controlled = ControlledRun(
                network=network,
                plans=settings.plans,
                statistics=statistics,
                memory_bytes=limits.memory_bytes,
                is_live=not self._is_batch(network, settings),
                processors=limits.processors,
                orders=settings.overrides.orders,
            )
            if controlled.has_choices:
                controller = AdaptiveController(controlled)
                observers.append(controller)
        if not settings.until_done:
            # files are read as fast as possible, so that their rate says nothing about bounds
            observers.append(BoundsWatch(network, statistics, recorder.warn))
        manual = ManualController(controller, settings.overrides)
        run = SparkRun(
            spark=self.spark,
            network=network,
            sources=self.sources,
            strategy=strategy,
            checkpoint_folder=folder,
            limits=limits,
            until_done=settings.until_done,
            callbacks=self.callbacks,
            observers=observers,
            controller=manual,
            statistics=statistics,
            functions=self.functions,
            router=settings.routing,
            balance_pools=settings.balance_pools,
            rest_s=settings.rest_s,
        )
        is_temporary = settings.checkpoint is None
        handle = Run(run, recorder, is_temporary, network, manual, statistics, limits.processors)
        for warning in (*settings.warnings, *filter(None, [run.pools_want_tasks])):
            recorder.warn(warning)
        run.start()
        return handle

    def _is_batch(self, network: Network, settings: RunSettings) -> bool:
        """Files that are read to their end are a batch, which nothing waits for."""
        return settings.until_done and all(map(self.sources.is_file_stream, network.streams.values()))

    def _budget_s(self, network: Network, settings: RunSettings) -> float:
        """CPU seconds of a tick: as given, or as latency bounds allow; where load may be shed, no limit."""
        if settings.tick_budget is not None:
            budget_s = duration_s(settings.tick_budget)
            if budget_s <= 0:
                raise SetupError("a tick budget must be more than 0 s")
            return budget_s
        if self._is_batch(network, settings) or network.sheddable():
            return float("inf")
        bounds = [query.latency_s for query in network.queries.values() if query.latency_s is not None]
        return TICK_OF_BOUND * min(bounds) if bounds else _TICK_S


def locate(checkpoint: str | Path) -> str:
    """A local path made absolute; an address with a scheme as it is."""
    text = str(checkpoint)
    return text if "://" in text else str(Path(text).absolute())


def _memory_bytes(memory: str | int | None, network: Network) -> float:
    if memory is not None:
        return float(parse_bytes(memory) if isinstance(memory, str) else memory)
    limits = [q.memory_bytes for q in network.queries.values() if q.memory_bytes is not None]
    return float(sum(limits)) if limits else float("inf")

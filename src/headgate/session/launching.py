"""Starting a network on Spark: limits, controller and observers around it, and the handle of the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.control.admission import BoundsWatch
from headgate.control.controller import AdaptiveController
from headgate.control.overrides import FixedController, ManualController
from headgate.control.work_model import TICK_OF_BOUND, ControlledRun, target_s
from headgate.errors import SetupError
from headgate.model.network import Network
from headgate.model.status import Recorder
from headgate.runtime.drive import guarded
from headgate.scheduling import room_of
from headgate.scheduling.capacity import Threshold
from headgate.session.following import Followers
from headgate.session.handle import Run
from headgate.session.run_settings import Launched, RunSettings
from headgate.spark.application.ending import remove_folder, temporary_folder

if TYPE_CHECKING:
    from headgate.spark.run import SparkRun
    from headgate.spark.sinks import Callback

# CPU seconds of a tick where no query has a latency bound
_TICK_S = 1.0


@dataclass(frozen=True)
class Launcher:
    """Starts runs of one session."""

    spark: Any
    sources: Any
    callbacks: Mapping[str, Callback]
    functions: Mapping[str, Callable[..., Any]]

    def launch(self, network: Network, settings: RunSettings) -> Run:
        """Start a network; a checkpoint made for this run alone is removed if it does not start."""
        if settings.checkpoint is not None:
            return self._launch(network, settings, locate(settings.checkpoint))
        folder = temporary_folder("headgate-")
        try:
            return self._launch(network, settings, folder)
        except BaseException:
            remove_folder(folder)
            raise

    def _launch(self, network: Network, settings: RunSettings, folder: str) -> Run:
        from headgate.spark.application.cluster import remove_with_jvm

        if settings.checkpoint is None:
            remove_with_jvm(self.spark, folder)
        recorder = Recorder(network)
        followers = Followers()
        launched = Launched(settings, [recorder, *guarded(settings.observers), followers], followers)
        run, manual, processors = self._assemble(network, launched, folder, recorder)
        is_temporary = settings.checkpoint is None
        handle = Run(run, recorder, is_temporary, network, manual, settings.statistics, processors)
        if settings.transition is not None:
            handle._launched = launched
            recorder.follow(network, settings.transition.registered, run.manifest.paused)
        for warning in (*settings.warnings, *filter(None, [run.pools_want_tasks])):
            recorder.warn(warning)
        run.start()
        return handle

    def _assemble(
        self, network: Network, launched: Launched, folder: str, recorder: Recorder
    ) -> tuple[SparkRun, ManualController, int]:
        """A run with its limits, controller and observers, which is not started yet."""
        from headgate.spark.application.cluster import processors
        from headgate.spark.engine import TickLimits
        from headgate.spark.run import SparkRun

        settings = launched.settings
        budget_s = self._budget_s(network, settings)
        limits = TickLimits(
            budget_s=budget_s,
            memory_bytes=_memory_bytes(settings.memory_bytes, network),
            processors=processors(self.spark),
            target_s=self._target_s(network, settings, budget_s),
        )
        strategy, statistics = settings.strategy, settings.statistics
        if isinstance(strategy, Threshold) and settings.memory_bytes is not None:
            strategy.memory_bytes = limits.memory_bytes
        statistics.follow(recorder.recent)
        observers = list(launched.observers)
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
                room_bytes=room_of(strategy),
            )
            if controlled.has_choices:
                controller = AdaptiveController(controlled)
                observers.append(controller)
        if not settings.until_done:
            # files are read as fast as possible, so that their rate has no bearing on bounds
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
            transition=settings.transition,
            script=settings.script,
        )
        return run, manual, limits.processors

    def check(self, network: Network, settings: RunSettings, running: Run) -> None:
        """Raise if a network cannot run in place of another one; that one goes on."""
        from headgate.spark.prepare import Preparation

        predicates, store = settings.statistics.predicates, running._run.store
        Preparation(self.spark, network, self.sources, self.functions, store, predicates).run()
        for name, query in network.queries.items():
            function = dict(query.sink.options).get("function", name)
            if query.sink.format == "callback" and function not in self.callbacks:
                advice = f"register it with session.callback('{function}', function)"
                raise SetupError(f"query {name}: no callback {function}; {advice}")

    def relaunch(self, handle: Run, network: Network, settings: RunSettings) -> None:
        """Let a run that has been halted go on with another network, in the same checkpoint."""
        launched, transition = handle._launched, settings.transition
        assert launched is not None and transition is not None
        launched.settings = settings
        run, manual, _ = self._assemble(network, launched, handle.checkpoint, handle._recorder)
        handle._recorder.follow(network, transition.registered, run.manifest.paused)
        handle._run, handle._network, handle._controller = run, network, manual
        handle._statistics = settings.statistics
        known = {name: bound for name, bound in launched.latencies_s.items() if name in transition.goes_on}
        run.change(None, None, known)
        run.start()

    def _is_batch(self, network: Network, settings: RunSettings) -> bool:
        """Files that are read to their end are a batch, which nothing waits for."""
        return settings.until_done and all(map(self.sources.is_file_stream, network.streams.values()))

    def _budget_s(self, network: Network, settings: RunSettings) -> float:
        """CPU seconds of a tick: as given, or as latency bounds allow.

        There is no limit where load may be shed, unless a strategy with a memory limit chooses what waits.
        """
        if settings.tick_budget_s is not None:
            return settings.tick_budget_s
        sheds = room_of(settings.strategy) is None and network.sheddable()
        if self._is_batch(network, settings) or sheds:
            return float("inf")
        bounds = [query.latency_s for query in network.queries.values() if query.latency_s is not None]
        return TICK_OF_BOUND * min(bounds) if bounds else _TICK_S

    def _target_s(self, network: Network, settings: RunSettings, budget_s: float) -> float:
        """How long a tick should take: as long as its budget, or as drop boxes are to keep it."""
        is_unlimited = settings.tick_budget_s is not None or self._is_batch(network, settings)
        return budget_s if budget_s < inf or is_unlimited else target_s(network)


def locate(checkpoint: str | Path) -> str:
    """A local path made absolute; an address with a scheme as it is."""
    text = str(checkpoint)
    return text if "://" in text else str(Path(text).absolute())


def _memory_bytes(given: float | None, network: Network) -> float:
    if given is not None:
        return given
    limits = [q.memory_bytes for q in network.queries.values() if q.memory_bytes is not None]
    return float(sum(limits)) if limits else float("inf")

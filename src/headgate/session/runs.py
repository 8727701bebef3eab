"""The runs of a session: which one is on, and what becomes of its queries when others are declared."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from headgate.control.admission import check_admission
from headgate.errors import SetupError
from headgate.formats.html import listed
from headgate.model.network import Network
from headgate.session import arguments
from headgate.session.changing import change_queries, network_after, provisional
from headgate.session.declarations import Declarations
from headgate.session.handle import Run
from headgate.session.launching import Launcher, locate
from headgate.session.run_settings import RunSettings
from headgate.spark.failures import spark_errors
from headgate.statistics.profile_file import Measured

if TYPE_CHECKING:
    from headgate.spark.file_system import Files
    from headgate.spark.history import History
    from headgate.spark.reconcile import Transition

Own = TypeVar("Own", bound="SessionRuns")


class SessionRuns(Declarations):
    """One run at a time, over what is declared; queries come and go while it is on."""

    _runs: tuple[Run, ...] = ()
    _is_closed = False

    @property
    def run(self) -> Run | None:
        """The run that was started last."""
        return self._runs[-1] if self._runs else None

    def close(self) -> None:
        """Stop the run, and remove the checkpoints that were made for runs of this session alone.

        Results in memory and dead letters go with them. Raises the error that made a run fail, if nothing has
        raised it yet. The Spark application stays. Closing again does nothing.
        """
        self._is_closed = True
        failures = []
        for run in self._runs:
            run.close_dashboard()
            try:
                run.discard()
            except Exception as failure:
                failures.append(failure)
        if failures:
            raise failures[-1]

    def _check_open(self) -> None:
        if self._is_closed:
            raise SetupError("the session is closed; make another with headgate.Session()")

    def _check_idle(self, method: str) -> None:
        self._check_open()
        if self.run is not None and self.run.is_running:
            queries = listed(self.run.status().queries)
            raise SetupError(
                f"{method}: the run of {queries} is on (checkpoint {self.run.checkpoint}); "
                "end it with session.run.stop(), or use another Session"
            )

    @property
    def _is_running(self) -> bool:
        return self.run is not None and self.run.is_running

    @property
    def _paused(self) -> Collection[str] | None:
        if self.run is None or not self.run.is_running:
            return None
        return [name for name, query in self.run.status().queries.items() if query.is_paused]

    def transition(self, checkpoint: str | Path | None) -> Transition:
        """What would become of the queries of a checkpoint: which go on, start and end; nothing runs.

        Without a checkpoint, all start.
        """
        from headgate.spark.checkpoint import Checkpoint
        from headgate.spark.manifest import Manifest
        from headgate.spark.reconcile import Reconciliation, transition_to

        self._check_queries("run")
        planned = self._stages()
        if checkpoint is None:
            return Reconciliation(Manifest(), planned.unshared).transition()
        with spark_errors(self._spark):
            kept = Checkpoint(self._files(), locate(arguments.folder("checkpoint", checkpoint)))
            return transition_to(planned.lowered, planned.unshared, kept)

    def restore(self: Own, checkpoint: str | Path) -> Own:
        """Declare what ran in a checkpoint when it was written last, also what came while it ran.

        Streams, functions and callbacks that were declared from Python have to be declared before.
        """
        self._check_idle("restore")
        history = self._history(checkpoint)
        with spark_errors(self._spark):
            script = history.script()
        if not script:
            raise SetupError(f"{history.root} lists no queries; declare them with session.execute")
        self.execute(script, origin=f"{history.root} (its queries)", force=True)
        return self

    def is_written(self, checkpoint: str | Path) -> bool:
        """Whether a checkpoint, on any file system, has the state of queries."""
        with spark_errors(self._spark):
            return bool(self._history(checkpoint).ticks())

    def _history(self, checkpoint: str | Path) -> History:
        from headgate.spark.history import History

        return History(self._files(), locate(arguments.folder("checkpoint", checkpoint)))

    def _files(self) -> Files:
        from headgate.spark.file_system import Files

        return Files(self._spark)

    def _admit_to_run(self, new: Sequence[str], is_forced: bool) -> tuple[str, ...]:
        run, stages = self.run, self._stages()
        if run is None or run._launched is None:
            self._check_idle("execute")
            return ()
        expected = network_after(stages, provisional(run, stages))
        measured, before = self._measured_in(run), run._launched.settings
        warnings: tuple[str, ...] = ()
        if new and not is_forced:
            warnings = check_admission(expected, new, measured, self._processors())

        def settings(network: Network, transition: Transition) -> RunSettings:
            return replace(
                before,
                transition=transition,
                stages=stages,
                plans=stages.optimized,
                script=self.script,
                statistics=run._statistics.for_network(network),
                overrides=before.overrides and before.overrides.within(network),
            )

        change_queries(run, self._launcher(), stages, settings)
        for warning in warnings:
            run._recorder.warn(warning)
        return warnings

    def _measured_in(self, run: Run) -> Measured:
        """What the run has measured, over what was measured before it."""
        found = run.measured()
        return found if self.measured is None else found.over(self.measured)

    def _pause(self, query: str, is_paused: bool) -> None:
        assert self.run is not None
        self.run.pause(query) if is_paused else self.run.resume(query)

    def _network_on(self, checkpoint: str | Path | None) -> Network:
        """The operators that would run."""
        planned = self._stages()
        return planned.lowered if checkpoint is None else network_after(planned, self.transition(checkpoint))

    def _launcher(self) -> Launcher:
        return Launcher(self._spark, self._sources, self._callbacks, self._functions)

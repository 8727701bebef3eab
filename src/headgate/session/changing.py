"""Queries that come, go and change while a run is on.

The run is halted at a tick boundary, its state is reconciled with the new network, and it goes on in the same
checkpoint: the same way in which a restart takes up a changed script.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from headgate.errors import SetupError
from headgate.model.event import QueryAdded, QueryAltered, QueryChange, QueryDropped
from headgate.model.identity import with_starts
from headgate.model.network import Network, QueryDefinition
from headgate.planning.lower import Stages, share_subplans
from headgate.runtime.drive import notify
from headgate.session.handle import Run
from headgate.session.launching import Launcher
from headgate.session.run_settings import RunSettings

if TYPE_CHECKING:
    from headgate.spark.reconcile import Transition

Settings = Callable[[Network, "Transition"], RunSettings]
"""The settings with which a network runs after a transition."""


def network_after(stages: Stages, transition: Transition) -> Network:
    """The network that runs after a transition: queries that came later share nothing with earlier ones."""
    starts = transition.start_of
    if not transition.shares:
        return with_starts(stages.unshared, starts) if starts else stages.unshared
    return share_subplans(with_starts(stages.unshared, starts)) if starts else stages.lowered


def provisional(run: Run, stages: Stages) -> Transition:
    """What would become of the queries of a run, if it were halted now."""
    from headgate.spark.reconcile import Reconciliation

    return Reconciliation(run._run.manifest, stages.unshared).transition()


def expected_network(run: Run | None, stages: Stages) -> Network:
    """The operators that would run; those of queries that join a run share nothing with what is there."""
    if run is None or run._launched is None or not run.is_running:
        return stages.lowered
    return network_after(stages, provisional(run, stages))


def change_queries(run: Run, launcher: Launcher, stages: Stages, settings: Settings) -> None:
    """Let a run go on with other queries from the next tick on; returns when they run.

    Raises if they cannot run; the others then go on as before.
    """
    from headgate.spark.checkpoint import Checkpoint
    from headgate.spark.file_system import Files
    from headgate.spark.reconcile import transition_to

    with run._lock:
        launched = run._launched
        if launched is None or launched.settings.stages is None:
            raise SetupError("the queries of this run cannot change; end it with session.run.stop()")
        expected = provisional(run, stages)
        wanted = network_after(stages, expected)
        # most of what can be wrong shows before the run is halted
        launcher.check(wanted, settings(wanted, expected), run)
        before, old_network = launched.settings, run._network
        checkpoint = Checkpoint(Files(launcher.spark), run.checkpoint)

        def go_on(planned: Stages, own: Settings) -> Transition:
            transition = transition_to(planned.lowered, planned.unshared, checkpoint)
            network = network_after(planned, transition)
            launcher.relaunch(run, network, own(network, transition))
            return transition

        def go_back() -> None:
            go_on(before.stages or stages, lambda network, t: _again(before, network, t, run))

        with _changing(run):
            try:
                run._run.halt()
            except KeyboardInterrupt:
                run._run.halt()
                go_back()
                raise
            last = checkpoint.history.ticks()[-1:]
            manifests = [checkpoint.history.read(tick) for tick in last]
            try:
                transition = go_on(stages, settings)
            except BaseException:
                for manifest in manifests:
                    checkpoint.history.write(manifest)
                go_back()
                raise
        for event in _events(transition, old_network, run._network):
            notify(launched.observers, event)
    if launched.is_to_stop:
        run.ask_to_stop()


@contextmanager
def _changing(run: Run) -> Iterator[None]:
    """A run that is halted is not over, though no ticks happen."""
    run._is_changing = True
    try:
        yield
    finally:
        run._is_changing = False


def _again(settings: RunSettings, network: Network, transition: Transition, run: Run) -> RunSettings:
    return replace(settings, transition=transition, statistics=run._statistics.for_network(network))


def _events(transition: Transition, before: Network, after: Network) -> Iterator[QueryChange]:
    now_s, tick = time.time(), transition.from_tick
    for name in before.queries:
        if name not in after.queries or name in transition.replaced:
            yield QueryDropped(now_s, name, tick)
    for name in transition.starts:
        # before the first tick, all queries start
        if name not in before.queries or name in transition.replaced:
            yield QueryAdded(now_s, name, tick, transition.registered[name].start_us)
    for name, new in after.queries.items():
        old = before.queries.get(name)
        if old is not None and name not in transition.replaced and _service(old) != _service(new):
            yield QueryAltered(now_s, name, tick)


def _service(query: QueryDefinition) -> tuple[object, ...]:
    return query.latency_s, query.memory_bytes, query.overload, query.utility, query.on_error

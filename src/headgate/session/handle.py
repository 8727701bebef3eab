"""The handle of a run: inspect, change and stop running queries."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from math import inf
from typing import TYPE_CHECKING, Any

from headgate.control.overrides import ManualController, check_keep_ratios
from headgate.errors import SetupError
from headgate.formats.html import html_paragraph, listed, plural
from headgate.model.event import QueryPaused, QueryResumed
from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.model.status import Recorder, RunStatus
from headgate.runtime.drive import notify
from headgate.scheduling import Strategy, strategy_names
from headgate.scheduling.chain_envelope import ProgressChart
from headgate.session import arguments
from headgate.session.run_results import RunResults
from headgate.spark.application.ending import remove_folder
from headgate.spark.failures import jobs_spared
from headgate.statistics.profile_file import Measured
from headgate.statistics.store import StatisticsStore

if TYPE_CHECKING:
    from headgate.session.run_settings import Launched

# how long to wait for the first ticks, where some are required
_MOST_PATIENCE_S = 60.0
_POLL_EVERY_S = 0.1


@dataclass(frozen=True)
class SettingsInForce:
    """The settings of a run; None where there is no limit or bound."""

    strategy: str
    memory_bytes: float | None
    tick_budget_s: float | None
    processors: int
    latency_s: Mapping[str, float | None]
    strategies: tuple[str, ...] = strategy_names()
    """Names that a strategy can be chosen by."""


@dataclass(eq=False, repr=False)
class Run(RunResults):
    """The handle of running queries; any thread may use it.

    What Spark raises is a ``SparkError``. Ctrl-C interrupts a method, never the run: ``stop`` ends it.
    """

    _run: Any
    _recorder: Recorder
    is_temporary: bool
    """Whether the checkpoint was made for this run alone, and may be removed with it."""
    _network: Network
    _controller: ManualController
    _statistics: StatisticsStore
    _processors: int
    _is_reported: bool = field(default=False, init=False)
    """Whether the failure of the run, if it has failed, has been raised."""
    _is_removed: bool = field(default=False, init=False)
    _launched: Launched | None = field(default=None, init=False)
    """How it was started; None for a run whose queries cannot change."""
    _session: Any = field(default=None, init=False)
    """The session that has started it."""
    _dashboard: Any = field(default=None, init=False)
    _is_changing: bool = field(default=False, init=False)
    """Whether it has been halted, to go on with other queries."""
    _lock: threading.RLock = field(default_factory=threading.RLock, init=False)
    """Held while queries come and go, or the run is stopped."""

    def __repr__(self) -> str:
        queries = plural(len(self._network.queries), "query", "queries")
        state = "running" if self.is_running else "over"
        return f"<Run of {queries} ({listed(self._network.queries)}): {state}; {self.status().summary}>"

    def _repr_html_(self) -> str:
        return html_paragraph(repr(self)) + self.status()._repr_html_()

    @property
    def checkpoint(self) -> str:
        """Folder of the run's durable state."""
        return str(self._run.checkpoint.root)

    @property
    def is_running(self) -> bool:
        """Whether the queries are still running."""
        return self._is_changing or bool(self._run.is_running)

    def wait(self, timeout_s: str | float | None = None) -> bool:
        """Wait for the end, and return whether it has come. Raises the error that made the run fail.

        ``timeout_s`` is a number of seconds, or '500 ms'; without one, it waits as long as it takes. Ctrl-C
        ends the waiting alone.
        """
        limit_s = math.inf if timeout_s is None else arguments.seconds("timeout_s", timeout_s)
        return self._ended(lambda: self._wait(limit_s))

    def _wait(self, limit_s: float) -> bool:
        """Wait for the end of the run behind this one that no other one follows."""
        until_s = time.monotonic() + limit_s
        while True:
            behind, left_s = self._run, max(0.0, until_s - time.monotonic())
            ended = behind.wait(None if left_s > threading.TIMEOUT_MAX else left_s)
            if not ended or (behind is self._run and not self._is_changing):
                return bool(ended)
            time.sleep(min(left_s, _POLL_EVERY_S))

    @property
    def failure(self) -> Exception | None:
        """The error that made the run fail, None if there is none: looking at it does not report it."""
        if not self.is_running:
            try:
                with self._spark_errors():
                    self._run.wait(0)
            except Exception as error:
                return error
        return None

    def _ended(self, wait: Callable[[], Any]) -> bool:
        with jobs_spared(), self._spark_errors():
            try:
                return bool(wait())
            except Exception:
                self._is_reported = True
                raise

    def run_for(self, seconds: str | float, least_ticks: int = 0) -> None:
        """Run for a time, and until at least so many ticks have had input, then stop."""
        length_s = arguments.seconds("seconds", seconds)
        least_ticks = arguments.whole("least_ticks", least_ticks, 0, 3)
        patience_s = max(0.0, _MOST_PATIENCE_S - length_s) if least_ticks else 0.0
        is_over = self.wait(length_s)
        given_up_s = time.monotonic() + patience_s
        while not is_over and time.monotonic() < given_up_s:
            if sum(tick.rows_in > 0 for tick in self.status().history) >= least_ticks:
                break
            is_over = self.wait(_POLL_EVERY_S)
        if not is_over:
            self.stop()

    def watch(self, every: str | float = 1.0) -> None:
        """Show the status until the run ends, drawn anew ``every`` so many seconds.

        In a terminal and in a notebook it is a table that changes in place, elsewhere a line from time to
        time. Ctrl-C ends the watching, not the run. Raises the error that made the run fail.
        """
        from headgate.report.watching import display_here, watch

        with jobs_spared():
            watch(self, arguments.positive_seconds("every", every), display_here())

    def dashboard(self, port: int = 0, opens: bool = True) -> Any:
        """Serve the dashboard of the run on loopback, and open it in the browser of this machine.

        What is returned has a ``link()`` to it, which a notebook shows, and a ``close()``; it is closed with
        the session. ``port`` 0 is any that is free.
        """
        number = arguments.whole("port", port, 0, 8640)
        self._check_running("dashboard")
        if self._launched is None or self._session is None:
            raise SetupError("this run has no dashboard; it was not started by a session")
        if self._dashboard is None or not self._dashboard.is_open:
            # the server knows runs, and is looked up here: runs know nothing of it
            served = import_module("headgate.server.dashboard").Dashboard
            self._dashboard = served(self._session, self, self._launched.followers, number)
        if arguments.flag("opens", opens):
            self._dashboard.open()
        return self._dashboard

    def close_dashboard(self) -> None:
        """End the dashboard, if there is one; the run goes on."""
        if self._dashboard is not None:
            self._dashboard.close()

    def stop(self) -> None:
        """Finish the current tick, then end; on a run that is over, nothing happens."""
        with self._lock:
            self._ended(self._run.stop)

    def discard(self) -> None:
        """Stop, and remove the checkpoint if it was made for this run alone, with results in memory.

        Raises the error that made the run fail, unless it has been raised before.
        """
        was_reported = self._is_reported
        try:
            self.stop()
        except Exception:
            if not was_reported:
                raise
        finally:
            if self.is_temporary and not self.is_running:
                remove_folder(self.checkpoint)
                self._is_removed = True

    def ask_to_stop(self) -> None:
        """Let the run end after the current tick, without waiting for that."""
        if self._launched is not None:
            # heeded after a change that is under way
            self._launched.is_to_stop = True
        self._run.ask_to_stop()

    def keep_checkpoint(self) -> None:
        """Keep a temporary checkpoint, which otherwise goes with the session or the process."""
        if self.is_temporary:
            self._run.keep_checkpoint()
            self.is_temporary = False

    def change(
        self,
        strategy: str | Strategy | None = None,
        memory: str | int | None = None,
        latency: Mapping[str, str | float | None] | None = None,
        tick_budget: str | float | None = None,
    ) -> None:
        """Change the strategy, the memory limit, latency bounds of queries, or the budget of ticks.

        ``latency`` maps queries to bounds such as '2 s' or a number of seconds; None removes a bound.
        """

        def bound_s(what: str, bound: object) -> float | None:
            return None if bound is None else arguments.positive_seconds(what, bound)

        bounds = {} if latency is None else arguments.by_name("latency", latency, "{'query': '2 s'}", bound_s)
        for query in bounds:
            self._known(query)
        chosen = None if strategy is None else arguments.strategy(strategy)
        limit = None if memory is None else arguments.size_bytes("memory", memory)
        budget_s = None if tick_budget is None else arguments.positive_seconds("tick_budget", tick_budget)
        with self._lock:
            self._check_running("change")
            self._run.change(chosen, limit, bounds, budget_s)
            if self._launched is not None:
                self._launched.note(chosen, limit, bounds, budget_s)

    def pause(self, query: str) -> None:
        """Pause a query: its tuples wait, and nothing of it is lost; returns when that is durable."""
        self._pause(query, True)

    def resume(self, query: str) -> None:
        """Let a paused query process what has waited, and go on."""
        self._pause(query, False)

    def _pause(self, query: str, is_paused: bool) -> None:
        self._known(query)
        with self._lock, self._spark_errors():
            self._check_running("pause" if is_paused else "resume")
            others = set(self._run.manifest.paused) - {query}
            self._run.pause({*others, query} if is_paused else others)
            event = (QueryPaused if is_paused else QueryResumed)(
                time.time(), query, self._run.manifest.batch_id
            )
            notify([self._recorder] if self._launched is None else self._launched.observers, event)

    @property
    def network(self) -> Network:
        """The operators that run, and the streams and queries around them."""
        return self._network

    def settings(self) -> SettingsInForce:
        """What ``change`` changes, as it is now, and the limits of ticks."""
        limits, strategy = self._run.limits, self._run.strategy
        return SettingsInForce(
            strategy=strategy.name,
            memory_bytes=limits.memory_bytes if limits.memory_bytes < inf else None,
            tick_budget_s=limits.budget_s if limits.budget_s < inf else None,
            processors=self._processors,
            latency_s=strategy.latency_bounds(self._network),
        )

    def progress_charts(self, most: int = 24) -> dict[tuple[str, ...], ProgressChart]:
        """The progress charts of at most so many paths, by their operators, from the current profiles."""
        profiles, paths = self.profiles(), self._network.paths()[: arguments.whole("most", most, 1, 24)]
        return {path: ProgressChart.of([profiles[name] for name in path]) for path in paths}

    def shed(self, keep: Mapping[str, float]) -> None:
        """Set the keep ratios of streams, from 0 to 1, from the tick after next on.

        Only streams whose queries all declare overload = 'shed' can be shed.
        """
        ratios = arguments.ratios(keep)
        check_keep_ratios(self._network, ratios)
        self._check_running("shed")
        self._controller.shed(ratios)

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
        pool = arguments.name("name", name, "'web'")
        number = arguments.whole("slots", slots, 1, 4)
        self._check_running("alter_pool")
        self._run.pools.alter(pool, number)

    def warnings(self) -> tuple[str, ...]:
        """Warnings so far: of queries that may exceed their bounds or that admission could not check, and of
        streams with many late rows.
        """
        return self._recorder.warnings

    def profiles(self) -> Profiles:
        """The current profile of each operator, which is an assumption until it has been measured."""
        return self._statistics.profiles

    def _check_running(self, method: str) -> None:
        if not self.is_running:
            raise SetupError(f"{method} has no effect: the run is over; call session.start for another")

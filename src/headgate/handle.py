"""The handle of a run: what can be asked of queries that run, and done to them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headgate.adaptation.wishes import check_shares
from headgate.cql.duration import parse_duration_us
from headgate.cql.size import parse_bytes
from headgate.errors import SetupError, known_names
from headgate.model.measured import Measured
from headgate.model.network import Network
from headgate.profiling import tick_costs
from headgate.scheduling import Strategy, strategy_named
from headgate.status import Recorder, RunStatus

# how long a run waits for its first ticks, where some are wanted
_MOST_PATIENCE_S = 60.0
_LOOK_EVERY_S = 0.1


class Run:
    """The handle of running queries."""

    def __init__(self, run: Any, recorder: Recorder, temporary: bool, network: Network) -> None:
        self._run = run
        self._recorder = recorder
        self._temporary = temporary
        self._network = network

    @property
    def checkpoint(self) -> str:
        """Folder of the run's durable state."""
        return str(self._run.checkpoint.root)

    @property
    def is_temporary(self) -> bool:
        """Whether the checkpoint was made for this run alone, and may go with it."""
        return self._temporary

    @property
    def is_running(self) -> bool:
        """Whether queries still run."""
        return bool(self._run.is_running)

    def go_on_from(self, earlier: Run, remembers_ticks: bool) -> None:
        """Remember what an earlier run of the same network has learnt; before the first tick only.

        That is how predicates are best ordered and, if ``remembers_ticks``, what its ticks say of operators.
        """
        self._run.go_on_from(earlier._run, remembers_ticks)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end; whether it has come. Raises what made the run fail."""
        return bool(self._run.wait(timeout_s))

    def run_for(self, seconds: float, least_ticks: int = 0) -> None:
        """Let it run for a time, and until so many ticks have brought something, then stop."""
        patience_s = max(0.0, _MOST_PATIENCE_S - seconds) if least_ticks else 0.0
        is_over = self.wait(seconds)
        given_up_s = time.monotonic() + patience_s
        while not is_over and self._ticks_with_rows() < least_ticks and time.monotonic() < given_up_s:
            is_over = self.wait(_LOOK_EVERY_S)
        if not is_over:
            self.stop()

    def _ticks_with_rows(self) -> int:
        return sum(tick.rows_in > 0 for tick in self.status().history)

    def stop(self) -> None:
        """Finish the tick under way, then end."""
        self._run.stop()

    def change(
        self,
        strategy: str | Strategy | None = None,
        memory: str | int | None = None,
        latency: Mapping[str, str | float | None] | None = None,
    ) -> None:
        """Steer a run: another strategy, another memory limit, other latency bounds of queries.

        ``latency`` gives bounds by query, as '2 s' or a number of seconds; None takes a bound away.
        """
        bounds = {}
        for query, bound in (latency or {}).items():
            self._known(query)
            bounds[query] = None if bound is None else duration_s(bound)
        chosen = strategy_named(strategy) if isinstance(strategy, str) else strategy
        limit = parse_bytes(memory) if isinstance(memory, str) else memory
        self._run.change(chosen, limit, bounds)

    def shed(self, keep: Mapping[str, float]) -> None:
        """Keep these shares of streams, 1 for all of it, from the tick after next on.

        Only streams whose queries all say overload = 'shed' can be shed.
        """
        check_shares(self._network, keep)
        self._run.helm.keep(keep)

    def status(self) -> RunStatus:
        """Counts, backlog and latency so far."""
        return self._recorder.status()

    def measured(self) -> Measured:
        """What explains the run as a whole: operators, rates of streams, and ticks."""
        status = self.status()
        found = self._run.engine.measured()
        rates = {name: c.rows_in / status.seconds for name, c in status.streams.items() if status.seconds}
        costs = tick_costs([status.history])
        if costs is not None:
            costs = replace(costs, fixed_busy_s=found.fixed_busy_s, stored_busy_s=found.stored_busy_s)
        predicates = self._run.asking.figures
        also = {
            name: predicates[first] for name, first in self._network.shared.items() if first in predicates
        }
        return Measured(found.profiles, rates, costs, {**predicates, **also})

    def pools(self) -> Mapping[str, Any]:
        """What every pool has done so far: its slots, calls, tuples passed, and busy seconds."""
        found: Mapping[str, Any] = self._run.pools.status()
        return found

    def alter_pool(self, name: str, slots: int) -> None:
        """Give a pool another number of slots; counts from the next job on."""
        self._run.pools.alter(name, slots)

    def warnings(self) -> tuple[str, ...]:
        """Which queries are about to break their bounds, as was noticed so far."""
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

    def profiles(self) -> Any:
        """What has been learnt of each operator."""
        return self._run.profiles()

    def _known(self, query: str) -> None:
        names = self._recorder.queries
        if query not in names:
            raise SetupError(f"unknown query {query}; known: {known_names(names)}")


def duration_s(given: str | float) -> float:
    """Seconds, given as a number or as text like '500 ms'."""
    return parse_duration_us(given) / 1e6 if isinstance(given, str) else float(given)

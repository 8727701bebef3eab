"""Estimates of operators: what each costs per tuple and passes on, and which of them ticks have measured."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import hypot, isfinite, sqrt
from typing import Any

from headgate.model.network import Network
from headgate.model.operator import Project
from headgate.model.profile import Profile, Profiles
from headgate.statistics.estimators import Cost, DecayedRatio, OperatorCosts, TickWork, operator_costs

# the first ticks of a JVM measure its compiler
_COLD_TICKS = 2
_TICKS_REMEMBERED = 64
_CHEAP_ROWS = 200_000
_FIRST_COUNTS = (8, 16)
_COUNT_EVERY = 32
# a first tick of two tuples must not undo what an earlier run has measured
_KNOWN_TUPLES = 500.0
_MEMORY = 0.9
# the time of jobs over fewer tuples measures Spark, not the tuples; but a threshold that an operator believed
# to be expensive never reaches would keep it expensive for ever
TELLING_ROWS = 200
_HOLD_ASSUMED = 0.1
# fewer do not tell a cost from noise
_ENOUGH_TICKS = 4
_ENOUGH_COUNTS = 2
UNREACHED = "no tuple reached it"


@dataclass(frozen=True)
class Passed:
    """Tuples that an operator took, and those that it passed on."""

    taken: float
    passed_on: float


@dataclass(frozen=True)
class Overall:
    """Profiles that explain all ticks of a run alike, and the costs of each group of queries."""

    profiles: Profiles
    groups: tuple[OperatorCosts, ...]

    @property
    def fixed_s(self) -> float:
        """CPU seconds of a tick before its first tuple."""
        return sum(group.fixed_s for group in self.groups)

    @property
    def stored_s(self) -> float:
        """CPU seconds per stored tuple: once written, once read."""
        return 2 * sum(group.stored_s for group in self.groups) / max(1, len(self.groups))

    @property
    def work_error(self) -> float:
        """Standard error of what tuples cost in all, as a share of it."""
        total_s = sum(group.all_s for group in self.groups)
        return hypot(*(group.all_error_s for group in self.groups)) / total_s if total_s > 0 else 0.0


class OperatorEstimates:
    """Profiles of operators, found by regression: ticks that are cut at different places separate them.

    ``known`` were measured before, or stated by the user. Those of other operators are assumptions, which
    begin with ``assumed``, until enough ticks have measured them.
    """

    def __init__(self, network: Network, known: Profiles, assumed: Profiles | None = None) -> None:
        self._network = network
        self._known = frozenset(known)
        begin = {**(assumed or {}), **known}
        self._profiles = {name: begin.get(name, Profile()) for name in network.operators}
        self._first = dict(self._profiles)
        self._without_width = network.operators.keys() - begin.keys()
        self._works: dict[tuple[str, ...], deque[TickWork]] = {}
        self._selectivities = {
            name: DecayedRatio(_MEMORY, profile.selectivity, _KNOWN_TUPLES) for name, profile in known.items()
        }
        # ticks of an operator's queries that had enough tuples, and ticks that counted its results
        self._telling = dict.fromkeys(network.operators, 0)
        self._counted = dict.fromkeys(network.operators, 0)
        self._ticks = 0
        self.least_rows = TELLING_ROWS
        """Tuples that a query must take in a tick for its time to count."""

    def assume_widths(self, bytes_per_tuple: Mapping[str, float]) -> None:
        """Widths by the schema, for operators of which nothing is known."""
        for name in self._without_width & bytes_per_tuple.keys():
            self._change(name, bytes_per_tuple=bytes_per_tuple[name])
        self._without_width = set()

    @property
    def profiles(self) -> Profiles:
        """The latest estimates; assumptions where nothing was measured."""
        return dict(self._profiles)

    @property
    def assumed(self) -> frozenset[str]:
        """Operators that no tick has measured."""
        return frozenset(name for name, own in self._profiles.items() if not own.samples) - self._known

    def overall(self) -> Overall:
        """What explains all remembered ticks alike."""
        profiles, groups = dict(self._profiles), []
        apart = self._apart()
        for names, works in list(self._works.items()):
            # operators that the ticks do not separate keep the proportions known before the first tick
            found = operator_costs(list(works), self._first_costs(names), memory=1.0)
            groups.append(found)
            for name in names:
                profiles[name] = self._with_error(name, found.profile(name, profiles[name]), apart[name])
        return Overall(profiles, tuple(groups))

    def _apart(self) -> Profiles:
        """The same by the ticks alone: what was known before counts less than one of them."""
        profiles = dict(self._profiles)
        for names, works in list(self._works.items()):
            hold = _HOLD_ASSUMED / sqrt(len(works))
            found = operator_costs(list(works), self._first_costs(names), memory=1.0, hold=hold)
            profiles |= {name: found.profile(name, profiles[name]) for name in names}
        return profiles

    def _first_costs(self, names: Iterable[str]) -> dict[str, Cost]:
        return {name: self._cost(name, self._first[name]) for name in names}

    def _with_error(self, name: str, profile: Profile, apart: Profile) -> Profile:
        """A profile whose error is no larger than the ticks alone allow."""
        seconds = profile.seconds_per_tuple
        by_ticks = hypot(apart.seconds_per_tuple_error, seconds - apart.seconds_per_tuple)
        error = min(profile.seconds_per_tuple_error, by_ticks)
        if not isfinite(error) and name in self._known:
            # too few ticks to tell: what was known, and how far this is from it
            first = self._first[name]
            error = abs(seconds - first.seconds_per_tuple)
            error += first.seconds_per_tuple_error if isfinite(first.seconds_per_tuple_error) else seconds
        return replace(profile, seconds_per_tuple_error=error)

    def continued(self) -> OperatorEstimates:
        """New estimates that begin with what all ticks so far have shown, and remember none of them."""
        profiles = self._apart()
        missing = self.unmeasured(profiles)
        known = {name: profile for name, profile in profiles.items() if name not in missing}
        return self._anew(known, profiles)

    def restarted(self) -> OperatorEstimates:
        """New estimates that assume what these end with, and know no more than these did at first."""
        known = {name: self._first[name] for name in self._known & self._first.keys()}
        return self._anew(known, self._profiles)

    def _anew(self, known: Profiles, assumed: Profiles) -> OperatorEstimates:
        found = OperatorEstimates(self._network, known, assumed)
        found.least_rows = self.least_rows
        return found

    def _cost(self, name: str, profile: Profile) -> Cost:
        error = profile.seconds_per_tuple_error
        is_measured = isfinite(error) and (name in self._known or profile.samples > 0)
        return profile.seconds_per_tuple, error if is_measured else None

    def use_small_ticks(self) -> None:
        """Let any tick count, if none was large enough for some operator: there may be no larger ones.

        What such a tick takes is mostly Spark's own time, so that costs come out too large, and uncertain.
        """
        if any(not telling for name, telling in self._telling.items() if name not in self._known):
            self.least_rows = 1

    @property
    def observations(self) -> int:
        """Grows with every tick that measures an operator."""
        return sum(self._telling.values()) + sum(self._counted.values())

    def unmeasured(self, overall: Profiles) -> dict[str, str]:
        """Operators that too few ticks have measured, and why; ``overall`` are profiles of all ticks."""
        found = {name: self._missing(name, profile) for name, profile in overall.items()}
        return {name: reason for name, reason in found.items() if reason}

    def _missing(self, name: str, profile: Profile) -> str:
        if name in self._known:
            return ""
        telling, counted = self._telling[name], self._counted[name]
        if telling < _ENOUGH_TICKS:
            rows = f"{self.least_rows} tuples or more" if self.least_rows > 1 else "any tuples"
            return f"only {telling} of {_ENOUGH_TICKS} ticks had {rows} for its query"
        if profile.samples == 0:
            return UNREACHED
        if not isfinite(profile.seconds_per_tuple_error):
            return f"{telling} ticks are too few to tell its cost from noise"
        # a select list has as many results as tuples
        if counted < _ENOUGH_COUNTS and not isinstance(self._network.operators[name], Project):
            return f"its results were counted in only {counted} of {_ENOUGH_COUNTS} ticks"
        return ""

    def wants_counts(self, rows: float) -> bool:
        """Whether a tick should count what operators pass on; small ticks reveal as much, and cost less.

        Counting takes plans of its own, so it becomes rare once selectivities are known.
        """
        number = self._ticks + 1
        is_due = number in _FIRST_COUNTS or number % _COUNT_EVERY == 0
        return is_due or (self._ticks < _COLD_TICKS + 4 and rows < _CHEAP_ROWS)

    def add(
        self, works: Iterable[TickWork], passed: Mapping[str, Passed], bytes_per_tuple: Mapping[str, float]
    ) -> bool:
        """Add a tick; whether that changes a profile."""
        self._ticks += 1
        before = dict(self._profiles)
        for name, counts in passed.items():
            if counts.taken > 0:
                ratio = self._selectivities.setdefault(name, DecayedRatio(_MEMORY))
                ratio.add(counts.passed_on, counts.taken)
                self._counted[name] += 1
                self._change(name, selectivity=ratio.value, selectivity_error=ratio.error)
        for name, width in bytes_per_tuple.items():
            self._change(name, bytes_per_tuple=width)
        if self._ticks > _COLD_TICKS:
            for work in works:
                if max(work.tuples.values(), default=0.0) >= self.least_rows:
                    self._add_work(work)
        return self._profiles != before

    def _add_work(self, work: TickWork) -> None:
        names = tuple(sorted(work.tuples))
        works = self._works.setdefault(names, deque(maxlen=_TICKS_REMEMBERED))
        works.append(work)
        previous = {name: self._cost(name, self._profiles[name]) for name in names}
        found = operator_costs(works, previous, _MEMORY)
        for name in names:
            self._telling[name] += 1
            if work.tuples[name] > 0:
                known = self._profiles[name]
                self._profiles[name] = found.profile(name, replace(known, samples=known.samples + 1))

    def _change(self, name: str, **values: Any) -> None:
        self._profiles[name] = replace(self._profiles[name], **values)

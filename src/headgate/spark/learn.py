"""Learning: what a tick tells about the operators it ran."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from headgate.model.network import Network
from headgate.model.profile import Profile, Profiles
from headgate.spark.costs import Work, explained

# the first ticks of a JVM tell about its compiler
_COLD_TICKS = 2
_TICKS_REMEMBERED = 64
_CHEAP_ROWS = 200_000
# a first tick of two tuples must not undo what an earlier run has found out
_KNOWN_TUPLES = 500.0
# an older tick counts less, by this factor a tick
_MEMORY = 0.9
# the time of jobs over fewer tuples tells about Spark, not about the tuples; but a threshold that an operator
# believed to be expensive never reaches would keep it expensive for ever
TELLING_ROWS = 200


@dataclass(frozen=True)
class Passed:
    """Tuples that an operator took, and those that it passed on."""

    taken: float
    passed_on: float


@dataclass(frozen=True)
class Overall:
    """What explains a whole run: profiles, and processor seconds of a tick's jobs before their first tuple
    and of a tuple that is stored."""

    profiles: Profiles
    fixed_busy_s: float
    stored_busy_s: float


class _Ratio:
    """What comes out by what goes in, over ticks of which older ones count less."""

    def __init__(self, known: float | None = None) -> None:
        """``known`` from an earlier run counts as much as some tuples."""
        self._ticks = 0.0
        self._taken = 0.0 if known is None else _KNOWN_TUPLES
        self._passed = self._taken * (known or 0.0)
        self._squares = np.zeros(3)

    def add(self, figures: Passed) -> None:
        self._ticks = _MEMORY * self._ticks + 1
        self._taken = _MEMORY * self._taken + figures.taken
        self._passed = _MEMORY * self._passed + figures.passed_on
        products = (figures.passed_on**2, figures.passed_on * figures.taken, figures.taken**2)
        self._squares = _MEMORY * self._squares + np.array(products)

    @property
    def value(self) -> float:
        return self._passed / self._taken

    @property
    def error(self) -> float:
        """Standard error: by how ticks differ, and at least what independent tuples would make."""
        ratio = self.value
        spread = float(self._squares @ np.array([1.0, -2 * ratio, ratio**2]))
        ticks = self._ticks / (self._ticks - 1) if self._ticks > 1 else 1.0
        by_tick = np.sqrt(max(0.0, spread) * ticks) / self._taken
        by_tuple = np.sqrt(ratio * (1 - ratio if ratio < 1 else 1) / self._taken)
        return float(max(by_tick, by_tuple))


class Learner:
    """Profiles, from the latest ticks.

    A tick has one time for all operators of a query. Ticks that are cut at different places tell the
    operators apart: their figures are those that explain the latest ticks best, none below zero. What it
    costs to store a tuple, and what jobs cost before their first tuple, are figures of their own.
    """

    def __init__(self, network: Network, widths_bytes: Mapping[str, float], known: Profiles) -> None:
        self._profiles = {
            name: known.get(name, Profile(bytes_per_tuple=widths_bytes.get(name, Profile.bytes_per_tuple)))
            for name in network.operators
        }
        self._selectivities = {name: profile.selectivity for name, profile in known.items()}
        self._works: dict[tuple[str, ...], deque[Work]] = {}
        self._passed: dict[str, _Ratio] = {}
        self._first_s = {name: profile.seconds_per_tuple for name, profile in self._profiles.items()}
        self._ticks = 0

    def go_on_from(self, earlier: Learner) -> None:
        """Remember what a run of the same network has learnt, and that Java is warm."""
        self._profiles, self._ticks = dict(earlier._profiles), earlier._ticks
        self._works, self._passed, self._first_s = earlier._works, earlier._passed, earlier._first_s

    def over_all(self) -> Overall:
        """What explains all ticks that are remembered, the old as well as the new.

        Where they tell operators apart badly, proportions are those that were known before the first.
        """
        profiles, fixed_s, stored_s = dict(self._profiles), 0.0, []
        for names, works in self._works.items():
            found = explained(works, {name: self._first_s[name] for name in names}, memory=1.0)
            fixed_s += found.fixed_s
            # once written, once read
            stored_s.append(2 * found.stored_s)
            for name in names:
                profiles[name] = replace(
                    profiles[name],
                    seconds_per_tuple=found.seconds[name],
                    seconds_per_tuple_error=found.errors[name],
                )
        return Overall(profiles, fixed_s, float(np.mean(stored_s)) if stored_s else 0.0)

    @property
    def profiles(self) -> Profiles:
        """What is known now."""
        return dict(self._profiles)

    def wants_counts(self, rows: float) -> bool:
        """Whether a tick of so many tuples should count what each operator passes on.

        Small ticks tell as much as large ones, and counting costs less there.
        """
        return self._ticks % 8 == 7 or (self._ticks < _COLD_TICKS + 4 and rows < _CHEAP_ROWS)

    def learn(
        self, works: list[Work], passed: Mapping[str, Passed], widths_bytes: Mapping[str, float]
    ) -> bool:
        """Take in a tick; whether anything is known better now."""
        self._ticks += 1
        before = dict(self._profiles)
        for name, figures in passed.items():
            self._take_in_selectivity(name, figures)
        for name, width in widths_bytes.items():
            self._profiles[name] = replace(self._profiles[name], bytes_per_tuple=width)
        if self._ticks > _COLD_TICKS:
            for work in works:
                if max(work.tuples.values(), default=0.0) >= TELLING_ROWS:
                    self._take_in_work(work)
        return self._profiles != before

    def _take_in_selectivity(self, name: str, figures: Passed) -> None:
        if figures.taken <= 0:
            return
        ratio = self._passed.setdefault(name, _Ratio(self._selectivities.get(name)))
        ratio.add(figures)
        self._profiles[name] = replace(
            self._profiles[name], selectivity=ratio.value, selectivity_error=ratio.error
        )

    def _take_in_work(self, work: Work) -> None:
        names = tuple(sorted(work.tuples))
        works = self._works.setdefault(names, deque(maxlen=_TICKS_REMEMBERED))
        works.append(work)
        found = explained(works, {name: self._profiles[name].seconds_per_tuple for name in names}, _MEMORY)
        for name in names:
            if work.tuples[name] > 0:
                self._profiles[name] = replace(
                    self._profiles[name],
                    seconds_per_tuple=found.seconds[name],
                    seconds_per_tuple_error=found.errors[name],
                    samples=self._profiles[name].samples + 1,
                )

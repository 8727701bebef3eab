"""The helm: what the next tick goes by, as a controller decides and somebody at the wheel insists."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Protocol

from headgate.model.event import TickCommitted
from headgate.model.network import Network
from headgate.model.operator import WindowJoin
from headgate.model.shedding import Course
from headgate.runtime.matches import Link, Matches, Sampled

_SAMPLE_EVERY = 4


@dataclass(frozen=True)
class Decided:
    """A course, and why it differs from the one before; ``figures`` are what it was decided by."""

    course: Course
    reason: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)


class Controller(Protocol):
    """Decides tick by tick; does no I/O."""

    def decide(self, tick: TickCommitted, course: Course) -> Decided:
        """The course of the next tick; ``tick`` is about to be committed, and went by ``course``."""

    def wants_samples(self) -> bool:
        """Whether the tick under way should sample how often tuples match."""

    def sampled(self, found: Mapping[Link, Sampled]) -> None:
        """What the samples of the tick under way say."""


class Steady:
    """Changes nothing."""

    def decide(self, tick: TickCommitted, course: Course) -> Decided:
        """The same again."""
        del tick
        return Decided(course)

    def wants_samples(self) -> bool:
        """Nothing depends on them."""
        return False

    def sampled(self, found: Mapping[Link, Sampled]) -> None:
        """Nobody asked."""


class Watching(Steady):
    """Changes nothing, and notes how often tuples match where a join of three or more streams has to know."""

    def __init__(self, network: Network) -> None:
        joins = [o for o in network.operators.values() if isinstance(o, WindowJoin)]
        self._samples = any(len(join.sides) > 2 for join in joins)
        self._ticks = 0
        self.matches = Matches()

    def decide(self, tick: TickCommitted, course: Course) -> Decided:
        """The same again."""
        self._ticks += 1
        return super().decide(tick, course)

    def wants_samples(self) -> bool:
        """In few ticks: they are there to be timed."""
        return self._samples and self._ticks % _SAMPLE_EVERY == 0

    def sampled(self, found: Mapping[Link, Sampled]) -> None:
        """Take in samples of matching tuples."""
        self.matches.add(found)


class Helm:
    """Shares given by hand go before those of the controller."""

    def __init__(
        self,
        controller: Controller | None = None,
        keep: Mapping[str, float] = MappingProxyType({}),
        seed: int | None = None,
    ) -> None:
        self._lock = threading.Lock()
        self.controller = controller or Steady()
        self._given = dict(keep)
        self._seed = seed

    def first(self) -> Course:
        """What the first tick goes by."""
        return Course(dict(self._given), self._seed or 0)

    def keep(self, shares: Mapping[str, float]) -> None:
        """Keep these shares of streams until told otherwise; called by any thread."""
        with self._lock:
            self._given.update(shares)

    def next(self, tick: TickCommitted, course: Course) -> Decided:
        """The course of the tick after the one that is about to be committed."""
        decided = self.controller.decide(tick, course)
        with self._lock:
            given = {s: share for s, share in self._given.items() if decided.course.share(s) != share}
        after = replace(
            decided.course,
            keep={**decided.course.keep, **given},
            seed=course.seed if self._seed is None else self._seed,
        )
        return replace(decided, course=after, reason=decided.reason or ("as told" if given else ""))

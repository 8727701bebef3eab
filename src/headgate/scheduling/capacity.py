"""Strategies by capacity: greedy, path capacity, segments of paths, and threshold between the last two."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from headgate.errors import SetupError
from headgate.model.network import Network
from headgate.model.profile import Profiles, in_sequence
from headgate.model.view import SystemView, Turn
from headgate.scheduling.strategy import Strategy, Unit, UnitStrategy

_DEFAULT_BYTES = 64 * 1024 * 1024

Operators = tuple[str, ...]


def processing_per_s(operators: Sequence[str], profiles: Profiles) -> float:
    """Tuples per second that a processor takes from the first queue through all operators."""
    own = (profiles[name] for name in operators)
    seconds, _ = in_sequence((profile.seconds_per_tuple, profile.selectivity) for profile in own)
    return 1.0 / seconds if seconds > 0 else math.inf


def release_per_s(operators: Sequence[str], readers: Sequence[str], profiles: Profiles) -> float:
    """Bytes per second by which these operators shrink what is queued.

    ``readers`` take the output; without any, it leaves the system and counts as nothing.
    """
    surviving = math.prod(profiles[name].selectivity for name in operators)
    left = surviving * profiles[readers[0]].bytes_per_tuple if readers else 0.0
    released = profiles[operators[0]].bytes_per_tuple - left
    # an operator that takes no time and frees nothing counts as idle
    return 0.0 if released == 0 else released * processing_per_s(operators, profiles)


class Greedy(UnitStrategy):
    """Every operator by itself; the one that frees the most bytes per second goes first."""

    name = "greedy"

    def cut(self, network: Network, profiles: Profiles) -> Iterable[Unit]:
        for operator in network.operators:
            yield Unit((operator,), release_per_s((operator,), network.readers(operator), profiles))


class PathCapacity(UnitStrategy):
    """Whole paths; the one that processes the most tuples per second goes first: the least total latency.

    A turn takes what a path processes in ``round_s``.
    """

    name = "path-capacity"

    def __init__(self, round_s: float = 1.0) -> None:
        self._round_s = round_s

    def cut(self, network: Network, profiles: Profiles) -> Iterable[Unit]:
        for path in network.paths():
            capacity = processing_per_s(path, profiles)
            yield Unit(path, capacity, max(1.0, capacity * self._round_s))


class SegmentList:
    """The segments of many plans, of which those that are not part of another one are served.

    A plan is identified by the operator that it ends in. Plans come and go, and only segments that a change
    touches are compared. The list depends on the registered plans alone, whatever their order.
    """

    def __init__(self) -> None:
        self._plans: dict[str, frozenset[Operators]] = {}
        self._uses: Counter[Operators] = Counter()
        self._members: dict[Operators, frozenset[str]] = {}
        self._by_operator: dict[str, set[Operators]] = {}
        # how many segments each one is part of
        self._covers: Counter[Operators] = Counter()

    def update(self, plans: Mapping[str, frozenset[Operators]]) -> None:
        """Register plans that are new or whose segments have changed, and unregister those that are gone."""
        for end in self._plans.keys() - plans.keys():
            self.unregister(end)
        for end, segments in plans.items():
            if self._plans.get(end) != segments:
                self.register(end, segments)

    def register(self, end: str, segments: frozenset[Operators]) -> None:
        """Add a plan, in place of one that ends in the same operator."""
        before = self._plans.get(end, frozenset())
        self._plans[end] = segments
        for segment in segments - before:
            self._uses[segment] += 1
            if self._uses[segment] == 1:
                self._add(segment)
        for segment in before - segments:
            self._release(segment)

    def unregister(self, end: str) -> None:
        """Remove a plan; segments that no other plan uses go with it."""
        for segment in self._plans.pop(end):
            self._release(segment)

    def served(self) -> list[Operators]:
        """The segments that are not part of another one, sorted."""
        return sorted(segment for segment in self._members if not self._covers[segment])

    def _add(self, segment: Operators) -> None:
        self._members[segment] = frozenset(segment)
        self._covers[segment] = sum(self._covers_other(longer, segment) for longer in self._near(segment))
        for shorter in self._near(segment):
            self._covers[shorter] += self._covers_other(segment, shorter)
        for operator in segment:
            self._by_operator.setdefault(operator, set()).add(segment)

    def _release(self, segment: Operators) -> None:
        self._uses[segment] -= 1
        if self._uses[segment]:
            return
        for operator in segment:
            self._by_operator[operator].remove(segment)
            if not self._by_operator[operator]:
                del self._by_operator[operator]
        for shorter in self._near(segment):
            self._covers[shorter] -= self._covers_other(segment, shorter)
        del self._uses[segment], self._covers[segment], self._members[segment]

    def _near(self, segment: Operators) -> set[Operators]:
        """The listed segments that share an operator with this one."""
        return set().union(*(self._by_operator.get(operator, ()) for operator in segment))

    def _covers_other(self, segment: Operators, other: Operators) -> bool:
        """Whether all operators of another segment are in this one; of equal ones, the first is served."""
        own, others = self._members[segment], self._members[other]
        return own > others or (own == others and segment < other)


class SegmentStrategy(UnitStrategy):
    """Segments by the bytes they free per second; a turn takes what a segment processes in ``round_s``.

    Inside a segment, the memory released never falls from an operator to the next.
    """

    name = "segment"

    def __init__(self, round_s: float = 1.0) -> None:
        self._round_s = round_s
        self._list = SegmentList()

    def cuts(self, release: Sequence[float]) -> list[int]:
        """The places to cut a path at, whose operators release so many bytes per second."""
        return [i for i, (here, after) in enumerate(pairwise(release), 1) if here > after]

    def segments_of(self, path: Operators, network: Network, profiles: Profiles) -> list[Operators]:
        # an operator is followed by the next one of the path, the last by its readers
        following = [*((name,) for name in path[1:]), network.readers(path[-1])]
        each = zip(path, following, strict=True)
        cuts = self.cuts([release_per_s((name,), readers, profiles) for name, readers in each])
        return [path[i:j] for i, j in pairwise([0, *cuts, len(path)])]

    def _plan(self, end: str, network: Network, profiles: Profiles) -> frozenset[Operators]:
        paths = network.paths_to(end)
        return frozenset(part for path in paths for part in self.segments_of(path, network, profiles))

    def cut(self, network: Network, profiles: Profiles) -> Iterable[Unit]:
        """One unit per segment of any query; what no query reads is served as well."""
        ends = {output for query in network.queries.values() for output in query.outputs}
        ends |= {name for name in network.operators if not network.readers(name)}
        self._list.update({end: self._plan(end, network, profiles) for end in ends})
        for segment in self._list.served():
            priority = release_per_s(segment, network.readers(segment[-1]), profiles)
            yield Unit(segment, priority, max(1.0, processing_per_s(segment, profiles) * self._round_s))


class SimplifiedSegment(SegmentStrategy):
    """At most two segments per path: operators that free ``gamma`` times their predecessor; and the rest."""

    name = "simplified-segment"

    def __init__(self, gamma: float = 0.75, round_s: float = 1.0) -> None:
        super().__init__(round_s)
        self._gamma = gamma

    def cuts(self, release: Sequence[float]) -> list[int]:
        falls = [i for i, (here, after) in enumerate(pairwise(release), 1) if after < self._gamma * here]
        return falls[:1]


def thresholds(memory_bytes: float, mean_bytes: float, beta: float) -> tuple[float, float]:
    """Queue memory at which to leave saving mode, and at which to enter it."""
    alpha = mean_bytes / memory_bytes
    enter = min((1 + alpha) / 2 * memory_bytes, beta * memory_bytes)
    return min(mean_bytes, beta * enter), enter


class Threshold:
    """Path capacity; from an upper threshold of queue memory down to a lower one, simplified segments.

    The limit is ``memory_bytes``, or the sum of the queries' memory bounds, or 64 MB. Memory is checked every
    ``interval_s`` when queues are empty, and more often the closer it is to the limit. Where saving is not
    enough, load shedding has to take over: ``room_bytes`` is what the queues can still take.
    """

    name = "threshold"

    def __init__(self, memory_bytes: float | None = None, beta: float = 0.9, interval_s: float = 0.1) -> None:
        if not 0.5 < beta < 1:
            raise SetupError(f"beta = {beta:g} is out of range; write a number between 0.5 and 1")
        if memory_bytes is not None and memory_bytes <= 0:
            raise SetupError(f"memory_bytes = {memory_bytes:g} is out of range; write a number above 0")
        self.memory_bytes = memory_bytes
        self.beta = beta
        self.interval_s = interval_s
        self.normal: Strategy = PathCapacity()
        self.saving: Strategy = SimplifiedSegment()
        self.is_saving = False
        self._allowed_bytes: float = _DEFAULT_BYTES
        self._byte_seconds = 0.0
        self._first_s: float | None = None
        self._checked_s = 0.0
        self._next_check_s = 0.0
        self._bytes = 0.0

    @property
    def limit_bytes(self) -> float:
        """The effective limit; set ``memory_bytes`` to change it."""
        return self._allowed_bytes if self.memory_bytes is None else self.memory_bytes

    def room_bytes(self, queued_bytes: float) -> float:
        """Bytes that may still arrive while so many are in queues; the engine sheds what is beyond them."""
        return max(0.0, self.limit_bytes - queued_bytes)

    def prepare(self, network: Network, profiles: Profiles) -> None:
        bounds = [query.memory_bytes for query in network.queries.values() if query.memory_bytes]
        self._allowed_bytes = float(sum(bounds)) if bounds else _DEFAULT_BYTES
        self.normal.prepare(network, profiles)
        self.saving.prepare(network, profiles)

    def choose(self, view: SystemView) -> Turn | None:
        if self._first_s is None or view.now_s >= self._next_check_s:
            self._check_memory(view)
        return (self.saving if self.is_saving else self.normal).choose(view)

    def _check_memory(self, view: SystemView) -> None:
        if self._first_s is None:
            self._first_s = self._checked_s = view.now_s
        self._byte_seconds += self._bytes * max(0.0, view.now_s - self._checked_s)
        self._checked_s = max(view.now_s, self._checked_s)
        self._bytes = sum(queue.bytes for queue in view.queues.values())
        elapsed_s = self._checked_s - self._first_s
        mean_bytes = self._byte_seconds / elapsed_s if elapsed_s > 0 else 0.0
        leave, enter = thresholds(self.limit_bytes, min(mean_bytes, self.limit_bytes), self.beta)
        if self._bytes >= enter:
            self.is_saving = True
        elif self._bytes <= leave:
            self.is_saving = False
        self._next_check_s = view.now_s + self.interval_s * max(0.0, 1 - self._bytes / self.limit_bytes)

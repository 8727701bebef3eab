"""A naive scheduler of pages, one time unit after the other, and the best that any schedule could do.

Written for tests alone: nothing in it comes from the simulator. A page is a number, the processor time that
it has received; a chart says how much of it is left. Operators take whole time units for a page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from headgate.model.network import Network, QueryDefinition, SinkDefinition, StreamDefinition
from headgate.model.operator import Synthetic
from headgate.model.operator_inputs import OperatorInput, StreamInput
from headgate.model.profile import Profile
from headgate.model.view import QueueView, SystemView
from headgate.scheduling.strategy import Strategy


@dataclass(frozen=True)
class Path:
    """Time units that each operator takes for a page, and the size that it leaves."""

    units: tuple[int, ...]
    sizes: tuple[float, ...]

    @property
    def ends(self) -> list[int]:
        return [sum(self.units[: i + 1]) for i in range(len(self.units))]

    @property
    def length(self) -> int:
        return sum(self.units)

    def operator_at(self, progress: int) -> int:
        return next(i for i, end in enumerate(self.ends) if progress < end)

    def size_at(self, progress: int) -> float:
        """What is left after so much processing: operators shrink a page when they are done."""
        sizes = [1.0, *self.sizes[:-1], 0.0]
        return sizes[sum(end <= progress for end in self.ends)]

    def profiles(self) -> list[Profile]:
        sizes = [1.0, *self.sizes]
        return [
            Profile(units / before, after / before, 1.0)
            for units, before, after in zip(self.units, sizes[:-1], sizes[1:], strict=True)
        ]


@dataclass(frozen=True)
class Page:
    path: int
    arrival: int


@dataclass(frozen=True)
class Trace:
    """Progress of every page at each time unit, in order of ``pages``; -1 before it arrives."""

    pages: tuple[Page, ...]
    progress: tuple[tuple[int, ...], ...]

    def memory(self, size: Callable[[int, int], float]) -> list[float]:
        """``size(path, progress)`` summed over the pages that are there, at each time."""
        return [
            sum(size(page.path, done) for page, done in zip(self.pages, at, strict=True) if done >= 0)
            for at in self.progress
        ]

    def latencies(self, paths: Sequence[Path]) -> list[int]:
        """By page: time from arrival to completion."""
        return [
            next(time for time, at in enumerate(self.progress) if at[number] == paths[page.path].length)
            - page.arrival
            for number, page in enumerate(self.pages)
        ]


def network_of(paths: Sequence[Path], latency_s: float | None = None) -> Network:
    """One stream and one query a path; its operators are ``path.position``."""
    operators = []
    for number, path in enumerate(paths):
        stream = f"s{number}"
        for position in range(len(path.units)):
            below = OperatorInput(f"{number}.{position - 1}") if position else StreamInput(stream, stream, ())
            operators.append(Synthetic(f"{number}.{position}", (below,)))
    return Network(
        tuple(StreamDefinition(f"s{i}", "synthetic", None) for i in range(len(paths))),
        (),
        tuple(operators),
        tuple(
            QueryDefinition(f"q{i}", (f"{i}.{len(path.units) - 1}",), SinkDefinition("none"), latency_s)
            for i, path in enumerate(paths)
        ),
    )


def profiles_of(paths: Sequence[Path]) -> dict[str, Profile]:
    return {
        f"{number}.{position}": profile
        for number, path in enumerate(paths)
        for position, profile in enumerate(path.profiles())
    }


def run_pages(
    strategy: Strategy, paths: Sequence[Path], pages: Sequence[Page], latency_s: float | None = None
) -> Trace:
    """Ask the strategy at every time unit; the head of the queue it names gets the unit."""
    pages = tuple(sorted(pages, key=lambda page: page.arrival))
    strategy.prepare(network_of(paths, latency_s), profiles_of(paths))
    progress = [-1] * len(pages)
    history: list[tuple[int, ...]] = []
    work = sum(paths[page.path].length for page in pages)
    for now in range(work + max((page.arrival for page in pages), default=0) + 1):
        progress = [0 if page.arrival == now else done for page, done in zip(pages, progress, strict=True)]
        history.append(tuple(progress))
        queues = queues_of(paths, pages, progress)
        turn = strategy.choose(view_of(paths, pages, progress, queues, now))
        if turn is None:
            assert not any(queues.values()), f"{strategy.name} idles although pages wait"
            continue
        waiting = queues[turn.operators[0]]
        assert waiting, f"{strategy.name} chose the empty queue of {turn.operators[0]}"
        progress[waiting[0]] += 1
    assert all(done == paths[page.path].length for page, done in zip(pages, progress, strict=True))
    return Trace(pages, tuple(history))


def queues_of(paths: Sequence[Path], pages: Sequence[Page], progress: Sequence[int]) -> dict[str, list[int]]:
    queues: dict[str, list[int]] = {
        f"{number}.{position}": [] for number, path in enumerate(paths) for position in range(len(path.units))
    }
    for number, (page, done) in enumerate(zip(pages, progress, strict=True)):
        if 0 <= done < paths[page.path].length:
            queues[f"{page.path}.{paths[page.path].operator_at(done)}"].append(number)
    return queues


def view_of(
    paths: Sequence[Path],
    pages: Sequence[Page],
    progress: Sequence[int],
    queues: dict[str, list[int]],
    now: int,
) -> SystemView:
    views = {}
    for name, waiting in queues.items():
        sizes = [paths[pages[n].path].size_at(progress[n]) for n in waiting]
        arrivals = tuple(float(pages[n].arrival) for n in waiting)
        begun = bool(waiting) and progress[waiting[0]] not in (0, *paths[pages[waiting[0]].path].ends)
        oldest_s = arrivals[0] if arrivals else float("inf")
        views[name] = QueueView(name, sum(sizes), sum(sizes), sum(sizes), oldest_s, arrivals, begun)
    return SystemView(float(now), views)


def least_memory(
    paths: Sequence[Path],
    pages: Sequence[Page],
    size: Callable[[int, int], float],
    bound: float = float("inf"),
) -> list[float]:
    """At every time unit, the least memory of all states that any schedule can have reached by then.

    Of those that can still get every page out within ``bound`` time units of its arrival.
    """
    pages = sorted(pages, key=lambda page: page.arrival)
    states = {tuple(-1 for _ in pages)}
    least = []
    work = sum(paths[page.path].length for page in pages)
    for now in range(work + max((page.arrival for page in pages), default=0) + 1):
        states = {
            tuple(0 if page.arrival == now else done for page, done in zip(pages, state, strict=True))
            for state in states
        }
        least.append(
            min(
                sum(size(page.path, done) for page, done in zip(pages, state, strict=True) if done >= 0)
                for state in states
            )
        )
        states = {after for state in states for after in steps(paths, pages, state)}
        states = {state for state in states if in_time(paths, pages, state, now + 1, bound)}
    return least


def in_time(
    paths: Sequence[Path], pages: Sequence[Page], state: tuple[int, ...], now: int, bound: float
) -> bool:
    """Whether the pages that are there can all be out in time, if nothing else comes: oldest first."""
    work = 0
    for page, done in zip(pages, state, strict=True):
        if done >= 0:
            work += paths[page.path].length - done
            if done < paths[page.path].length and work > page.arrival + bound - now:
                return False
    return True


def steps(paths: Sequence[Path], pages: Sequence[Page], state: tuple[int, ...]) -> list[tuple[int, ...]]:
    """All states one time unit later; idling only helps when there is nothing to do."""
    ready = [n for n, done in enumerate(state) if 0 <= done < paths[pages[n].path].length]
    return [(*state[:n], state[n] + 1, *state[n + 1 :]) for n in ready] or [state]


def arrivals(paths: int, most: int = 4) -> st.SearchStrategy[list[Page]]:
    return st.lists(st.builds(Page, st.integers(0, paths - 1), st.integers(0, 5)), min_size=1, max_size=most)


# quarters, so that slopes tie now and then
_sizes = st.sampled_from([0.1, 0.25, 0.5, 0.75, 1.0])


@st.composite
def convex_paths(draw: st.DrawFn) -> Path:
    """Charts that are their own envelope, looked at after each time unit."""
    drops = sorted(draw(st.lists(st.sampled_from([0, 1, 2, 4, 8]), min_size=1, max_size=4)), reverse=True)
    drops[0] = max(1, drops[0])
    left, sizes = float(sum(drops)), []
    for drop in drops:
        left -= drop
        sizes.append(left / sum(drops))
    # a page that is empty early would be gone: keep a trace of it in the profiles, not in memory
    return Path((1,) * len(drops), tuple(max(size, 1e-9) for size in sizes))


@st.composite
def shrinking_paths(draw: st.DrawFn) -> Path:
    """No selectivity above 1."""
    units = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
    sizes = sorted((draw(_sizes) for _ in units), reverse=True)
    return Path(units, tuple(sizes))


@st.composite
def any_paths(draw: st.DrawFn) -> Path:
    """Selectivities above 1 as well."""
    units = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
    return Path(units, tuple(draw(st.sampled_from([0.1, 0.5, 1.0, 1.5, 2.0])) for _ in units))

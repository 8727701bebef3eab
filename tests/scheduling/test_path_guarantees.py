"""What holds of path capacity and of segments, and what does not."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.scheduling.pages import Page, Path, arrivals, convex_paths, run_pages, shrinking_paths

from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.scheduling import strategy_named
from headgate.scheduling.strategy import Unit, UnitStrategy


class PathOrder(UnitStrategy):
    """Whole paths in any given order."""

    name = "path-order"

    def __init__(self, order: tuple[int, ...]) -> None:
        self._order = order

    def cut(self, network: Network, profiles: Profiles) -> list[Unit]:
        return [Unit(path, -self._order.index(int(path[0].split(".")[0]))) for path in network.paths()]


@settings(max_examples=150, deadline=None)
@given(st.lists(shrinking_paths(), min_size=2, max_size=3), st.data())
def test_path_capacity_has_the_least_total_latency_of_all_path_orders_for_a_burst(
    paths: list[Path], data: st.DataObject
) -> None:
    pages = [Page(page.path, 0) for page in data.draw(arrivals(len(paths), most=6))]
    total = sum(run_pages(strategy_named("path-capacity"), paths, pages).latencies(paths))
    for order in permutations(range(len(paths))):
        assert total <= sum(run_pages(PathOrder(order), paths, pages).latencies(paths))


def test_path_capacity_is_not_the_best_path_order_when_a_long_tuple_is_nearly_done() -> None:
    """The claim needs a burst: here interrupting the long path costs more than the short one's wait."""
    paths, pages = [Path((10,), (0.5,)), Path((3,), (0.5,))], [Page(0, 0), Page(1, 9)]
    capacity = sum(run_pages(strategy_named("path-capacity"), paths, pages).latencies(paths))
    other = sum(run_pages(PathOrder((0, 1)), paths, pages).latencies(paths))
    assert (capacity, other) == (16, 14)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=2, max_size=3), st.data())
def test_path_capacity_has_the_least_memory_of_all_path_orders_if_paths_release_evenly(
    lengths: list[int], data: st.DataObject
) -> None:
    paths = [Path((1,) * n, tuple(1 - (i + 1) / n + 1e-9 for i in range(n))) for n in lengths]
    pages = data.draw(arrivals(len(paths)))

    def memory(strategy: UnitStrategy) -> list[float]:
        return run_pages(strategy, paths, pages).memory(lambda p, at: paths[p].size_at(at))

    capacity = memory(strategy_named("path-capacity"))  # type: ignore[arg-type]
    for order in permutations(range(len(paths))):
        assert all(a <= b + 1e-6 for a, b in zip(capacity, memory(PathOrder(order)), strict=True))


def test_path_capacity_is_not_the_best_path_order_where_a_slow_path_releases_early() -> None:
    paths, pages = [Path((1, 1), (0.9, 0.5)), Path((1, 2), (0.1, 0.1))], [Page(0, 0), Page(1, 0)]

    def memory(strategy: object) -> list[float]:
        return run_pages(strategy, paths, pages).memory(lambda p, at: paths[p].size_at(at))  # type: ignore[arg-type]

    assert memory(strategy_named("path-capacity"))[1] == pytest.approx(1.9)
    assert memory(PathOrder((1, 0)))[1] == pytest.approx(1.1)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(convex_paths(), min_size=1, max_size=2), st.data())
def test_segment_never_beats_chain_on_envelope_charts(paths: list[Path], data: st.DataObject) -> None:
    """Theorem 3 of the segment paper says the opposite."""
    pages = data.draw(arrivals(len(paths)))

    def memory(name: str) -> list[float]:
        return run_pages(strategy_named(name), paths, pages).memory(lambda p, at: paths[p].size_at(at))

    for name in ("segment", "simplified-segment", "path-capacity"):
        assert all(chain <= other + 1e-6 for chain, other in zip(memory("chain"), memory(name), strict=True))


def peaks(path: Path, pages: list[Page]) -> dict[str, float]:
    return {
        name: max(run_pages(strategy_named(name), [path], pages).memory(lambda _, at: path.size_at(at)))
        for name in ("chain", "segment")
    }


def test_segment_can_need_more_than_chain_and_chain_more_than_segment() -> None:
    """Theorem 3 of the segment paper has segment never above chain; on charts with steps neither holds."""
    above = peaks(Path((1, 3), (0.75, 0.5)), [Page(0, 2), Page(0, 2), Page(0, 5)])
    assert above == pytest.approx({"chain": 2.5, "segment": 2.75})
    below = peaks(Path((2, 1, 1), (0.5, 0.25, 0.1)), [Page(0, at) for at in (0, 5, 5, 8, 8)])
    assert below == pytest.approx({"chain": 3.5, "segment": 3.25})

"""What is proven about chain, on random charts and arrivals, against all schedules there are."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.scheduling.pages import (
    Page,
    Path,
    any_paths,
    arrivals,
    convex_paths,
    least_memory,
    run_pages,
    shrinking_paths,
)

from headgate.scheduling import strategy_named
from headgate.scheduling.chain_envelope import ProgressChart

EPSILON = 1e-6
two = {"min_size": 1, "max_size": 2}


def chart(path: Path) -> ProgressChart:
    return ProgressChart.of(path.profiles())


@settings(max_examples=150, deadline=None)
@given(st.lists(convex_paths(), **two), st.data())
def test_chain_holds_no_more_than_any_schedule_on_envelope_charts(
    paths: list[Path], data: st.DataObject
) -> None:
    pages = data.draw(arrivals(len(paths)))
    memory = run_pages(strategy_named("chain"), paths, pages).memory(lambda p, at: paths[p].size_at(at))
    least = least_memory(paths, pages, lambda p, at: paths[p].size_at(at))
    assert all(chain <= best + EPSILON for chain, best in zip(memory, least, strict=True))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(any_paths(), **two), st.data())
def test_chain_exceeds_the_envelope_bound_by_the_gaps_of_its_segments_at_most(
    paths: list[Path], data: st.DataObject
) -> None:
    pages = data.draw(arrivals(len(paths), most=3))
    charts = [chart(path) for path in paths]
    memory = run_pages(strategy_named("chain"), paths, pages).memory(lambda p, at: paths[p].size_at(at))
    bound = least_memory(paths, pages, lambda p, at: charts[p].envelope_at(at))
    gaps = sum(c.gaps for c in charts)
    assert all(chain <= best + gaps + EPSILON for chain, best in zip(memory, bound, strict=True))


@settings(max_examples=150, deadline=None)
@given(st.lists(shrinking_paths(), **two), st.data())
def test_without_selectivities_above_1_chain_is_within_a_unit_a_path_of_the_optimum(
    paths: list[Path], data: st.DataObject
) -> None:
    pages = data.draw(arrivals(len(paths), most=3))
    memory = run_pages(strategy_named("chain"), paths, pages).memory(lambda p, at: paths[p].size_at(at))
    least = least_memory(paths, pages, lambda p, at: paths[p].size_at(at))
    assert all(chain <= best + len(paths) + EPSILON for chain, best in zip(memory, least, strict=True))
    assert max(memory) <= max(least) + len(paths) + EPSILON


@settings(max_examples=150, deadline=None)
@given(st.lists(any_paths(), min_size=1, max_size=3), st.data())
def test_of_the_tuples_on_segments_of_one_slope_one_is_in_mid_segment_at_most(
    paths: list[Path], data: st.DataObject
) -> None:
    trace = run_pages(strategy_named("chain"), paths, data.draw(arrivals(len(paths), most=6)))
    charts = [chart(path) for path in paths]
    for at in trace.progress:
        middles = []
        for page, done in zip(trace.pages, at, strict=True):
            path, ends = paths[page.path], [0, *paths[page.path].ends]
            if not 0 <= done < path.length:
                continue
            operator = path.operator_at(done)
            segment = next(s for s in charts[page.path].segments if s.first <= operator < s.last)
            if done != ends[segment.first]:
                middles.append(segment.slope)
        assert all(here > after * (1 + 1e-9) for here, after in pairwise(sorted(middles, reverse=True)))


def test_a_knapsack_hides_in_the_offline_problem() -> None:
    """Chain takes the steepest first; the optimum at one instant picks what fits before it."""
    paths = [Path((3,), (0.5,)), Path((2, 2), (0.45, 0.45))]
    pages = [Page(0, 0), Page(1, 0), Page(1, 0)]
    memory = run_pages(strategy_named("chain"), paths, pages).memory(lambda p, at: paths[p].size_at(at))
    least = least_memory(paths, pages, lambda p, at: paths[p].size_at(at))
    assert memory[2] == pytest.approx(3.0) and least[2] == pytest.approx(2.45)
    assert all(chain >= best - EPSILON for chain, best in zip(memory, least, strict=True))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(shrinking_paths(), st.data())
def test_chain_flush_is_chain_for_large_bounds_and_fifo_for_small_ones(
    path: Path, data: st.DataObject
) -> None:
    # tuples are ordered by arrival alone, so let no two come at once
    pages = list({page.arrival: page for page in data.draw(arrivals(1))}.values())
    for flush in ("chain-flush", "chain-flush-exact"):
        loose = run_pages(strategy_named(flush), [path], pages, latency_s=1e6)
        tight = run_pages(strategy_named(flush), [path], pages, latency_s=1e-6)
        assert loose.progress == run_pages(strategy_named("chain"), [path], pages).progress
        assert tight.latencies([path]) == run_pages(strategy_named("fifo"), [path], pages).latencies([path])


@settings(max_examples=150, deadline=None)
@given(shrinking_paths(), st.integers(0, 6), st.data())
def test_exact_chain_flush_keeps_every_bound_that_fifo_keeps(
    path: Path, more: int, data: st.DataObject
) -> None:
    pages = data.draw(arrivals(1, most=6))
    bound = max(run_pages(strategy_named("fifo"), [path], pages).latencies([path])) + more
    flushed = run_pages(strategy_named("chain-flush-exact"), [path], pages, latency_s=bound)
    assert max(flushed.latencies([path])) <= bound


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(shrinking_paths().filter(lambda path: len(chart(path).segments) <= 2), st.integers(0, 6), st.data())
def test_with_two_segments_chain_flush_is_within_a_unit_of_all_that_keep_the_bound(
    path: Path, more: int, data: st.DataObject
) -> None:
    """Whoever does not know what comes must stay where all that is there can get out in time."""
    pages = data.draw(arrivals(1))
    bound = max(run_pages(strategy_named("fifo"), [path], pages).latencies([path])) + more
    flushed = run_pages(strategy_named("chain-flush-exact"), [path], pages, latency_s=bound)
    memory = flushed.memory(lambda _, at: path.size_at(at))
    least = least_memory([path], pages, lambda _, at: path.size_at(at), bound)
    assert all(flush <= best + 1 + EPSILON for flush, best in zip(memory, least, strict=True))

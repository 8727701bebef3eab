"""Small blocks of a log are merged, without changing what any reader finds in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.spark.blocks import FEWEST_MERGED, SMALL_ROWS, groups_to_merge, merged_block
from headgate.spark.manifest import BlockRef, Manifest, OperatorState


def blocks(count: int, rows: int = 10, numbered: bool = False) -> list[BlockRef]:
    return [
        BlockRef(f"b{i}", rows, rows * 8, i * 100, i * 100 + 99, first_seq=i * rows if numbered else None)
        for i in range(count)
    ]


def test_few_small_blocks_are_left_alone() -> None:
    assert groups_to_merge({("q", 0): blocks(FEWEST_MERGED - 1)}) == []


def test_enough_small_blocks_with_the_same_readers_become_one() -> None:
    own = blocks(FEWEST_MERGED)
    assert groups_to_merge({("q", 0): own, ("r", 1): own}) == [tuple(own)]


def test_blocks_that_only_some_readers_keep_are_merged_apart() -> None:
    own = blocks(2 * FEWEST_MERGED)
    recent = own[FEWEST_MERGED:]
    groups = groups_to_merge({("long", 0): own, ("short", 0): recent})
    assert groups == [tuple(own[:FEWEST_MERGED]), tuple(recent)]


def test_large_blocks_are_not_copied_again() -> None:
    own = blocks(2 * FEWEST_MERGED)
    large = FEWEST_MERGED
    own[large] = BlockRef("large", SMALL_ROWS, 8, large * 100, large * 100 + 99)
    assert groups_to_merge({("q", 0): own}) == [tuple(own[:large])]


def test_a_gap_in_the_numbers_keeps_blocks_apart() -> None:
    own = blocks(2 * FEWEST_MERGED, numbered=True)
    del own[FEWEST_MERGED]
    assert groups_to_merge({("q", 0): own}) == [tuple(own[:FEWEST_MERGED])]


@given(st.lists(st.integers(1, 1000), min_size=2, max_size=30))
def test_a_merged_block_has_the_tuples_of_all(rows: list[int]) -> None:
    parts = [BlockRef(f"b{i}", n, 8 * n, i * 100, i * 100 + 99) for i, n in enumerate(rows)]
    one = merged_block(parts, "merged")
    assert (one.rows, one.bytes) == (sum(rows), 8 * sum(rows))
    assert (one.min_ts, one.max_ts) == (0, len(rows) * 100 - 1)
    for ts in range(0, len(rows) * 100, 37):
        exact = sum(part.rows_from(ts) for part in parts if part.max_ts >= ts)
        # of a part, only its ends are known
        assert one.rows_from(ts) == pytest.approx(exact, abs=2 + sum(rows) / 32 + max(rows))


@given(
    st.lists(st.integers(0, 50), min_size=2, max_size=200),
    st.integers(-5, 55),
)
def test_the_first_number_from_a_timestamp_is_never_too_high(times: list[int], ts: int) -> None:
    times = sorted(times)
    last = len(times) - 1
    quantiles = tuple(times[place * last // 32] for place in range(33))
    block = BlockRef(
        "b", len(times), 8, times[0], times[-1], quantiles=quantiles, first_seq=1000, is_in_order=True
    )
    exact = sum(t < ts for t in times)
    assert block.first_seq_from(ts) <= 1000 + exact


def test_a_block_that_many_operators_read_stands_once_in_a_manifest() -> None:
    [shared] = blocks(1)
    operators = {f"q{i}": OperatorState(7, ((shared,),)) for i in range(100)}
    text = Manifest(3, operators=operators).to_json()
    assert text.count('"b0"') == 1
    found = Manifest.from_json(text)
    assert found.operators == operators
    assert len({id(state.blocks[0][0]) for state in found.operators.values()}) == 1

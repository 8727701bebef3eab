"""Random texts by key and length."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from headgate.workload.random_text import DIGITS, LETTERS, Alphabet, letters_and

KEYS = np.random.default_rng(5).integers(0, 2**64, 20_000, dtype=np.uint64)


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 40)), max_size=5))
def test_a_text_depends_on_its_key_and_length_alone(wanted: list[tuple[int, int]]) -> None:
    keys = np.array([key for key, _ in wanted], dtype=np.uint64)
    lengths = np.array([length for _, length in wanted], dtype=np.int64)
    together = LETTERS.texts(keys, lengths).to_pylist()
    assert [len(text) for text in together] == lengths.tolist()
    for place, text in enumerate(together):
        assert LETTERS.texts(keys[place : place + 1], lengths[place : place + 1]).to_pylist() == [text]


@pytest.mark.parametrize(
    ("alphabet", "shares"),
    [
        (DIGITS, dict.fromkeys("0123456789", 1 / 10)),
        (LETTERS, dict.fromkeys("abcdefghijklmnopqrstuvwxyz", 1 / 26)),
        (letters_and("_"), {**dict.fromkeys("abcdefghijklmnopqrstuvwxyz", 12 / 13 / 26), "_": 1 / 13}),
        (Alphabet("xxy"), {"x": 2 / 3, "y": 1 / 3}),
    ],
)
@pytest.mark.parametrize("place", [0, 1, 9])
def test_symbols_have_their_shares_at_every_place(
    alphabet: Alphabet, shares: dict[str, float], place: int
) -> None:
    texts = alphabet.texts(KEYS, np.full(len(KEYS), 10)).to_pylist()
    counts = Counter(text[place] for text in texts)
    assert set(counts) == set(shares)
    found, expected = zip(*((counts[s], share * len(KEYS)) for s, share in shares.items()), strict=True)
    assert stats.chisquare(found, expected).pvalue > 1e-6


def test_neighbouring_symbols_are_independent() -> None:
    texts = LETTERS.texts(KEYS, np.full(len(KEYS), 9)).to_pylist()
    for place in (0, 7):
        pairs = stats.contingency.crosstab([t[place] for t in texts], [t[place + 1] for t in texts]).count
        assert stats.chi2_contingency(pairs).pvalue > 1e-6


def test_no_keys_give_no_texts() -> None:
    assert LETTERS.texts(KEYS[:0], np.empty(0, np.int64)).to_pylist() == []

"""Durations and sizes, as settings and command-line options write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.cql.measure import parse_bytes, parse_duration_us


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("2 s", 2_000_000),
        ("10 SECONDS", 10_000_000),
        ("500 milliseconds", 500_000),
        ("1.5 HOURS", 5_400_000_000),
        ("3m", 180_000_000),
        ("1 d", 86_400_000_000),
        (" '2 s' ", 2_000_000),
        ("INTERVAL '10' SECOND", 10_000_000),
        (".25ms", 250),
        ("7 µs", 7),
        ("0 s", 0),
    ],
)
def test_durations_are_read_in_all_spellings(text: str, microseconds: int) -> None:
    assert parse_duration_us(text) == microseconds


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64 MB", 64 * 2**20),
        ("64MB", 64 * 2**20),
        ("1GiB", 2**30),
        ("512k", 512 * 2**10),
        ("1.5 kb", 1536),
        ("2 t", 2 * 2**40),
        ("12 bytes", 12),
        ("4096 B", 4096),
    ],
)
def test_sizes_are_powers_of_1024_in_all_spellings(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the time is missing; write a number and a unit, such as 10 SECONDS"),
        ("soon", "'soon' is not a time; write a number and a unit, such as 10 SECONDS"),
        ("10", "10 has no unit; write 10 SECONDS"),
        ("-1 s", "a time cannot be negative; write a positive number and a unit"),
        ("1 s 2", "unexpected '2' after the time; write 1 s"),
        ("9" * 31 + " s", "a number of 31 digits is too long for a time"),
    ],
)
def test_what_is_no_duration_is_told_what_would_be_right(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_duration_us(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("much", "'much' is not a size; write a number and a unit, such as 10 MB"),
        ("64", "64 has no unit; write 64 MB"),
        ("10 parsecs", "unknown unit 'parsecs' of a size; known units: B, KB, MB, GB, TB, PB"),
        ("-1 MB", "a size cannot be negative; write a positive number and a unit"),
        ("9999999 PB", "this size is out of bounds; write one from 1 B to 9223372036854775807 B"),
    ],
)
def test_what_is_no_size_is_told_what_would_be_right(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_bytes(text)
    assert str(caught.value) == message


@given(st.integers(0, 10**9), st.sampled_from(["s", "sec", "SECONDS"]), st.sampled_from(["", " ", "\t"]))
def test_seconds_are_a_million_microseconds(seconds: int, unit: str, gap: str) -> None:
    assert parse_duration_us(f"{seconds}{gap}{unit}") == seconds * 1_000_000


@pytest.mark.slow
@given(st.text())
def test_any_text_is_a_measure_or_a_one_line_value_error(text: str) -> None:
    for read in (parse_duration_us, parse_bytes):
        try:
            assert read(text) >= 0
        except ValueError as error:
            assert len(str(error).splitlines()) == 1

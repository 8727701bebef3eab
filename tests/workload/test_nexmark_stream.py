"""Streams of NEXMark events: options, columns, and how they are divided."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.errors import SetupError
from headgate.workload.generated_stream import SQL_NAMES, DeclaredColumn
from headgate.workload.nexmark import EVENT_TABLES, EventSequence
from headgate.workload.nexmark_stream import NexmarkSettings


def stream(table: str = "bid", **options: str) -> NexmarkSettings:
    return NexmarkSettings.parse({"table": table, **options})


def read(of: NexmarkSettings, begin_us: int, end_us: int) -> pa.Table:
    assert of.start_us is not None
    return pa.Table.from_batches(of.batches(begin_us, end_us, of.start_us, of.schema), of.schema)


def test_defaults_are_the_endless_sequence_of_seed_1_in_real_time() -> None:
    found = stream()
    assert found.sequence == EventSequence()
    assert (found.speed, found.partitions, found.max_rows, found.is_finite) == (1.0, 2, None, False)


def test_option_names_and_tables_are_read_in_any_case() -> None:
    found = NexmarkSettings.parse(
        {"TABLE": "Bid", "Events": "30", "RATE": "2.5", "seed": "4", "start": "1970-01-01", "Speed": "max"}
    )
    assert found.table == "bid"
    assert found.sequence == EventSequence(4, found.sequence.rate, 0)
    assert float(found.sequence.rate) == 2.5
    assert (found.duration_us, found.speed) == (29 * 400_000 + 1, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "nexmark needs the option table: one of auction, bid, person"),
        (
            {"table": "bids"},
            "option table: unknown table bids; did you mean bid. known: auction, bid, person",
        ),
        ({"table": "bid", "event": "5"}, "nexmark has no option 'event'; did you mean events. it has events"),
        ({"table": "bid", "events": "0"}, "option events: 0 is out of range; write a whole number of events"),
        ({"table": "bid", "events": "1e6"}, "option events: 1e6 is not a whole number; write"),
        ({"table": "bid", "rate": "fast"}, "option rate: 'fast' is not a rate"),
        ({"table": "bid", "rate": "0"}, "a rate of 0 is out of range"),
        ({"table": "bid", "rate": "0.12345"}, "a rate of 0.12345 is out of range; .* at most three decimals"),
        ({"table": "bid", "seed": "-1"}, "option seed: -1 is out of range; write a whole number from 0"),
        ({"table": "bid", "seed": "x"}, "option seed: x is not a whole number"),
        ({"table": "bid", "start": "now"}, "option start: 'now' is not a time; write one like 20"),
        ({"table": "bid", "speed": "max"}, "add option events, as in '1000000'"),
        ({"table": "bid", "speed": "-1"}, "option speed: -1 is out of range; write .*, or 'max'"),
        ({"table": "bid", "events": "1" + "0" * 15, "rate": "1"}, "beyond the year 9999"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(options: dict[str, str], message: str) -> None:
    with pytest.raises(SetupError, match=message):
        NexmarkSettings.parse(options)


@pytest.mark.parametrize("table", EVENT_TABLES)
def test_the_whole_stream_is_the_table_of_the_sequence(table: str) -> None:
    found = stream(table, events="1234", seed="9", rate="300")
    assert found.duration_us is not None
    assert read(found, 0, found.duration_us) == found.sequence.table(table, 0, 1234)
    assert found.expected_rows(0, found.duration_us) == found.sequence.table(table, 0, 1234).num_rows


@settings(max_examples=40)
@given(
    st.sampled_from(sorted(EVENT_TABLES)),
    st.sampled_from(["300", "1000000", "0.7", "7"]),
    st.integers(1, 40),
    st.integers(1, 5),
)
def test_no_row_is_lost_or_repeated_however_a_stream_is_divided(
    table: str, rate: str, max_rows: int, parts: int
) -> None:
    found = stream(table, events="200", rate=rate)
    at_us, seen = 0, []
    assert found.duration_us is not None
    while at_us < found.duration_us:
        end_us = found.advance(at_us, found.duration_us, max_rows)
        assert end_us > at_us
        cuts = found.cuts(at_us, end_us, parts)
        assert (cuts[0], cuts[-1]) == (at_us, end_us)
        pieces = [read(found, begin, end) for begin, end in pairwise(cuts)]
        rows = sum(piece.num_rows for piece in pieces)
        # as many as are allowed, but for the last ones
        assert rows == max_rows or end_us == found.duration_us
        seen += pieces
        at_us = end_us
    assert pa.concat_tables(seen).combine_chunks() == found.sequence.table(table, 0, 200).combine_chunks()


def declared(**types: str) -> list[DeclaredColumn]:
    return [DeclaredColumn(name, type_, True) for name, type_ in types.items()]


def test_declared_columns_are_taken_by_name_in_any_order_and_case() -> None:
    found = stream(events="500")
    columns = found.columns(declared(datetime="TIMESTAMP", PRICE="BIGINT"))
    [batch] = found.batches(0, 50_000, 0, columns)
    whole = found.sequence.table("bid", 0, 500)
    assert batch.schema.names == ["datetime", "PRICE"]
    assert batch["PRICE"] == whole["price"].combine_chunks()


def test_columns_that_are_not_declared_are_those_of_the_table() -> None:
    for table, kind in EVENT_TABLES.items():
        found = stream(table)
        types = {column.name: SQL_NAMES[column.type] for column in kind.schema}
        assert found.columns(declared(**types)) == found.schema == kind.schema


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (
            {"prise": "BIGINT"},
            "table bid of nexmark has no column prise; did you mean price. it has auction, b",
        ),
        ({"price": "INT"}, "column price cannot be INT; declare it BIGINT"),
        ({"dateTime": "STRING"}, "column dateTime cannot be STRING; declare it TIMESTAMP"),
        ({"url": "ARRAY<STRING>"}, "column url cannot be ARRAY<STRING>; declare it STRING"),
    ],
)
def test_columns_that_the_table_does_not_have_are_refused(column: dict[str, Any], message: str) -> None:
    with pytest.raises(SetupError, match=message):
        stream().columns(declared(**column))

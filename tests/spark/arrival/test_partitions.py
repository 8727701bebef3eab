"""Partitions of a stream: the slowest one that is not idle holds the watermark."""

from __future__ import annotations

from dataclasses import replace

from headgate.model.network import StreamDefinition
from headgate.spark.arrival.partitions import after_tick, are_idle, gap_letters, slowest_ts
from headgate.spark.arrival.split_statistics import SplitStatistics
from headgate.spark.manifest import Manifest, PartitionState, StreamState
from headgate.spark.records import partitions_of
from headgate.spark.sql import BEGINNING_US

SECOND = 1_000_000
STREAM = StreamDefinition("s", "kafka", None, timestamp="ts", idle_after_us=10 * SECOND)


def arrived(**highest: int) -> list[SplitStatistics]:
    return [SplitStatistics(1, ts, ts, file=name) for name, ts in highest.items()]


def tick(state: StreamState, now_s: float, **highest: int) -> StreamState:
    now_us = int((1000 + now_s) * SECOND)
    return replace(
        state, partitions=after_tick(STREAM, state, ("a", "b"), arrived(**highest), now_us), seen_us=now_us
    )


def test_a_partition_that_has_brought_nothing_yet_holds_the_watermark_until_it_is_idle() -> None:
    state = tick(StreamState(), 0, a=100)
    assert slowest_ts(STREAM, state.partitions) == BEGINNING_US
    for now_s in range(1, 10):
        state = tick(state, now_s, a=100 + now_s)
        assert slowest_ts(STREAM, state.partitions) == BEGINNING_US
    state = tick(state, 10, a=200)
    assert slowest_ts(STREAM, state.partitions) == 200
    assert not are_idle(STREAM, state.partitions)
    assert slowest_ts(STREAM, tick(state, 11, b=150).partitions) == 150


def test_all_partitions_are_idle_when_none_brings_anything() -> None:
    state = tick(StreamState(), 0, a=100, b=50)
    for now_s in range(1, 11):
        assert not are_idle(STREAM, state.partitions)
        state = tick(state, now_s)
    assert are_idle(STREAM, state.partitions)


def test_a_time_without_ticks_is_no_silence() -> None:
    state = tick(tick(StreamState(), 0, a=100, b=50), 1, a=101)
    state = tick(state, 200, a=102)
    assert slowest_ts(STREAM, state.partitions) == 50


def test_a_row_without_a_valid_timestamp_moves_no_partition() -> None:
    bad = [SplitStatistics(2, 7, 7, bad=2, file="a")]
    assert after_tick(STREAM, StreamState(), ("a",), bad, 0) == {"a": PartitionState()}


def test_partitions_of_all_topics_are_read_from_the_log_of_offsets() -> None:
    assert partitions_of('{"t":{"1":5,"0":7},"u":{"0":1}}') == {"t-1": 5, "t-0": 7, "u-0": 1}
    assert partitions_of(None) == {}


def test_a_partition_that_goes_back_is_reported_as_a_dead_letter() -> None:
    [letter] = gap_letters("s", 3, {"t-0": 500, "t-1": 5}, {"t-0": 20, "t-1": 6, "t-2": 0})
    assert "partition t-0 went back from offset 500 to 20" in letter
    assert "20 of its records were skipped" in letter


def test_partitions_are_part_of_the_manifest() -> None:
    state = StreamState(partitions={"t-0": PartitionState(5, 6)}, seen_us=7)
    manifest = Manifest(3, streams={"s": state})
    assert Manifest.from_json(manifest.to_json()) == manifest

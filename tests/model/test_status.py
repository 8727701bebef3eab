"""The status of a run: warnings about late rows, and durations that CQL reads again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.planning.support import catalog_of

from headgate.cql.measure import parse_duration_us
from headgate.model.event import StreamCounts, TickCommitted
from headgate.model.status import Recorder, late_warning, rounded_up
from headgate.planning.lower import Stages


def tick(rows_in: int, late: int, lateness_us: int = 0) -> TickCommitted:
    return TickCommitted(
        now_s=0.0,
        batch_id=0,
        seconds=0.5,
        streams={"packets": StreamCounts(rows_in, late), "flows": StreamCounts(rows_in)},
        queries={},
        backlog_tuples=0,
        backlog_bytes=0,
        window_bytes=0,
        lateness_us={"packets": lateness_us} if lateness_us else {},
    )


@pytest.fixture
def recorder() -> Recorder:
    text = "CREATE QUERY q AS SELECT p.src FROM packets [NOW] p, flows [NOW] f WHERE p.src = f.src"
    return Recorder(Stages.of(catalog_of(text)).lowered)


def test_one_late_row_in_a_hundred_is_no_warning_and_two_are() -> None:
    assert late_warning("s", StreamCounts(100, 1), 5) is None
    assert late_warning("s", StreamCounts(0), 0) is None
    assert late_warning("s", StreamCounts(100, 2), 3_200_000) == (
        "stream s: 2 of 100 rows (2 %) were late and set aside: they came up to 3.2 s behind, as rows of "
        "several writers or files out of order do; watermark '3.2 s' would have kept them"
    )


def test_rows_that_come_after_a_silence_need_no_other_watermark() -> None:
    found = late_warning("s", StreamCounts(10, 2), 0)
    assert found is not None and "a longer idle_after would have kept them" in found


def test_a_stream_is_warned_of_once_and_its_status_has_the_final_numbers(recorder: Recorder) -> None:
    recorder.warn("something else")
    recorder(tick(100, 1, 2_000_000))
    assert recorder.warnings == ("something else",)
    recorder(tick(100, 4, 9_000_000))
    [_, first] = recorder.warnings
    assert first.startswith("stream packets: 5 of 200 rows (2.5 %)") and "watermark '9 s'" in first
    recorder(tick(100, 25, 3_000_000))
    assert recorder.warnings == ("something else", first)
    status = recorder.status()
    [final] = status.late_warnings
    assert final.startswith("stream packets: 30 of 300 rows (10 %)") and "watermark '9 s'" in final
    document = status.to_json()
    assert document["warnings"] == ["something else", final]
    assert document["streams"]["packets"]["max_lateness_s"] == 9.0  # type: ignore[index]
    assert document["streams"]["flows"]["max_lateness_s"] == 0.0  # type: ignore[index]


def test_a_few_late_rows_among_many_are_forgiven_in_the_end(recorder: Recorder) -> None:
    recorder(tick(10, 1, 1_000))
    recorder(tick(1000, 0))
    assert len(recorder.warnings) == 1
    assert recorder.status().late_warnings == ()


@given(st.integers(1, 10**15))
def test_a_rounded_duration_is_at_least_as_long_and_not_much_longer(duration_us: int) -> None:
    rounded_us = parse_duration_us(rounded_up(duration_us))
    assert duration_us <= rounded_us <= duration_us * 1.1
    assert len(rounded_up(duration_us)) <= 8


@pytest.mark.parametrize(
    ("duration_us", "text"),
    [
        (1, "1 us"),
        (999, "1000 us"),
        (1_500, "1.5 ms"),
        (2_000_000, "2 s"),
        (3_000_001, "3.1 s"),
        (75_000_000, "75 s"),
        (431_000_000, "440 s"),
        (600_000_000, "10 min"),
        (3_600_000_000, "60 min"),
        (36_000_000_000, "10 h"),
        (86_400_000_000, "24 h"),
        (20 * 86_400_000_000, "20 d"),
    ],
)
def test_durations_have_two_digits_and_the_unit_that_fits(duration_us: int, text: str) -> None:
    assert rounded_up(duration_us) == text

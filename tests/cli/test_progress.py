from __future__ import annotations

import io
import signal
from dataclasses import replace

import pytest
from rich.console import Console

from headgate.cli.progress import Progress
from headgate.cli.signals import Interrupted, interruptible
from headgate.model.event import QueryCounts, StreamCounts, TickCommitted, TickStarted, TuplesArrived


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def tick(now_s: float, rows_in: int = 0, rows_out: int = 0, latency_s: float = 0.0) -> TickCommitted:
    latencies = ((latency_s, float(rows_out)),) if rows_out else ()
    return TickCommitted(
        now_s=now_s,
        batch_id=0,
        seconds=0.5,
        streams={"s": StreamCounts(rows_in)},
        queries={"q": QueryCounts(rows_out, latencies)},
        backlog_tuples=1234,
        backlog_bytes=0,
        window_bytes=0,
    )


def shown_by(progress: Progress) -> str:
    file = progress._console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def a_progress(clock: Clock, terminal: bool = False) -> Progress:
    return Progress("starting", Console(file=io.StringIO(), force_terminal=terminal, width=120), clock)


def test_rates_are_means_over_the_last_seconds() -> None:
    clock = Clock()
    progress = a_progress(clock)
    progress(tick(1001, rows_in=99_999))
    clock.now_s = 1010
    progress(tick(1006, rows_in=20_000, rows_out=500, latency_s=0.5))
    progress(tick(1010, rows_in=30_000, rows_out=500, latency_s=1.5))
    # rows of a tick have arrived since the one before it began: 50,000 in 9 s, and 1,000 results since 1001
    assert progress.line() == "00:10  in 5,556/s  out 111/s  backlog 1,234 tuples  latency 1.50 s  tick 3"


def test_a_long_tick_is_shown_with_its_rows_which_wait_until_its_end() -> None:
    clock = Clock()
    progress = a_progress(clock)
    progress(tick(1001, rows_in=12))
    progress(TickStarted(1005.5, 1))
    clock.now_s = 1007
    assert progress.line().endswith("backlog 1,234 tuples  latency -  tick 2: taking rows in, 1.5 s so far")
    progress(TuplesArrived(1005.5, {"s": 500_000, "t": 7_579}))
    clock.now_s = 1047.5
    shown = "in 101,516/s  out 0/s  backlog 508,813 tuples  latency -  tick 2: 507,579 rows, 42.0 s so far"
    assert progress.line() == f"00:47  {shown}"


def test_what_is_shed_and_what_waits_in_sources_is_shown() -> None:
    clock = Clock()
    progress = a_progress(clock)
    progress(tick(1001, rows_in=12))
    clock.now_s = 1002
    shed = replace(tick(1002), streams={"s": StreamCounts(500, shed=400)}, waiting=frozenset({"s"}))
    progress(shed)
    assert progress.line().startswith("00:02  in 341/s  shed 267/s  out")
    assert progress.line().endswith("tick 2  more waits in s")
    progress(TickStarted(1003.0, 2))
    progress(TuplesArrived(1003.0, {"s": 100}, shed=500))
    clock.now_s = 1003
    assert progress.line().startswith("00:03  in 371/s  shed 300/s  out")
    assert progress.line().endswith("tick 3: 100 rows, 0.0 s so far  more waits in s")


def test_another_part_of_the_work_begins_anew_under_its_own_heading() -> None:
    clock = Clock()
    progress = a_progress(clock)
    progress(tick(1001, rows_in=12))
    progress.enter("the flood under fifo")
    assert progress.line() == "00:00  the flood under fifo"
    progress(TickStarted(1000.0, 0))
    assert progress.line() == "00:00  the flood under fifo  tick 1: taking rows in, 0.0 s so far"


def test_latency_stays_when_a_tick_has_no_results() -> None:
    progress = a_progress(Clock())
    progress(tick(1000, rows_out=5, latency_s=0.25))
    progress(tick(1001))
    assert "latency 0.25 s" in progress.line()


def test_before_the_first_tick_it_says_so() -> None:
    assert a_progress(Clock()).line() == "00:00  starting"


def test_without_a_terminal_lines_are_plain_and_at_least_five_seconds_apart() -> None:
    clock = Clock()
    progress = a_progress(clock)
    with progress:
        for _ in range(120):
            clock.now_s += 0.1
            progress.show()
    lines = shown_by(progress).splitlines()
    assert lines == ["starting", "00:05  starting", "00:10  starting"]


def test_on_a_terminal_the_line_changes_in_place_and_goes_at_the_end() -> None:
    progress = a_progress(Clock(), terminal=True)
    with progress:
        progress(tick(1000, rows_in=5))
        progress.show()
    assert "backlog 1,234 tuples" in shown_by(progress)
    assert shown_by(progress).endswith("\x1b[2K")


def test_one_interrupt_is_a_wish_and_the_second_ends_at_once() -> None:
    before = signal.getsignal(signal.SIGINT)
    with interruptible() as interrupt:
        assert not interrupt.wanted
        signal.raise_signal(signal.SIGINT)
        assert interrupt.wanted and interrupt.is_new() and not interrupt.is_new()
        with pytest.raises(Interrupted) as ended:
            signal.raise_signal(signal.SIGTERM)
        assert ended.value.exit_code == 143
    assert signal.getsignal(signal.SIGINT) is before

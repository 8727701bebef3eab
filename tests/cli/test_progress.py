from __future__ import annotations

import io
import signal

import pytest
from rich.console import Console

from headgate.cli.execution import interruptible
from headgate.cli.progress import Progress
from headgate.model.event import QueryCounts, StreamCounts, TickCommitted


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
    assert progress.line() == "00:10  in 10,000/s  out 200/s  backlog 1,234 tuples  latency 1.50 s  tick 3"


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
        assert interrupt.wanted
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before

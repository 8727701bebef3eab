from __future__ import annotations

import io
import math
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console, RenderableType
from tests.cli.support import headings_without_unit

from headgate.model.event import StreamCounts
from headgate.model.profile import Profile
from headgate.model.status import Latency, QueryStatus, RunStatus, TickRecord
from headgate.report.plots import plot_backlogs, plot_runs, thinned
from headgate.report.screen import profile_table, queries_table, rows_table, shown, size_column, streams_table
from headgate.statistics.profile_file import Measured


def a_status(ticks: int = 3) -> RunStatus:
    history = [
        TickRecord(
            at_s=float(at + 1),
            seconds=0.5,
            rows_in=1000 * at,
            rows_out=at,
            backlog_tuples=100 * at,
            backlog_bytes=0,
            window_bytes=0,
            latency_s={"quick": 0.1 * at} if at else {},
            phases_s={},
            busy_s=0.0,
        )
        for at in range(ticks)
    ]
    return RunStatus(
        queries={
            "quick": QueryStatus(1234567, Latency(0.5, 0.25, 1.5, 12.0)),
            "silent": QueryStatus(0, Latency(None, None, None, None)),
        },
        streams={"packets": StreamCounts(10_000, 3, 2, 1)},
        peak_backlog_tuples=200,
        peak_backlog_bytes=0,
        backlog_tuples=0,
        ticks=ticks,
        seconds=3.0,
        history=history,
    )


def text_of(shown: RenderableType) -> str:
    file = io.StringIO()
    Console(file=file, width=200).print(shown)
    return file.getvalue()


def printed(shown: RenderableType) -> list[list[str]]:
    return [line.split() for line in text_of(shown).splitlines() if line.strip()]


def test_queries_show_rows_and_latency_or_a_dash() -> None:
    lines = printed(queries_table(a_status()))
    assert ["quick", "1,234,567", "0.500", "0.250", "1.500", "12.000"] in lines
    assert ["silent", "0", "-", "-", "-", "-"] in lines


def test_streams_show_what_came_in_and_what_was_lost() -> None:
    status = a_status()
    assert ["packets", "10,000", "3", "2", "1"] in printed(streams_table(status))
    counts = replace(status.streams["packets"], files_set_aside=4)
    shown = printed(streams_table(replace(status, streams={"packets": counts})))
    assert ["packets", "10,000", "3", "2", "1", "4"] in shown


def test_every_column_of_a_run_and_of_a_profile_has_a_unit() -> None:
    status = a_status()
    counts = replace(status.streams["packets"], files_set_aside=4)
    shed = replace(status.queries["quick"], shed=3)
    status = replace(status, streams={"packets": counts}, queries={"quick": shed})
    assert headings_without_unit(text_of(queries_table(status))) == {"query"}
    assert headings_without_unit(text_of(streams_table(status))) == {"stream"}
    predicates = {"q.select": {"a > 1": Profile(1e-6, 0.5)}}
    measured = Measured({"q.select": Profile(1e-6, 0.5)}, {"s": 7.0}, predicates=predicates)
    found = headings_without_unit(text_of(profile_table(measured)))
    assert found == {"operator", "predicate", "stream"}


def test_a_profile_shows_a_dash_for_what_was_not_measured() -> None:
    measured = Measured(
        {"q.select": Profile(1.23e-4, 0.5, 40.0, 9, 4.567e-4, 0.012)},
        {"s": 20_000.0},
        not_measured={"q.project": "no tuple reached it", "ticks": "only 3 of 6 did any work"},
        machine_bound={"s": 9000.0, "files": 40_000.0},
    )
    lines = printed(profile_table(measured))
    assert ["q.select", "123", "±", "457", "0.5", "±", "0.012", "40", "9"] in lines
    assert ["q.project", "-", "-", "-", "-"] in lines
    assert ["s", "20,000.0"] in lines and ["files", "-"] in lines


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.0, "0"), (0.12345, "0.123"), (123.4, "123"), (999.7, "1,000"), (71_750.0, "71,750")],
)
def test_numbers_are_shown_without_exponents_until_they_are_tiny(value: float | None, text: str) -> None:
    assert shown(value, 3) == text


def test_sizes_of_a_column_have_one_unit() -> None:
    assert size_column("queue", [1.5e6, 2e3, None, math.inf]) == (
        "queue (MB)",
        ["1.5", "0.002", "-", "unbounded"],
    )
    assert size_column("queue", [12.0]) == ("queue (bytes)", ["12"])
    assert size_column("queue", [None]) == ("queue (bytes)", ["-"])


def test_only_the_first_rows_are_shown_and_the_title_says_so() -> None:
    rows = pa.table({"n": list(range(30))})
    lines = printed(rows_table("q", rows, 20))
    assert lines[0] == ["q,", "the", "first", "20", "rows"]
    assert lines[-1] == ["19"]
    assert printed(rows_table("q", rows.slice(0, 20), 20))[0] == ["q"]


def test_values_are_shown_as_they_are() -> None:
    moment = datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=timezone.utc)
    rows = pa.table({"ts": [moment], "text": ["[bold]x"], "share": [1 / 3], "nothing": pa.nulls(1)})
    assert printed(rows_table("q", rows, 20))[-1] == [
        "2024-01-02",
        "03:04:05.678",
        "[bold]x",
        "0.333333",
        "null",
    ]


def test_a_plot_is_saved_as_png_in_a_folder_made_for_it(tmp_path: Path) -> None:
    path = plot_runs(tmp_path / "new" / "run.png", "a run", {"fifo": a_status()}, (1.0, 2.0))
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_run_without_a_tick_can_be_plotted(tmp_path: Path) -> None:
    assert plot_runs(tmp_path / "run.png", "nothing", {"fifo": a_status(ticks=0)}).exists()


def a_result(name: str, steps: int) -> Any:
    times_s = np.linspace(0.0, 10.0, steps)
    return SimpleNamespace(strategy=name, backlog=SimpleNamespace(times_s=times_s, sizes=times_s % 3))


@pytest.mark.parametrize(("strategies", "size"), [(2, (900, 500)), (5, (1050, 500))])
def test_few_backlogs_share_a_panel_and_many_have_their_own(
    tmp_path: Path, strategies: int, size: tuple[int, int]
) -> None:
    results = [a_result(f"strategy {number}", 100 * number + 1) for number in range(strategies)]
    path = plot_backlogs(results, tmp_path / "b.png", "Backlog")
    header = path.read_bytes()[:24]
    assert (int.from_bytes(header[16:20], "big"), int.from_bytes(header[20:24], "big")) == size


def test_a_long_line_is_thinned_to_what_can_be_seen() -> None:
    times_s = np.sort(np.random.default_rng(1).uniform(0, 9, 200_000))
    sizes = np.zeros(len(times_s))
    sizes[[7, 100_000, -1]] = 5, 9, 3
    x, y = thinned(times_s, sizes)
    assert len(x) == len(y) <= 6000 and np.all(np.diff(x) >= 0)
    # no peak is lost
    assert sorted(y)[-3:] == [3, 5, 9] and y[-1] == 3
    assert x[y == 9] == pytest.approx(times_s[100_000], abs=0.01)
    short = np.arange(5.0)
    assert thinned(short, short)[0] is short

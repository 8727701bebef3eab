"""Long sliding windows are covered by panes, and give what all their tuples together give."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession
from tests.lengths import short_or_long
from tests.oracle.files import stamp

from headgate import Session

pytestmark = pytest.mark.spark

TIMEOUT_S = 600
FILES = short_or_long(7, 12)
WINDOWS = {"by_second": (100, 1), "by_three": (99, 3), "odd": (250, 7)}

Row = tuple[float, str, int]


def rows_of(rng: Random) -> list[Row]:
    """Tuples on the edges of panes and between them, with silences longer than a run of panes."""
    rows, now = [], 1000.0
    for _ in range(300):
        now += rng.choice((0, 0.25, 0.5, 1, 1, 2, 3)) if rng.random() < 0.97 else rng.choice((40, 90, 300))
        rows.append((now, rng.choice("abc"), rng.randint(-50, 50)))
    return rows


def write_files(folder: Path, rows: list[Row], rng: Random) -> None:
    folder.mkdir()
    cuts = sorted(rng.sample(range(1, len(rows)), FILES - 1))
    for number, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(rows)], strict=True)):
        lines = [f"{ts},{k},{v}" for ts, k, v in rows[start:end]]
        path = folder / f"{number:03d}.csv"
        path.write_text("\n".join(lines) + "\n")
        stamp(path)


def expected(rows: list[Row], range_s: int, slide_s: int) -> Counter[tuple[object, ...]]:
    """Every group at every boundary, from all tuples that are no older than the range."""
    found: Counter[tuple[object, ...]] = Counter()
    first = int(-(-rows[0][0] // slide_s)) * slide_s
    for boundary in range(first, int(rows[-1][0]) + range_s + slide_s, slide_s):
        groups = defaultdict(list)
        for ts, k, v in rows:
            if boundary - range_s <= ts <= boundary:
                groups[k].append(v)
        for k, values in groups.items():
            mean = sum(values) / len(values)
            found[boundary, k, len(values), sum(values), mean, min(values), max(values)] += 1
    return found


def test_long_windows_hold_every_tuple_once_whatever_the_ticks(spark: SparkSession, tmp_path: Path) -> None:
    rng = Random(17)
    rows = rows_of(rng)
    write_files(tmp_path / "s", rows, rng)
    session = Session(spark)
    session.execute(
        f"CREATE STREAM s (ts DOUBLE, k STRING, v INT) FROM csv OPTIONS (path '{tmp_path / 's'}', "
        "timestamp 'ts', maxFilesPerTrigger 1, idle_after '1 h')"
    )
    for name, (range_s, slide_s) in WINDOWS.items():
        session.execute(
            f"CREATE QUERY {name} AS SELECT k, COUNT(*) AS n, SUM(v) AS total, AVG(v) AS mean, "
            f"MIN(v) AS least, MAX(v) AS most "
            f"FROM s [RANGE {range_s} SECONDS SLIDE {slide_s} SECONDS] GROUP BY k"
        )
    run = session.start(until_done=True, checkpoint=tmp_path / "checkpoint")
    assert run.wait(TIMEOUT_S)
    assert run.status().ticks >= FILES and run.status().streams["s"].late == 0
    for name, (range_s, slide_s) in WINDOWS.items():
        results = Counter(tuple(row) for row in run.results(name).collect())
        wanted = expected(rows, range_s, slide_s)
        missing, extra = wanted - results, results - wanted
        assert not missing and not extra, f"{name}: missing {[*missing][:3]}, too many {[*extra][:3]}"

"""Shedding by productivity: tuples whose keys are frequent in the other window are kept before others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.planning.support import catalog_of

from headgate import Session
from headgate.model.joins import WindowJoin
from headgate.model.productivity import KEY_BUCKETS, KeyMatch, equal_keys
from headgate.planning.lower import Stages
from headgate.spark.expected_matches import count_keys, key_samples, productivity
from headgate.spark.samples import WindowContent

pytestmark = pytest.mark.spark

FILES, ROWS = 12, {"a": 1500, "b": 60}
KEEP, FROM_FILE = 0.3, 6
STREAMS = "".join(
    f"CREATE STREAM {name} (ts TIMESTAMP, k INT, id BIGINT) FROM kafka OPTIONS (timestamp 'ts');"
    for name in "ab"
)
JOIN = "SELECT a.id AS one, b.id AS other FROM a [RANGE 2 SECONDS], b [RANGE 2 SECONDS] WHERE a.k = b.k"


def written(folder: Path) -> dict[str, np.ndarray]:
    """Columns ts, k, id of both streams; b has few of the keys of a."""
    rng, found = np.random.default_rng(11), {}
    for name, keys in (("a", 1000), ("b", 15)):
        (folder / name).mkdir()
        count = FILES * ROWS[name]
        ts = 1000 + np.sort(rng.uniform(0, FILES, count))
        columns = np.column_stack([ts, rng.integers(0, keys, count), np.arange(count)])
        for number in range(FILES):
            part = columns[(ts >= 1000 + number) & (ts < 1001 + number)]
            table = {"ts": part[:, 0], "k": part[:, 1].astype(np.int32), "id": part[:, 2].astype(np.int64)}
            pq.write_table(pa.table(table), folder / name / f"{number:02}.parquet")
        found[name] = columns
    return found


def matches(a: np.ndarray, b: np.ndarray) -> set[tuple[int, int]]:
    near = np.abs(a[:, None, 0] - b[None, :, 0]) <= 2
    pairs = np.argwhere(near & (a[:, None, 1] == b[None, :, 1]))
    return {(int(a[i, 2]), int(b[j, 2])) for i, j in pairs}


@pytest.mark.parametrize("utility", ["", ", utility = 'productivity()'"], ids=["by hash", "by productivity"])
def test_productivity_keeps_the_tuples_that_find_matches(
    spark: SparkSession, tmp_path: Path, utility: str
) -> None:
    columns = written(tmp_path)
    session = Session(spark)
    for name in "ab":
        session.execute(f"""
          CREATE STREAM {name} (ts DOUBLE, k INT, id BIGINT) FROM parquet
            OPTIONS (path '{tmp_path}/{name}', timestamp 'ts', maxFilesPerTrigger '1');
        """)
    session.execute(f"CREATE QUERY q WITH (overload = 'shed'{utility}) AS {JOIN};")
    run = session.start(until_done=True, keep={"a": KEEP}, seed=5)
    assert run.wait(180)
    table = run.arrow("q").to_pydict()
    found = list(zip(table["one"], table["other"], strict=True))
    wanted = matches(columns["a"], columns["b"])
    assert len(set(found)) == len(found) and set(found) <= wanted
    # once keys have been counted
    late = {int(row[2]) for row in columns["a"] if row[0] >= 1000 + FROM_FILE}
    share = len([pair for pair in found if pair[0] in late]) / len([p for p in wanted if p[0] in late])
    assert share > 0.9 if utility else 0.2 < share < 0.4
    counts = run.status().streams["a"]
    assert counts.rows_in == FILES * ROWS["a"]
    assert 0.6 < counts.shed / counts.rows_in < 0.8


def test_tuples_are_ranked_by_the_keys_that_their_windows_hold(spark: SparkSession) -> None:
    network = Stages.of(catalog_of(f"CREATE QUERY q AS {JOIN};", STREAMS)).lowered
    join = network.operators["q.join"]
    assert isinstance(join, WindowJoin)
    keys = [7] * 30 + [8] * 10 + [None] * 5
    rows = [(key, number) for number, key in enumerate(keys)]
    other = spark.createDataFrame(rows, "b__k BIGINT, b__id BIGINT")
    samples = key_samples(join, [None, WindowContent(other, len(rows))])
    counts = count_keys(samples)
    [(table, by_bucket)] = counts.items()
    assert sum(by_bucket) == 40 and sorted(by_bucket)[-2:] == [10, 30]
    tables = {table: tuple(KEY_BUCKETS * count / 40 for count in by_bucket)}
    [(own, met)] = [pair for pair in equal_keys(join) if pair[1].table == table]
    assert (own.side, met.side) == (0, 1)
    text = productivity([(KeyMatch("k", table),)], tables)
    arriving = spark.createDataFrame([(7,), (8,), (9,), (None,)], "k INT")
    ranks = [rank for (rank,) in arriving.selectExpr(str(text)).collect()]
    assert ranks == [0.75 * KEY_BUCKETS, 0.25 * KEY_BUCKETS, 0.0, 0.0]
    assert productivity([(KeyMatch("k", table),)], {}) is None

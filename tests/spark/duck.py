"""Streams in Parquet files, and DuckDB's answers over all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from tests.lengths import short_or_long
from tests.oracle.files import stamp

from headgate.session.handle import Run

FILES, TUPLES = short_or_long((3, 150), (5, 250))
_OPTIONS = "timestamp 'seen', idle_after '1 h', maxFilesPerTrigger '1'"


def write_stream(folder: Path, rng: Random, steps_us: Sequence[int]) -> None:
    """Tuples every quarter of a second or so, many of them exactly on the bounds of windows."""
    folder.mkdir()
    ts = 1_700_000_000_000_000
    for number in range(FILES):
        times, keys, values = [], [], []
        for _ in range(TUPLES // FILES):
            times.append(ts)
            keys.append(rng.randint(1, 3))
            values.append(rng.randint(0, 12))
            ts += rng.choice(steps_us)
        columns = {"seen": pa.array(times, pa.timestamp("us", "UTC")), "k": keys, "v": values}
        path = folder / f"{number}.parquet"
        pq.write_table(pa.table(columns), path)
        stamp(path)


def create_streams(folder: Path, names: Sequence[str]) -> list[str]:
    """Statements that declare the streams, one file of each to a tick."""
    return [
        f"CREATE STREAM {name} FROM parquet OPTIONS (path '{folder}/{name}', {_OPTIONS});" for name in names
    ]


def assert_agreement(run: Run, folder: Path, streams: Sequence[str], answers: Mapping[str, str]) -> None:
    """Assert that queries have the results that DuckDB has, whose statements are by name of the query."""
    duck = duckdb.connect()
    duck.execute("SET TimeZone = 'UTC'")
    for name in streams:
        duck.execute(f"CREATE VIEW {name} AS FROM '{folder}/{name}/*.parquet'")
    for name, query in answers.items():
        found = run.results(name).drop("ts").toArrow()
        wanted = duck.sql(query).to_arrow_table().rename_columns(found.column_names)
        assert sorted_rows(found) == sorted_rows(wanted), name


def sorted_rows(table: pa.Table) -> list[tuple[object, ...]]:
    columns = (column.to_pylist() for column in table.columns)
    rounded = ([round(one, 9) if isinstance(one, float) else one for one in column] for column in columns)
    return sorted(zip(*rounded, strict=True), key=str)

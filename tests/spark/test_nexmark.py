"""The NEXMark queries of the examples, against DuckDB over the same files."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.lengths import short_or_long

from headgate import Session
from headgate.experiments.nexmark_answers import ANSWERS
from headgate.workload.nexmark import DEFAULT_START_US, EventSequence
from headgate.workload.nexmark_files import DataSet

pytestmark = pytest.mark.spark

EXAMPLES = Path(__file__).parents[2] / "examples" / "nexmark"


def test_queries_give_what_duckdb_gives(compiled: SparkSession, tmp_path: Path, run_seed: int) -> None:
    rng = Random(run_seed)
    data = tmp_path / "nexmark"
    # slow enough for several windows, and for the hours of a day
    sequence = EventSequence(rng.randrange(1000), rng.choice((Fraction(20), Fraction(100))), DEFAULT_START_US)
    DataSet(data, sequence, events=2_000, files=short_or_long(2, 3)).write()
    session = Session(compiled)
    for number in ANSWERS:
        path = EXAMPLES / f"q{number}.sql"
        text = path.read_text().replace("'nexmark/", f"'{data}/").replace("'out/", f"'{tmp_path}/out/")
        # several ticks, and each stream once
        text = text.replace("timestamp 'dateTime'", "timestamp 'dateTime', maxFilesPerTrigger '1'")
        text = text.replace("CREATE STREAM", "CREATE STREAM IF NOT EXISTS")
        session.execute(text.replace("CREATE RELATION", "CREATE RELATION IF NOT EXISTS"), origin=str(path))
    run = session.start(until_done=True, strategy=rng.choice(("fifo", "chain", "path-capacity")))
    assert run.wait(400)
    duck = duckdb.connect()
    duck.execute("SET TimeZone = 'UTC'")
    for name in ("person", "auction", "bid", "side_input"):
        duck.execute(f"CREATE VIEW {name} AS FROM '{data}/{name}/*.parquet'")
    for number, query in ANSWERS.items():
        found = compiled.read.parquet(f"{tmp_path}/out/q{number}").toArrow()
        wanted = duck.sql(query).to_arrow_table()
        if number == 10:
            # the column of folders comes last, and as a date
            found = found.select([*found.column_names[:5], "day", "minute"])
        assert sorted_rows(found) == sorted_rows(wanted), f"q{number}"


def sorted_rows(table: pa.Table) -> list[tuple[str, ...]]:
    columns = (column.to_pylist() for column in table.columns)
    return sorted(zip(*([str(one) for one in column] for column in columns), strict=True))

"""Runs of a world of streams and queries on Spark, and their results in the oracle's form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType
from tests.oracle.brute_force import SECOND, Query, Results, evaluate
from tests.oracle.cuts import RandomCuts
from tests.oracle.files import stream_sql, write_relation, write_stream
from tests.oracle.random_queries import World

from headgate import Session
from headgate.session.handle import Run

# far beyond what a run may take, so that no stream counts as silent for want of processor time
PATIENT = "1 h"
LATEST = "INTO memory OPTIONS (mode 'latest')"


@dataclass(frozen=True)
class Course:
    """How a world is read and run; of no consequence for its results."""

    file_format: str
    cuts: Sequence[Sequence[int]]
    files_a_tick: int | None
    cut_seed: int | None
    """None: no block is ever cut."""
    strategy: str


def random_course(rng: Random, world: World) -> Course:
    """Files, ticks, budget and strategy."""
    cuts = []
    for stream in world.streams:
        places = range(1, len(stream.arrivals))
        cuts.append(sorted(rng.sample(places, rng.randint(1, 3))))
    return Course(
        file_format=rng.choice(("csv", "json", "parquet")),
        cuts=cuts,
        files_a_tick=rng.choice((1, 2, None, None, None)),
        cut_seed=rng.choice((None, rng.getrandbits(32), rng.getrandbits(32))),
        strategy=rng.choice(("fifo", "round-robin")),
    )


def declarations(folder: Path, world: World, course: Course) -> str:
    """Write the files of a world; the CQL that declares them."""
    texts = []
    options: dict[str, Any] = {"idle_after": PATIENT}
    if course.files_a_tick is not None:
        options["maxFilesPerTrigger"] = course.files_a_tick
    for stream, cuts in zip(world.streams, course.cuts, strict=True):
        path = folder / stream.name
        write_stream(path, stream, cuts, course.file_format, world.timestamp_type)
        texts.append(stream_sql(stream, path, course.file_format, world.timestamp_type, **options))
    relation = folder / "labels.parquet"
    write_relation(relation, world.relation)
    texts.append(f"CREATE RELATION labels FROM parquet OPTIONS (path '{relation}');")
    texts += [f"CREATE STREAM {stream.name} AS {stream.sql};" for stream in world.derived]
    return "\n".join(texts)


def query_sql(query: Query, sink: str = "") -> str:
    """CREATE QUERY."""
    return f"CREATE QUERY {query.name} AS {query.sql} {sink};"


def start(spark: SparkSession, folder: Path, world: World, course: Course) -> Run:
    """Begin a run of all queries to their end."""
    session = Session(spark)
    session.execute(declarations(folder, world, course))
    texts = (query_sql(query, LATEST if query.is_table else "") for query in world.queries)
    session.execute("\n".join(texts))
    strategy = course.strategy if course.cut_seed is None else RandomCuts(course.cut_seed, wild_ticks=1)
    return session.start(until_done=True, strategy=strategy, checkpoint=folder / "checkpoint")


def found_rows(results: DataFrame) -> Results:
    """Results with their times in microseconds."""
    columns = []
    for place, field in enumerate(results.schema.fields):
        value = F.col(field.name)
        if isinstance(field.dataType, TimestampType):
            value = F.unix_micros(value)
        elif place == 0:
            value = value * SECOND
        columns.append(value.alias(field.name))
    return Counter(tuple(row) for row in results.select(*columns).collect())


def difference(query: Query, found: Results) -> str:
    """What is wrong with the results of a query; nothing if all is well."""
    expected = evaluate(query)
    if found == expected:
        return ""
    missing, extra = expected - found, found - expected
    return (
        f"{query.name}: {query.sql}\n"
        f"  {missing.total()} missing of {expected.total()}: {_shown(missing)}\n"
        f"  {extra.total()} too many of {found.total()}: {_shown(extra)}"
    )


def _shown(rows: Results) -> str:
    return ", ".join(f"{count} x {row}" for row, count in list(rows.items())[:5])

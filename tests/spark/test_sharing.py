"""What queries have in common is computed once, and old checkpoints go on as they were."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.oracle.files import stamp

from headgate import Session
from headgate.planning.lower import lower
from headgate.planning.rules import optimize

pytestmark = pytest.mark.spark

ROWS, FILES = 30, 2


def declared(spark: SparkSession, folder: Path) -> Session:
    folder.mkdir(exist_ok=True)
    session = Session(spark).execute(f"""
      CREATE STREAM s (ts BIGINT, v BIGINT) FROM parquet
        OPTIONS (path '{folder}', timestamp 'ts', maxFilesPerTrigger '1');
    """)
    calls = spark.sparkContext.accumulator(0)

    def odd(v: int) -> bool:
        calls.add(1)
        return v % 2 == 1

    session.function("odd", odd, "boolean")
    session.calls = calls  # type: ignore[attr-defined]
    return session.execute("""
      CREATE QUERY a AS SELECT v FROM s WHERE odd(v);
      CREATE QUERY b AS SELECT -v AS w FROM s WHERE odd(v);
      CREATE QUERY c AS SELECT COUNT(*) AS n FROM s [ROWS 3] WHERE odd(v);
    """)


@pytest.mark.parametrize("placed", [False, True])
def test_a_shared_selection_asks_every_tuple_once(spark: SparkSession, tmp_path: Path, placed: bool) -> None:
    session = declared(spark, tmp_path / "s")
    if placed:
        session.execute("CREATE POOL web SLOTS 1; PLACE odd ON web;")
    for number in range(FILES):
        v = list(range(number * ROWS, (number + 1) * ROWS))
        path = tmp_path / "s" / f"{number}.parquet"
        pq.write_table(pa.table({"ts": v, "v": v}), path)
        stamp(path)
    session.catalog.drop_query("c")
    run = session.start(until_done=True)
    assert run.wait(120)
    odd = list(range(1, FILES * ROWS, 2))
    assert sorted(run.arrow("a").to_pydict()["v"]) == odd
    assert sorted(run.arrow("b").to_pydict()["w"]) == sorted(-v for v in odd)
    # jobs of pools count their calls themselves
    calls = run.pools()["web"].calls if placed else session.calls.value  # type: ignore[attr-defined]
    assert calls == FILES * ROWS
    assert {name: query.rows_out for name, query in run.status().queries.items()} == {"a": 30, "b": 30}


def test_a_checkpoint_from_before_sharing_goes_on_without_it(spark: SparkSession, tmp_path: Path) -> None:
    session = declared(spark, tmp_path / "s")
    shared = session.network()
    # a selection below a row window has to number its tuples: it is another one
    assert shared.shared == {"b.select_s": "a.select_s"}
    alone = lower([optimize(plan) for plan in session.plans()], session.catalog)
    for kept, expected in ((alone, {}), (shared, shared.shared)):
        identity = {"uid": "1", "fingerprint": kept.fingerprint, "queries": list(kept.queries)}
        (tmp_path / "headgate.json").write_text(json.dumps(identity))
        assert session._network_on(tmp_path).shared == expected
    assert session._network_on(tmp_path / "new").shared == shared.shared

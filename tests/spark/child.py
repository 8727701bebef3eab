"""A run in a process of its own, which can be killed: see ``main`` for its arguments."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import duckdb
from tests.interpretation import COMPILATION, INTERPRETATION
from tests.lengths import IS_LONG
from tests.oracle.brute_force import (
    SECOND,
    Aggregation,
    Call,
    Predicate,
    Query,
    Results,
    Select,
    Side,
    Stream,
    Tuple,
    last,
    partitioned,
    rows,
    sliding,
    unbounded,
)
from tests.oracle.cuts import RandomCuts
from tests.oracle.files import stream_sql, write_stream
from tests.oracle.random_queries import KEYS, WORDS, column, compare, constant
from tests.oracle.runs import PATIENT, difference, query_sql
from tests.spark.processes import process_group

from headgate import Session
from headgate.spark.application.cluster import own_session
from headgate.spark.application.extras import NO_EXTRAS, Extras
from headgate.spark.manifest import Manifest, OperatorState

ROOT = Path(__file__).parents[2]
FILES, ROWS_A_FILE = 12, 10


# no executor lives long enough for Java's second compiler to pay
EXECUTOR_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:MetaspaceSize=256m"
# long enough for tuples to be inside of the eddy whenever the run is killed
CALL_S = 0.02


def is_odd(v: int) -> bool:
    """Placed on a pool of one slot."""
    time.sleep(CALL_S)
    return v % 2 == 1


def grade(k: int | None, v: int) -> int:
    """Placed on a pool of two."""
    time.sleep(CALL_S / 2)
    return ((k or 0) * 7 + v) % 5


POOLS = """
CREATE POOL one SLOTS 1; CREATE POOL two SLOTS 2; CREATE POOL windows SLOTS 2;
PLACE is_odd ON one; PLACE grade ON two; PLACE PROBE OF west ON windows; PLACE PROBE OF east ON windows;
"""


def streams() -> list[Stream]:
    """Two streams that are the same in every process."""
    rng = Random(7)
    return [
        Stream(name, place, _tuples(rng), watermark=2 * SECOND) for place, name in enumerate(("near", "far"))
    ]


def probed_streams() -> list[Stream]:
    """The same tuples once more, for a join by placed probes."""
    near, far = streams()
    return [replace(near, name="west", declared=3), replace(far, name="east", declared=4)]


def _tuples(rng: Random) -> list[Tuple]:
    tuples, ts = [], 1_000
    for _ in range(FILES * ROWS_A_FILE):
        ts += rng.randint(1, 3)
        row = {"ts": ts, "k": rng.choice(KEYS), "v": rng.randint(0, 9), "s": rng.choice(WORDS)}
        tuples.append(Tuple(ts * SECOND, row))
    # out of order, but by no more than the watermark
    return sorted(tuples, key=lambda t: t.ts + rng.randint(0, 2) * SECOND)


def queries(near: Stream, far: Stream) -> list[Query]:
    """A filter, joins, aggregates with all kinds of state, and an eddy of probes and functions."""
    v, k = column("a", "v"), column("a", "k")
    joined = Select(
        [Side(near, "a", last(9 * SECOND)), Side(far, "b", rows(4))],
        [column("a", "ts"), v, column("b", "ts"), column("b", "v")],
        [compare("a", "k", "=", "b", "k"), constant("b", "v", ">", 1)],
    )
    latest = Aggregation(
        Side(near, "a", partitioned("k", 3)), [column("a", "s")], [Call("SUM", v), Call("COUNT")]
    )
    hopping = Aggregation(Side(far, "a", sliding(12 * SECOND, 5 * SECOND)), [k], [Call("AVG", v)])
    running = Aggregation(Side(far, "a", unbounded()), [k], [Call("SUM", v), Call("MAX", v)])
    filtered = Select([Side(near, "a")], [column("a", "ts"), v], [constant("a", "v", ">", 2)])
    asked = [
        Predicate("is_odd(a.v)", frozenset({"a"}), lambda c: c["a"]["v"] % 2 == 1),
        Predicate(
            "grade(b.k, b.v) > 0", frozenset({"b"}), lambda c: ((c["b"]["k"] or 0) * 7 + c["b"]["v"]) % 5 > 0
        ),
    ]
    west, east = probed_streams()
    placed = Select(
        [Side(west, "a", last(9 * SECOND)), Side(east, "b", last(6 * SECOND))],
        [column("a", "ts"), v, column("b", "ts"), column("b", "v")],
        [compare("a", "k", "=", "b", "k"), *asked],
    )
    full = Select(
        [
            Side(near, "a", last(7 * SECOND)),
            Side(far, "b", last(4 * SECOND), join="FULL", on=compare("a", "k", "=", "b", "k")),
        ],
        [column("a", "ts"), v, column("b", "ts"), column("b", "v")],
    )
    semi = Select(
        [
            Side(near, "a", last(3 * SECOND)),
            Side(far, "b", last(8 * SECOND), join="SEMI", on=compare("a", "v", "=", "b", "v")),
        ],
        [column("a", "ts"), v],
    )
    return [
        Query("joined", [joined]),
        Query("full_joined", [full]),
        Query("semi_joined", [semi]),
        Query("latest", [latest]),
        Query("hopping", [hopping]),
        Query("running", [running]),
        Query("filtered", [filtered]),
        Query("placed", [placed]),
    ]


TABLES = {
    "totals": "SELECT v, COUNT(*) AS n, COUNT(DISTINCT k) AS d FROM far GROUP BY v",
    "best": """
      SELECT k, v, place FROM (
        SELECT k, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, ts) AS place FROM near
      ) AS ranked WHERE place <= 2
    """,
}


def table_rows() -> dict[str, Results]:
    """What the tables hold in the end."""
    near, far = ([t.row for t in sorted(stream.on_time(), key=lambda t: t.ts)] for stream in streams())
    totals, best = [], []
    for value in {row["v"] for row in far}:
        keys = [row["k"] for row in far if row["v"] == value]
        totals.append((value, len(keys), len({key for key in keys if key is not None})))
    for key in {row["k"] for row in near}:
        ranked = sorted((row for row in near if row["k"] == key), key=lambda row: (-row["v"], row["ts"]))
        best += [(key, row["v"], place) for place, row in enumerate(ranked[:2], start=1)]
    return {"totals": Counter(totals), "best": Counter(best)}


# tuples of the first stream are read once more, and shed
KEEP, SEED = 0.5, 3


def write_input(folder: Path) -> None:
    """The files of both streams."""
    cuts = range(ROWS_A_FILE, FILES * ROWS_A_FILE, ROWS_A_FILE)
    for stream in streams():
        write_stream(folder / stream.name, stream, cuts, "csv", "BIGINT")


def statements(folder: Path, files_a_tick: int) -> Sequence[str]:
    """Everything in CQL, with results INTO parquet."""
    near, far = streams()
    options = {"idle_after": PATIENT, "maxFilesPerTrigger": files_a_tick}
    return [
        *(stream_sql(s, folder / s.name, "csv", "BIGINT", **options) for s in (near, far)),
        stream_sql(replace(near, name="some"), folder / near.name, "csv", "BIGINT", **options),
        *(
            stream_sql(probed, folder / s.name, "csv", "BIGINT", **options)
            for probed, s in zip(probed_streams(), (near, far), strict=True)
        ),
        POOLS,
        "CREATE QUERY some_of WITH (overload = 'shed') AS SELECT k, v, s FROM some "
        f"INTO parquet OPTIONS (path '{folder}/out/some_of');",
        *(query_sql(q, f"INTO parquet OPTIONS (path '{folder}/out/{q.name}')") for q in queries(near, far)),
        *(
            f"CREATE QUERY {name} AS {query} "
            f"INTO parquet OPTIONS (path '{folder}/out/{name}', mode 'latest', timestamp 'none');"
            for name, query in TABLES.items()
        ),
    ]


def differences(folder: Path) -> list[str]:
    """What is wrong with the results that were written."""
    found = [text for q in queries(*streams()) if (text := difference(q, _written(folder, q.name)))]
    for name, wanted in table_rows().items():
        with duckdb.connect() as connection:
            rows = connection.execute(f"FROM '{folder}/out/{name}/*.parquet'").fetchall()
        if Counter(rows) != wanted:
            found.append(f"{name}: {Counter(rows) - wanted} too many, {wanted - Counter(rows)} missing")
    return found


def shed_results(folder: Path) -> Results:
    """What was written of the stream that is shed."""
    return _written(folder, "some_of")


def _written(folder: Path, query: str) -> Results:
    files = f"{folder}/out/{query}/*.parquet"
    with duckdb.connect() as connection:
        return Counter(connection.execute(f"SELECT ts * {SECOND}, * EXCLUDE (ts) FROM '{files}'").fetchall())


def inside_of_eddy(folder: Path) -> int:
    """How many tuples a restart finds inside of the eddy."""
    manifests = sorted((folder / "checkpoint" / "manifests").glob("*.json"))
    manifest = Manifest.from_json(manifests[-1].read_text()) if manifests else Manifest()
    sides = manifest.operators.get("placed.join_eddy", OperatorState()).blocks
    return sum(block.rows for side in sides for block in side)


@contextmanager
def child(
    folder: Path, seed: int = 0, wild_ticks: int = 0, files_a_tick: int = 1, master: str = "local[2]"
) -> Iterator[subprocess.Popen[bytes]]:
    """The process, at the head of its own group, so that its JVM dies with it."""
    arguments = [folder, seed, wild_ticks, files_a_tick, master]
    command = [sys.executable, "-m", "tests.spark.child", *map(str, arguments)]
    environment = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    with process_group(command, log_of(folder), environment, ROOT) as process:
        yield process


def log_of(folder: Path) -> Path:
    """What all processes of a folder have printed."""
    return folder / "log.txt"


def main(folder: Path, seed: int, wild_ticks: int, files_a_tick: int, master: str) -> None:
    """Run to the end, if allowed to."""
    is_local = master.startswith("local[")
    extras = NO_EXTRAS if is_local else Extras(conf={"spark.executor.extraJavaOptions": EXECUTOR_OPTIONS})
    spark = own_session(master, extras=extras)
    # in make long, operators of all kinds run on executors compiled, as users run them
    for key, value in (COMPILATION if IS_LONG and not is_local else INTERPRETATION).items():
        spark.conf.set(key, value)
    session = Session(spark)
    session.function("is_odd", is_odd, "boolean").function("grade", grade, "int")
    session.execute("\n".join(statements(folder, files_a_tick)))
    strategy = RandomCuts(seed, wild_ticks)
    run = session.start(
        until_done=True, strategy=strategy, checkpoint=folder / "checkpoint", keep={"some": KEEP}, seed=SEED
    )
    run.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])

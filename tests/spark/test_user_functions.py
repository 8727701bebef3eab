"""Code of the user's that fails inside of a run on Spark: whose fault it is, and what a restart does."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import pandas_udf

from headgate.errors import SetupError, UserCodeError
from headgate.model.event import Event
from headgate.runtime import usercode
from headgate.session.session import Session

pytestmark = pytest.mark.spark

TIMEOUT_S = 120


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path) -> Session:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"ts": [1, 2, 3], "v": [7, 8, 9]}), tmp_path / "in" / "0.parquet")
    return Session(spark).execute(f"""
        CREATE STREAM s (ts BIGINT, v BIGINT)
          FROM parquet OPTIONS (path '{tmp_path}/in', timestamp 'ts');""")


INTO_CALLBACK = "CREATE QUERY q AS SELECT v FROM s INTO callback OPTIONS (function 'f')"


def failure(session: Session, **options: Any) -> str:
    run = session.start(until_done=True, **options)
    with pytest.raises(UserCodeError) as caught:
        assert not run.wait(TIMEOUT_S), "it ended without a failure"
        run.stop()
    return str(caught.value)


def raises(*_: Any) -> Any:
    raise ValueError("not\ntoday")


def exits(*_: Any) -> Any:
    sys.exit(4)


def interrupts(*_: Any) -> Any:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("function", "deed"),
    [
        (raises, "raised ValueError: not today"),
        (exits, "called sys.exit(4)"),
        (interrupts, "raised KeyboardInterrupt"),
    ],
)
def test_a_callback_that_fails_ends_the_run_and_gets_its_batch_again(
    session: Session, tmp_path: Path, function: Callable[..., Any], deed: str
) -> None:
    session.callback("f", function).execute(INTO_CALLBACK)
    checkpoint = tmp_path / "checkpoint"
    told = failure(session, checkpoint=checkpoint)
    assert told == f"callback f of query q {deed} ({__file__}:{function.__code__.co_firstlineno + 1})"
    seen: list[int] = []
    session.callback("f", lambda table, batch_id: seen.extend(table.column("v").to_pylist()))
    assert session.start(until_done=True, checkpoint=checkpoint).wait(TIMEOUT_S)
    assert sorted(seen) == [7, 8, 9]


def test_executors_call_a_partition_callback_with_all_rows_and_a_failed_call_is_made_again(
    session: Session, tmp_path: Path
) -> None:
    function, notes = raises, tmp_path / "notes"
    notes.mkdir()
    session.partition_callback("f", function).execute(INTO_CALLBACK)
    told = failure(session, checkpoint=tmp_path / "state")
    where = f"({__file__}:{function.__code__.co_firstlineno + 1})"
    assert told == f"callback f of query q raised ValueError: not today {where}"

    def note(batches: Iterator[pa.RecordBatch], batch_id: int, partition: int) -> None:
        values = [value for batch in batches for value in batch.column("v").to_pylist()]
        (notes / f"{batch_id}-{partition}").write_text(" ".join(map(str, values)))

    session.partition_callback("f", note)
    session.start(until_done=True, checkpoint=tmp_path / "state").wait(TIMEOUT_S)
    assert sorted(v for path in notes.iterdir() for v in path.read_text().split()) == ["7", "8", "9"]
    assert {path.name.split("-")[0] for path in notes.iterdir()} == {"0"}


def test_a_callback_that_hangs_keeps_stop_waiting_for_a_grace_period_only(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usercode, "STOP_GRACE_S", 0.5)
    called, release = threading.Event(), threading.Event()

    def hangs(table: pa.Table, batch_id: int) -> None:
        called.set()
        release.wait(TIMEOUT_S)

    run = session.callback("f", hangs).execute(INTO_CALLBACK).start()
    assert called.wait(TIMEOUT_S)
    began_s = time.monotonic()
    with pytest.raises(
        UserCodeError, match=r"^callback f of query q has not returned 0.5 s after the run was stopped"
    ):
        run.stop()
    release.set()
    assert time.monotonic() - began_s < 30 and not run.is_running


def test_a_callback_beyond_its_time_limit_fails_the_run(session: Session) -> None:
    release = threading.Event()
    session.callback("f", lambda table, batch_id: release.wait(TIMEOUT_S), timeout="200 ms").execute(
        INTO_CALLBACK
    )
    assert failure(session).startswith("callback f of query q has not returned within 0.2 s")
    release.set()


def test_an_observer_that_hangs_is_unplugged_when_the_run_is_stopped(
    session: Session, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(usercode, "STOP_GRACE_S", 0.5)
    called, release = threading.Event(), threading.Event()

    def hangs(event: Event) -> None:
        called.set()
        release.wait(TIMEOUT_S)

    run = session.execute("CREATE QUERY q AS SELECT v FROM s INTO noop").start(observers=[hangs])
    assert called.wait(TIMEOUT_S)
    with caplog.at_level(logging.WARNING, logger="headgate"):
        run.stop()
    release.set()
    assert any("hangs has not returned 0.5 s after" in record.message for record in caplog.records)


def test_an_observer_that_exits_is_unplugged_and_the_run_goes_on(
    session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    session.execute("CREATE QUERY q AS SELECT v FROM s")
    with caplog.at_level(logging.WARNING, logger="headgate"):
        run = session.start(until_done=True, observers=[exits])
        assert run.wait(TIMEOUT_S)
    assert sorted(run.arrow("q").column("v").to_pylist()) == [7, 8, 9]
    assert [r for r in caplog.records if "observer exits called sys.exit(4)" in r.message]


def half(v: int) -> Any:
    raise ArithmeticError(f"cannot halve {v}")


@pytest.mark.parametrize(
    ("function", "deed"), [(half, "raised ArithmeticError: cannot halve "), (exits, "called sys.exit(4)")]
)
def test_a_registered_function_that_fails_is_named_with_its_query(
    session: Session, capfd: pytest.CaptureFixture[str], function: Callable[..., Any], deed: str
) -> None:
    session.function("h", function, "bigint")
    session.execute("""
        CREATE QUERY plain AS SELECT v FROM s INTO noop;
        CREATE QUERY halves AS SELECT h(v) AS x FROM s INTO noop;""")
    told = failure(session)
    assert told.startswith(f"function h in query halves {deed}")
    assert told.endswith(f"({__file__}:{function.__code__.co_firstlineno + 1})")
    assert "\n" not in told
    shown = capfd.readouterr().err
    assert "at org.apache" not in shown and "Traceback" not in shown and "BrokenPipe" not in shown


@pytest.mark.parametrize(
    ("function", "returns", "told"),
    [
        (lambda v: "abc", "bigint", "returned 'abc' (str), which is no bigint"),
        (lambda v: 1, "double", "returned 1 (int), which is no double"),
        (lambda v: True, "int", "returned True (bool), which is no int"),
        (lambda v: 2.5, "decimal(3, 1)", "returned 2.5 (float), which is no decimal(3, 1)"),
        (lambda: 1, "bigint", "raised TypeError: "),
        (lambda v: next(iter(())), "bigint", "raised RuntimeError: StopIteration"),
    ],
)
def test_a_registered_function_that_returns_another_type_is_named_instead_of_giving_null(
    session: Session, function: Callable[..., Any], returns: str, told: str
) -> None:
    session.function("h", function, returns).execute("CREATE QUERY q AS SELECT h(v) AS x FROM s INTO noop")
    assert failure(session).startswith(f"function h in query q {told}")


def test_a_function_that_no_worker_can_be_sent_is_named(
    session: Session, capfd: pytest.CaptureFixture[str]
) -> None:
    lock = threading.Lock()
    session.function("h", lambda v: lock.locked(), "boolean")
    session.execute("CREATE QUERY q AS SELECT v FROM s WHERE h(v) INTO noop")
    with pytest.raises(SetupError, match=r"^function h cannot be sent to Python workers: .*lock"):
        session.start(until_done=True)
    assert "Traceback" not in capfd.readouterr().err


def leaves(*_: Any) -> Any:
    os._exit(3)


def test_a_function_that_ends_its_process_is_named_with_its_query(session: Session) -> None:
    session.function("h", leaves, "bigint").execute("CREATE QUERY q AS SELECT h(v) AS x FROM s INTO noop")
    told = "the Python process that calls function h in query q has ended: it exited, crashed or was killed"
    assert failure(session) == told


def test_functions_that_keep_to_their_type_or_return_nothing_work_as_before(session: Session) -> None:
    session.function("twice", lambda v: None if v == 8 else 2 * v, "bigint")
    session.function("text", lambda v: v + 1)
    session.execute("CREATE QUERY q AS SELECT twice(v) AS x, text(v) AS t FROM s")
    run = session.start(until_done=True)
    assert run.wait(TIMEOUT_S)
    rows = run.arrow("q").to_pylist()
    assert {(row["x"], row["t"]) for row in rows} == {(14, "8"), (None, "9"), (18, "10")}


@pytest.mark.parametrize(
    ("function", "predicate", "told"),
    [
        (leaves, "p(v)", r"the Python process that calls function p in query q has ended"),
        (exits, "p(v)", rf"placed function p called sys.exit\(4\) \({__file__}:\d+\)"),
        (
            lambda v: "yes",
            "p(v)",
            r"placed function p returned 'yes' \(str\), which is neither true nor false",
        ),
        (
            lambda v: "x",
            "p(v) > 3",
            r"placed function p returned 'x' \(str\), which cannot be compared with 3",
        ),
    ],
)
def test_a_placed_function_that_exits_or_returns_the_wrong_type_is_named(
    session: Session, function: Callable[..., Any], predicate: str, told: str
) -> None:
    session.function("p", function, "bigint" if ">" in predicate else "boolean")
    session.execute(f"""
        CREATE POOL one SLOTS 1; PLACE p ON one;
        CREATE QUERY q AS SELECT v FROM s WHERE {predicate};""")
    with pytest.raises(UserCodeError, match=told):
        session.start(until_done=True).wait(TIMEOUT_S)


def test_a_strategy_that_raises_is_named(session: Session) -> None:
    class Broken:
        name = "broken"

        def prepare(self, network: object, profiles: object) -> None:
            pass

        def choose(self, view: object) -> Any:
            raise LookupError("no idea")

    session.execute("CREATE QUERY q AS SELECT v FROM s INTO noop")
    assert failure(session, strategy=Broken()).startswith("strategy broken raised LookupError: no idea (")


def test_aggregate_functions_of_the_user_are_called_with_the_values_of_a_group(session: Session) -> None:
    @pandas_udf("double")  # type: ignore[call-overload]
    def weighted(values: pd.Series, weights: pd.Series) -> float:
        return float((values * weights).sum() / weights.sum())

    session.aggregate("spread", lambda values: values.max() - values.min(), returns="bigint")
    session.function("weighted", weighted)
    session.aggregate("listed", lambda values: ",".join(map(str, values)), returns="string")
    session.execute("""
      CREATE QUERY together AS
        SELECT spread(v) + 1 AS s, COUNT(*) AS n, weighted(v, ts) AS w, listed(v) FILTER (WHERE v <> 8) AS l
        FROM s [TUMBLE 10 SECONDS] HAVING spread(v) > 1;
      CREATE QUERY by_tuple AS SELECT listed(DISTINCT v % 2) AS l FROM s [ROWS 2];
    """)
    run = session.start(until_done=True)
    assert run.wait(TIMEOUT_S)
    [row] = run.results("together").drop("ts").collect()
    assert row[:2] + row[3:] == (3, 3, "7,9") and row["w"] == pytest.approx((7 + 16 + 27) / 6)
    assert sorted(row["l"] for row in run.results("by_tuple").collect()) == ["0,1", "0,1", "1"]
    session.execute("DROP QUERY together; DROP QUERY by_tuple")
    session.aggregate("failing", raises).execute("CREATE QUERY q AS SELECT failing(v) AS f FROM s [ROWS 2]")
    assert failure(session).startswith("function failing in query q raised ValueError: not today")

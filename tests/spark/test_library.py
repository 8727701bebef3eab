"""The library on Spark: one run that is watched, interrupted and closed; and what Spark itself refuses."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType

from headgate import HeadgateError, QueryError, Session, SetupError, SparkError
from headgate.session.handle import Run

pytestmark = pytest.mark.spark

TIMEOUT_S = 120
ENDLESS = """
CREATE STREAM packets (src STRING, bytes INT) FROM burst OPTIONS (rate '200', seed '1');
CREATE QUERY big AS SELECT src, bytes FROM packets WHERE bytes > 40;
"""


@pytest.fixture
def cancelling(spark: SparkSession) -> Iterator[None]:
    """The handler of Ctrl-C that PySpark installs, which cancels all jobs first."""

    def handler(number: int, frame: object) -> None:
        spark.sparkContext.cancelAllJobs()
        raise KeyboardInterrupt

    handler.__module__ = "pyspark.core.context"
    before = signal.signal(signal.SIGINT, handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt_at(run: Run, ticks: int) -> None:
    """Interrupt the main thread, wherever it waits, once there were so many ticks."""

    def watch() -> None:
        ended = run._run._has_ended
        while run.status().ticks < ticks and not ended.wait(0.05):
            pass
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    threading.Thread(target=watch, daemon=True).start()


@pytest.mark.usefixtures("cancelling")
def test_a_run_is_watched_and_interrupted_and_ends_with_its_session(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Session(spark).execute(ENDLESS) as session:
        run = session.start()
        assert not run.wait("50 ms")
        interrupt_at(run, 2)
        with pytest.raises(KeyboardInterrupt):
            run.wait()
        seen = run.status().ticks
        interrupt_at(run, seen + 2)
        run.watch("100 ms")
        assert "the run goes on" in capsys.readouterr().out
        assert run.is_running and run.status().ticks >= seen + 2
        with pytest.raises(SetupError, match="start: the run of big is on"):
            session.start()
        with pytest.raises(SetupError, match=r"SET is for runs that are started later; run\.change"):
            session.execute("SET strategy = 'chain'")
        assert run.arrow("big").num_rows > 0
        kept = Path(run.checkpoint)
        assert kept.parent == tmp_path and kept.is_dir()
    assert not run.is_running and run.status().ticks > seen
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(SetupError, match="the results of query big went with the session"):
        run.results("big")


def test_the_session_of_another_one_is_not_touched_by_closing(spark: SparkSession) -> None:
    Session(spark).close()
    assert spark.range(3).count() == 3


WRONG: list[tuple[Callable[[Session, SparkSession], object], type[HeadgateError], str]] = [
    (lambda s, spark: s.stream("t", spark.range(3)), SetupError, "stream t: the DataFrame is not streaming"),
    (
        lambda s, spark: s.relation("t", spark.readStream.format("rate").load()),
        SetupError,
        "relation t: the DataFrame is streaming; use session.stream",
    ),
    (
        lambda s, spark: s.relation("t", pd.DataFrame({"v": [1]})),  # type: ignore[arg-type]
        SetupError,
        "relation t: pandas.*DataFrame is not a Spark DataFrame; make one with spark.createDataFrame",
    ),
    (
        lambda s, spark: s.stream("t", spark.readStream.format("rate").load(), timestamp="nothing"),
        QueryError,
        "timestamp nothing is not a column of t; columns: timestamp, value",
    ),
    (lambda s, spark: s.relation("packets", spark.range(3)), QueryError, "stream packets already exists"),
    (lambda s, spark: s.function("f", len, "int; drop"), SparkError, "Spark: "),
    (
        lambda s, spark: s.execute(
            "CREATE RELATION r FROM parquet OPTIONS (path '/nowhere'); "
            "CREATE QUERY q AS SELECT p.src FROM packets AS p, r WHERE p.bytes = r.v"
        ),
        SetupError,
        "relation r: no such file or folder: /nowhere",
    ),
    (lambda s, spark: s.start(checkpoint="nosuch://bucket/state"), SparkError, "Spark: .*nosuch"),
    (
        lambda s, spark: s.start(checkpoint="/proc/headgate"),
        SetupError,
        "checkpoint /proc/headgate cannot be",
    ),
    (lambda s, spark: s.start(until_done=True), SetupError, "stream packets never ends"),
]


def test_what_spark_or_the_disk_refuses_is_one_line_and_changes_nothing(spark: SparkSession) -> None:
    session = Session(spark).execute(ENDLESS)
    for call, kind, message in WRONG:
        before = dict(session.catalog._declared), dict(session.catalog.functions), dict(session._registered)
        frames = dict(session._sources.frames)
        with pytest.raises(kind, match=message) as refused:
            call(session, spark)
        assert "\n" not in str(refused.value)
        after = dict(session.catalog._declared), dict(session.catalog.functions), dict(session._registered)
        assert after == before and session._sources.frames == frames and session.run is None
    session.function("twice", lambda v: 2 * v, LongType())
    assert session.catalog.functions["twice"].returns == "bigint"
    assert list(session.explain("sql").to_json()) == ["sql"]


def test_a_failure_of_spark_in_a_run_is_an_error_of_ours(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text("1,5\n2,0\n")
    session = Session(spark).execute(f"""
        CREATE STREAM s (ts BIGINT, v INT) FROM csv OPTIONS (path '{tmp_path}/in', timestamp 'ts');
        CREATE QUERY q AS SELECT SUM(v + {2**63 - 9}) AS x FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE];""")
    run = session.start(until_done=True)
    with pytest.raises(HeadgateError, match=r"^query q: overflow") as raised:
        run.wait(TIMEOUT_S)
    assert raised.value.__cause__ is not None and "\n" not in str(raised.value)
    session.close()


def test_an_interrupted_profile_leaves_no_run_and_no_folder_behind(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Run] = []

    def interrupted(run: Run, *_: object) -> None:
        started.append(run)
        raise KeyboardInterrupt

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    session = Session(spark).execute(ENDLESS)
    with monkeypatch.context() as patch:
        patch.setattr(Run, "run_for", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.profile("1 s")
    assert [run.is_running for run in started] == [False]
    assert session.run is None and list(tmp_path.iterdir()) == []

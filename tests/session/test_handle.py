"""The handle of a run, without Spark; and its limits: those asked for, or what bounds of queries allow."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.fake_runs import SHEDDING, FakeSparkRun, a_run, network_of

from headgate.control.work_model import TICK_OF_BOUND
from headgate.errors import SetupError, SparkError
from headgate.scheduling.baselines import Fifo
from headgate.session.handle import Run
from headgate.session.launching import Launcher, _memory_bytes, locate
from headgate.session.run_settings import RunSettings
from headgate.statistics.profile_file import Measured
from headgate.statistics.store import StatisticsStore

FREE = "CREATE QUERY q AS SELECT src FROM packets;"
LATEST = """
CREATE QUERY q AS SELECT src, COUNT(*) AS n FROM packets [LANDMARK] GROUP BY src
  INTO memory OPTIONS (mode 'latest', key 'src');
"""
BOUNDED = "CREATE QUERY q WITH (latency = '4 s', memory = '1 MB') AS SELECT src FROM packets;"


def limits_s(query: str, is_file: bool = False, **given: Any) -> tuple[float, float]:
    """Budget and wanted length of a tick."""
    network = network_of(query)
    launcher = Launcher(None, SimpleNamespace(is_file_stream=lambda definition: is_file), {}, {})
    settings = RunSettings(Fifo(), StatisticsStore(network, Measured({})), **given)
    budget_s = launcher._budget_s(network, settings)
    return budget_s, launcher._target_s(network, settings, budget_s)


def budget_s(query: str, is_file: bool = False, **given: Any) -> float:
    return limits_s(query, is_file, **given)[0]


def test_a_given_budget_counts_whatever_the_bounds_are() -> None:
    assert budget_s(BOUNDED, tick_budget_s=0.5) == 0.5
    assert budget_s(FREE, tick_budget_s=2.0) == 2.0


def test_without_a_budget_latency_bounds_decide_and_without_bounds_ticks_are_short() -> None:
    assert budget_s(BOUNDED) == TICK_OF_BOUND * 4.0
    assert budget_s(FREE) == 1.0


def test_files_read_to_their_end_have_no_budget_to_keep() -> None:
    assert budget_s(FREE, is_file=True, until_done=True) == float("inf")
    assert budget_s(FREE, is_file=True) == 1.0


def test_ticks_should_take_as_long_as_their_budget_or_as_latency_bounds_of_what_is_shed_allow() -> None:
    unlimited = (inf, inf)
    assert limits_s(BOUNDED) == (TICK_OF_BOUND * 4.0, TICK_OF_BOUND * 4.0)
    assert limits_s(BOUNDED.replace("latency", "overload = 'shed', latency")) == (inf, TICK_OF_BOUND * 4.0)
    assert limits_s(SHEDDING) == (inf, 2.0)
    assert limits_s(SHEDDING, tick_budget_s=inf) == unlimited
    assert limits_s(FREE, is_file=True, until_done=True) == unlimited


def test_the_limit_of_a_run_replaces_those_of_its_queries() -> None:
    assert _memory_bytes(None, network_of(FREE)) == float("inf")
    assert _memory_bytes(None, network_of(BOUNDED)) == 2**20
    assert _memory_bytes(2.0**21, network_of(BOUNDED)) == 2**21


def test_addresses_stay_and_local_paths_become_absolute() -> None:
    assert locate("s3a://bucket/state") == "s3a://bucket/state"
    assert locate("state").startswith("/")


@pytest.fixture
def both(tmp_path: Path) -> tuple[Run, FakeSparkRun]:
    return a_run(tmp_path / "state")


@pytest.fixture
def cancelled() -> Iterator[list[str]]:
    """PySpark's handler of Ctrl-C, which cancels all jobs first, is in place; what it has cancelled."""
    found: list[str] = []

    def handler(number: int, frame: object) -> None:
        found.append("all jobs")
        raise KeyboardInterrupt

    handler.__module__ = "pyspark.core.context"
    before = signal.signal(signal.SIGINT, handler)
    yield found
    assert signal.getsignal(signal.SIGINT) is handler
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    "method",
    [
        lambda run: run.wait(),
        lambda run: run.wait("1 min"),
        lambda run: run.run_for("1 min"),
    ],
)
def test_ctrl_c_ends_the_waiting_and_neither_the_run_nor_jobs_of_spark(
    both: tuple[Run, FakeSparkRun],
    cancelled: list[str],
    monkeypatch: pytest.MonkeyPatch,
    method: Callable[[Run], object],
) -> None:
    run, behind = both

    def interrupted(timeout_s: float | None = None) -> bool:
        signal.raise_signal(signal.SIGINT)
        return False

    with monkeypatch.context() as patch:
        patch.setattr(behind, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            method(run)
    assert cancelled == [] and run.is_running
    run.stop()
    assert run.wait(0) and not run.is_running


def test_ctrl_c_ends_watching_quietly(
    both: tuple[Run, FakeSparkRun], cancelled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, behind = both
    monkeypatch.setattr(behind, "wait", lambda timeout_s: signal.raise_signal(signal.SIGINT))
    run.watch()
    assert cancelled == [] and run.is_running


def test_the_handler_of_a_program_is_left_in_place(
    both: tuple[Run, FakeSparkRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, behind = both
    seen: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    monkeypatch.setattr(behind, "wait", lambda timeout_s: signal.raise_signal(signal.SIGINT))
    try:
        run.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT]


def test_waiting_has_a_limit_in_seconds_or_as_text(both: tuple[Run, FakeSparkRun]) -> None:
    run, behind = both
    assert not run.wait(0) and not run.wait(0.01) and not run.wait("10 ms")
    behind.over.set()
    assert run.wait() and run.wait(float("inf")) and run.wait(1e30)
    for wrong in (-1, float("nan"), "soon", "-1 s", [], True):
        with pytest.raises(SetupError, match=r"^timeout_s"):
            run.wait(wrong)  # type: ignore[arg-type]


class Py4JJavaError(Exception):
    """An error as py4j raises it."""


Py4JJavaError.__module__ = "py4j.protocol"


def test_what_spark_raises_is_an_error_of_ours_with_its_innermost_cause(
    both: tuple[Run, FakeSparkRun],
) -> None:
    run, behind = both
    trace = "An error occurred\n: org.apache.A: outer\nCaused by: java.lang.B: inner\n  at x"
    failure = Py4JJavaError(trace)
    behind.fail(failure)
    for call in (run.wait, run.stop):
        with pytest.raises(SparkError, match=r"^Spark: B: inner$") as raised:
            call()
        assert raised.value.__cause__ is failure


def test_a_stopped_application_is_named(both: tuple[Run, FakeSparkRun]) -> None:
    run, behind = both
    behind.spark.sparkContext._jsc = None
    behind.fail(AttributeError("'NoneType' object has no attribute 'sc'"))
    with pytest.raises(SparkError, match="the Spark application has been stopped"):
        run.wait()


def test_a_run_that_is_over_cannot_be_changed_but_asked(both: tuple[Run, FakeSparkRun]) -> None:
    run, behind = both
    run.change(strategy="chain", memory="1 MB", latency={"q": "2 s"})
    run.change(latency={"q": None}, tick_budget="200 ms")
    run.shed({"packets": 0.5})
    run.alter_pool("web", 3)
    assert [(c[0] and c[0].name, *c[1:]) for c in behind.changes] == [
        ("chain", 2**20, {"q": 2.0}, None),
        (None, None, {"q": None}, 0.2),
    ]
    assert run.pools()["web"].slots == 3
    run.stop()
    run.stop()
    for call in (run.change, lambda: run.shed({"packets": 1}), lambda: run.alter_pool("web", 4)):
        with pytest.raises(SetupError, match="has no effect: the run is over"):
            call()
    assert run.status().ticks == 0 and run.warnings() == () and run.arrow("q") == "the rows of q"
    # nothing was measured, and runs on assumptions until something is
    measured = run.measured()
    assert measured.profiles == {} and {*run.profiles(), "ticks"} == set(measured.not_measured)


def test_looking_at_the_failure_of_a_run_does_not_report_it(tmp_path: Path) -> None:
    run, behind = a_run(tmp_path)
    assert run.failure is None
    behind.fail(ValueError("no more"))
    for _ in range(2):
        assert str(run.failure) == "no more"
    with pytest.raises(ValueError, match="no more"):
        run.discard()
    run.discard()


@pytest.mark.parametrize(("query", "is_read_again"), [(SHEDDING, False), (LATEST, True)])
def test_a_table_that_is_replaced_while_it_is_read_is_read_again(
    tmp_path: Path, query: str, is_read_again: bool
) -> None:
    run, behind = a_run(tmp_path, query)
    failures = [SparkError("the path does not exist")] * 2

    def results(*_: Any) -> Any:
        if failures:
            raise failures.pop()
        return SimpleNamespace(toArrow=lambda: "rows")

    vars(behind).update(results=results, results_of_tick=results)
    if is_read_again:
        assert run.results_of_tick("q", 3) == "rows"
    else:
        with pytest.raises(SparkError):
            run.results_of_tick("q", 3)


def test_discarding_removes_a_folder_of_the_runs_own_alone(tmp_path: Path) -> None:
    for is_temporary in (True, False):
        folder = tmp_path / f"{is_temporary}"
        folder.mkdir()
        run, _ = a_run(folder, is_temporary=is_temporary)
        run.discard()
        run.discard()
        assert folder.exists() is not is_temporary and not run.is_running


def test_a_temporary_checkpoint_that_is_kept_stays_with_the_results_in_it(tmp_path: Path) -> None:
    run, _ = a_run(tmp_path)
    assert run.path_of("q") is None
    run.keep_checkpoint()
    assert run.path_of("q") == f"{tmp_path}/results/q"
    run.discard()
    assert tmp_path.exists()

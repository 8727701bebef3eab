"""What all tests share."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# child processes are over before Java's second compiler pays
os.environ.setdefault("HEADGATE_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
# tests leave no process behind that fills the user's cache
os.environ.setdefault("HEADGATE_CLASS_SHARING", "off")


SEED_VARIABLE = "HEADGATE_TEST_SEED"


def pytest_configure(config: pytest.Config) -> None:
    """Draw random cases afresh in every run, on build servers too, from one seed for all worker processes."""
    # on a busy machine, a case that takes long is no failure
    patient = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
    settings.register_profile("headgate", settings.get_profile("default"), **patient)
    settings.load_profile("headgate")
    if config.option.hypothesis_seed is None:
        # worker processes read the variable that the first process sets: they do not inherit its options
        config.option.hypothesis_seed = os.environ.setdefault(SEED_VARIABLE, str(secrets.randbits(32)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the seed, so that a failure can be repeated."""
    seed = terminalreporter.config.option.hypothesis_seed
    terminalreporter.line(f"random cases: --hypothesis-seed={seed} repeats them")


@pytest.fixture
def run_seed(pytestconfig: pytest.Config) -> int:
    """The seed of this run, for random cases that Hypothesis does not draw."""
    return int(pytestconfig.option.hypothesis_seed)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need no JVM go first, so that cheap failures show early.

    Of the others, those that take minutes go first: beside them, other workers run the rest.
    """
    items.sort(
        key=lambda item: (
            item.get_closest_marker("spark") is not None,
            item.get_closest_marker("takes_minutes") is None,
        )
    )


@pytest.fixture(autouse=True)
def _whole_first_ticks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small first tick would be one more tick for every test; those that are about it ask for it."""
    marks = {mark.name for mark in request.node.iter_markers()}
    if "spark" in marks and "small_first_ticks" not in marks:
        monkeypatch.setattr("headgate.spark.run.can_hold_back", lambda spark: False)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark application for all tests."""
    # tests without it must not pay for the import
    from headgate.spark.application.cluster import own_session

    with pytest.MonkeyPatch.context() as patch:
        # this one runs for minutes
        patch.delenv("HEADGATE_JAVA_OPTIONS")
        session = own_session("local[2]")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def interpreted(spark: SparkSession) -> Iterator[SparkSession]:
    """Every random query would be compiled for a handful of rows; the other tests run compiled plans."""
    interpretation = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    for key, value in interpretation.items():
        spark.conf.set(key, value)
    yield spark
    for key in interpretation:
        spark.conf.unset(key)


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool], float], None]:
    """Waits for a condition; fails when it does not come true in time."""

    def wait(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
        end = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < end, f"not within {timeout_s} s"
            time.sleep(0.05)

    return wait

"""What all tests share."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from tests.interpretation import COMPILATION, INTERPRETATION, INTERPRETING_JAVA
from tests.lengths import IS_LONG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# no test runs long enough for Java's second compiler to pay, which takes nearly half of the processor time;
# with the heap that Java would begin with, hundreds of collections copy what a run needs to its end
os.environ.setdefault(
    "HEADGATE_JAVA_OPTIONS",
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=512m -XX:+UseSerialGC "
    f"-Xms1g -Xmn512m -XX:MetaspaceSize=512m {INTERPRETING_JAVA}",
)
# tests leave no process behind that fills the user's cache; make test has filled it before
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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that need no JVM go first, and before short ones those that take long."""
    if not IS_LONG:
        left_out = [item for item in items if is_marked(item, "long")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    on_spark = [item for item in items if is_marked(item, "spark")]
    others = [item for item in items if not is_marked(item, "spark")]
    items[:] = [*long_ones_first(others, "slow"), *long_ones_first(on_spark, "takes_minutes")]


def long_ones_first(items: list[pytest.Item], mark: str) -> list[pytest.Item]:
    """Each half of the tests begins with long ones: two workers get one half each, and steal in the end."""
    long = [item for item in items if is_marked(item, mark)]
    short = [item for item in items if not is_marked(item, mark)]
    middle = max(0, len(items) // 2 - len(long[::2]))
    return [*long[::2], *short[:middle], *long[1::2], *short[middle:]]


def is_marked(item: pytest.Item, mark: str) -> bool:
    return item.get_closest_marker(mark) is not None


@pytest.fixture(autouse=True)
def _whole_first_ticks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small first tick would be one more tick for every test; those that are about it ask for it."""
    marks = {mark.name for mark in request.node.iter_markers()}
    if "spark" in marks and "small_first_ticks" not in marks:
        monkeypatch.setattr("headgate.spark.intake_limits.can_hold_back", lambda spark: False)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark application for all tests.

    It interprets plans: most tests have a handful of rows, for which compiling a plan is most of the work.
    """
    # tests without it must not pay for the import
    from headgate.spark.application.cluster import own_session

    session = own_session("local[2]")
    for key, value in INTERPRETATION.items():
        session.conf.set(key, value)
    yield session
    session.stop()


@pytest.fixture(scope="module")
def compiled(spark: SparkSession) -> Iterator[SparkSession]:
    """The same application with compiled plans, as users run it: for what users read, time or look up."""
    for key, value in COMPILATION.items():
        spark.conf.set(key, value)
    yield spark
    for key, value in INTERPRETATION.items():
        spark.conf.set(key, value)


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool], float], None]:
    """Waits for a condition; fails when it does not come true in time."""

    def wait(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
        end = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < end, f"not within {timeout_s} s"
            time.sleep(0.05)

    return wait

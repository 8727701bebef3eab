"""Runs without Spark: what a handle needs of one, and sessions that start them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.planning.support import bound, catalog_of

from headgate.control.overrides import FixedController, ManualController
from headgate.model.network import Network
from headgate.model.status import Recorder
from headgate.planning.lower import lower
from headgate.planning.rules import optimize
from headgate.runtime.drive import ReplaceableStrategy
from headgate.scheduling import strategy_named
from headgate.session.handle import Run
from headgate.session.launching import Launcher
from headgate.session.run_settings import RunSettings
from headgate.session.session import Session
from headgate.spark.eddies.pools import PoolStatus
from headgate.spark.engine import TickLimits
from headgate.spark.file_system import Files
from headgate.statistics.store import StatisticsStore

SHEDDING = "CREATE QUERY q WITH (overload = 'shed') AS SELECT src FROM packets WHERE bytes > 5;"


class FakePools:
    """One pool, which remembers its slots."""

    slots = 2

    def status(self) -> Mapping[str, PoolStatus]:
        return {"web": PoolStatus(self.slots, 0, 0, 0.0)}

    def alter(self, pool: str, slots: int) -> None:
        assert isinstance(pool, str) and isinstance(slots, int)
        self.slots = slots


class FakeSparkRun:
    """Runs until it is stopped, or until a test ends it."""

    def __init__(self, folder: Path) -> None:
        self.checkpoint = SimpleNamespace(root=str(folder))
        self.spark = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=object()))
        self.pools = FakePools()
        self.strategy = ReplaceableStrategy(strategy_named("fifo"))
        self.limits = TickLimits(budget_s=1.0, memory_bytes=1e6, processors=2)
        self.changes: list[tuple[Any, ...]] = []
        self.over = threading.Event()
        self.error: BaseException | None = None

    def fail(self, error: BaseException) -> None:
        self.error = error
        self.over.set()

    @property
    def is_running(self) -> bool:
        return not self.over.is_set()

    def wait(self, timeout_s: float | None = None) -> bool:
        if not self.over.wait(timeout_s):
            return False
        if self.error is not None:
            raise self.error
        return True

    def stop(self) -> None:
        self.ask_to_stop()
        self.wait()

    def ask_to_stop(self) -> None:
        self.over.set()

    def change(self, *settings: Any) -> None:
        self.changes.append(settings)

    def results(self, query: str) -> Any:
        return SimpleNamespace(toArrow=lambda: f"the rows of {query}")

    def results_of_tick(self, query: str, batch_id: int) -> Any:
        return SimpleNamespace(toArrow=lambda: f"the rows of {query} in tick {batch_id}")

    def path_of(self, query: str) -> str:
        return f"{self.checkpoint.root}/results/{query}"

    def keep_checkpoint(self) -> None:
        """There is no JVM that would remove it."""

    def dead_letters(self) -> None:
        return None


def network_of(query: str) -> Network:
    catalog = catalog_of(query)
    return lower([optimize(plan) for plan in bound(query, catalog)], catalog)


def a_run(folder: Path, query: str = SHEDDING, is_temporary: bool = True) -> tuple[Run, FakeSparkRun]:
    """A handle, and the run behind it."""
    network, behind = network_of(query), FakeSparkRun(folder)
    controller = ManualController(FixedController())
    run = Run(behind, Recorder(network), is_temporary, network, controller, StatisticsStore(network), 2)
    return run, behind


class FakeLauncher(Launcher):
    """Starts nothing, but checks settings as the real one does."""

    def _launch(self, network: Network, settings: RunSettings, folder: str) -> Run:
        self._budget_s(network, settings)
        controller = ManualController(FixedController(), settings.overrides)
        is_temporary = settings.checkpoint is None
        recorder = Recorder(network)
        fake = FakeSparkRun(Path(folder))
        return Run(fake, recorder, is_temporary, network, controller, settings.statistics, 2)


def without_spark(monkeypatch: pytest.MonkeyPatch, session: Session) -> Session:
    """The session, whose runs are fakes; that of Spark is one too."""
    spark = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=object(), defaultParallelism=2))
    spark.udf = SimpleNamespace(register=lambda *_: None)
    spark.sql = lambda *_: None
    sources = SimpleNamespace(frames={}, is_file_stream=lambda _: True)
    vars(session).update(_spark=spark, _sources=sources)
    launcher = FakeLauncher(spark, sources, {}, {})
    monkeypatch.setattr(session, "_launcher", lambda: launcher)
    monkeypatch.setattr(session, "_files", Files)
    return session


def behind(run: Run | None) -> FakeSparkRun:
    assert run is not None and isinstance(run._run, FakeSparkRun)
    return run._run

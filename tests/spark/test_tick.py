"""A tick is told of once: the controller decides by the event that observers get."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headgate import Session
from headgate.control.overrides import FixedController
from headgate.model.event import Event, TickCommitted
from headgate.model.profile import Profile
from headgate.model.shedding import TickSettings
from headgate.runtime.drive import SettingsDecision, drive
from headgate.scheduling.baselines import Fifo
from headgate.spark.engine import TickLimits
from headgate.spark.run import SparkRun
from headgate.statistics.store import StatisticsStore

pytestmark = pytest.mark.spark


class Noting(FixedController):
    """Notes the ticks that it decides by."""

    def __init__(self) -> None:
        super().__init__()
        self.ticks: list[TickCommitted] = []

    def decide(self, tick: TickCommitted, settings: TickSettings) -> SettingsDecision:
        self.ticks.append(tick)
        return super().decide(tick, settings)


def test_controller_and_observers_see_the_same_tick(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    for number in range(2):
        (tmp_path / "s" / f"{number}.csv").write_text(f"{number},7\n")
    session = Session(spark).execute(f"""
      CREATE STREAM s (ts BIGINT, v INT) FROM csv
        OPTIONS (path '{tmp_path / "s"}', timestamp 'ts', maxFilesPerTrigger '1');
      CREATE QUERY q AS SELECT v FROM s;
    """)
    controller, events, rests_after_s = Noting(), list[Event](), list[float]()

    def rest_s(tick_s: float) -> float:
        rests_after_s.append(tick_s)
        return 0.001

    run = SparkRun(
        spark=session._spark,
        network=session.network(),
        sources=session._sources,
        strategy=Fifo(),
        checkpoint_folder=str(tmp_path / "checkpoint"),
        limits=TickLimits(),
        statistics=StatisticsStore(session.network()),
        until_done=True,
        callbacks={},
        observers=[],
        controller=controller,
        rest_s=rest_s,
    )
    run.open()
    try:
        drive(run.engine, Fifo(), [events.append])
    finally:
        run.close()
    ticks = [event for event in events if isinstance(event, TickCommitted)]
    assert sum(tick.queries["q"].rows_out for tick in ticks if tick.queries) == 2
    # what is known only later
    filled_in = [
        replace(seen, busy_s=tick.busy_s, phases_s=tick.phases_s, waiting=tick.waiting, turns=tick.turns)
        for seen, tick in zip(controller.ticks, ticks, strict=True)
    ]
    assert filled_in == ticks
    assert all(tick.phases_s["rest"] == 0.001 and tick.phases_s["commit"] > 0 for tick in ticks)
    assert rests_after_s == [tick.seconds for tick in ticks]


def files_of_a_tick(spark: SparkSession, folder: Path, seconds_per_tuple: float) -> int:
    """How many files a tick of 10,000 rows writes: a task writes one."""
    session = Session(spark).execute(f"""
      CREATE STREAM s (ts TIMESTAMP, src STRING)
        FROM burst OPTIONS (rate '10000', duration '1 s', speed 'max', seed '1', timestamp 'ts');
      CREATE QUERY q AS SELECT src FROM s WHERE sha2(src, 256) >= '0' INTO parquet OPTIONS (path '{folder}');
    """)
    [name] = [name for name in session.network().operators if "select" in name]
    run = session.start(
        until_done=True, profiles={name: Profile(seconds_per_tuple)}, tick_budget=float("inf")
    )
    assert run.wait(120) and run.status().queries["q"].rows_out > 5_000
    return len(list(folder.glob("part-*")))


def test_few_tuples_are_the_work_of_several_tasks_if_they_are_expensive(
    spark: SparkSession, tmp_path: Path
) -> None:
    assert files_of_a_tick(spark, tmp_path / "cheap", 1e-6) == 1
    assert files_of_a_tick(spark, tmp_path / "dear", 1e-4) == 2

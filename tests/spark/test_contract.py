"""The engine on Spark keeps the contract of engines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.runtime.engine_contract import EngineContract

from headgate import Session
from headgate.control.overrides import FixedController
from headgate.runtime.drive import Engine
from headgate.scheduling import strategy_named
from headgate.spark.engine import TickLimits
from headgate.spark.run import SparkRun
from headgate.statistics.store import StatisticsStore

pytestmark = pytest.mark.spark

_SCRIPT = """
CREATE STREAM a (ts BIGINT, k INT) FROM csv OPTIONS (path '{folder}/a', timestamp 'ts', maxFilesPerTrigger 1);
CREATE STREAM b (ts BIGINT, k INT) FROM csv OPTIONS (path '{folder}/b', timestamp 'ts');
CREATE QUERY some AS SELECT k + 1 AS more FROM a WHERE k > 0;
CREATE QUERY pairs AS SELECT a.k FROM a [RANGE 2 SECONDS], b [ROWS 2] WHERE a.k = b.k;
"""


class TestOnSpark(EngineContract):
    strategies = ("chain", "threshold")

    @pytest.fixture(autouse=True)
    def _files(self, spark: SparkSession, tmp_path: Path) -> None:
        self._spark, self._folder, self._runs = spark, tmp_path, 0
        for name, files in {"a": ("1,0\n2,1\n", "3,2\n4,1\n5,0\n"), "b": ("1,1\n3,2\n",)}.items():
            (tmp_path / name).mkdir()
            for number, text in enumerate(files):
                (tmp_path / name / f"{number}.csv").write_text(text)

    def started(self) -> AbstractContextManager[Engine]:
        return self._started()

    @contextmanager
    def _started(self) -> Iterator[Engine]:
        session = Session(self._spark)
        session.execute(_SCRIPT.format(folder=self._folder))
        self._runs += 1
        run = SparkRun(
            spark=session._spark,
            network=session.network(),
            sources=session._sources,
            strategy=strategy_named("fifo"),
            checkpoint_folder=str(self._folder / f"checkpoint-{self._runs}"),
            limits=TickLimits(),
            statistics=StatisticsStore(session.network()),
            until_done=True,
            callbacks={},
            observers=[],
            controller=FixedController(),
        )
        run.open()
        try:
            yield run.engine
        finally:
            run.close()

    def arrivals(self) -> dict[str, int]:
        return {"a": 5, "b": 2}

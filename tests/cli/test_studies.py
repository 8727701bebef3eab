"""Studies on Spark, without Spark."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from headgate.cli import studies
from headgate.experiments.study import Study


def test_studies_leave_spark_to_the_end_of_the_process_when_nobody_reads_what_it_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark, done = Mock(), Study("predict", tmp_path, lambda text: None)
    monkeypatch.setattr("headgate.spark.application.cluster.own_session", lambda *settings: spark)
    monkeypatch.setattr("headgate.experiments.predict.predict_study", lambda given, out, progress: done)
    assert studies.measured("predict", tmp_path, "local[1]") is done
    spark.stop.assert_not_called()

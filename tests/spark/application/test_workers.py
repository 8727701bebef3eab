from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from headgate.spark.application import workers
from headgate.spark.application.workers import silence

REPORTING = """
import sys, traceback

def report(error):
    try:
        raise error
    except BaseException:
        print("the worker failed", file=sys.stderr)
        traceback.print_exc()
"""


def reported(error: BaseException, capfd: pytest.CaptureFixture[str]) -> str:
    module = ModuleType("reporting")
    exec(REPORTING, vars(module))
    silence(module)
    module.report(error)
    return capfd.readouterr().err


@pytest.mark.parametrize("error", [BrokenPipeError(), ConnectionResetError()])
def test_a_pipe_that_spark_has_closed_is_no_news(error: Exception, capfd: pytest.CaptureFixture[str]) -> None:
    assert reported(error, capfd) == ""


def test_any_other_failure_of_a_worker_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    lines = reported(ValueError("odd"), capfd).splitlines()
    assert (lines[0], lines[-1]) == ("the worker failed", "ValueError: odd")


READER = "pyspark.sql.streaming.python_streaming_source_runner"


@pytest.mark.parametrize(
    ("error", "process", "last_line"),
    [
        ("BrokenPipeError", READER, []),
        ("ConnectionResetError", READER, []),
        ("ValueError", READER, ["ValueError"]),
        ("BrokenPipeError", "another", ["BrokenPipeError"]),
    ],
)
def test_a_reader_of_a_source_ends_quietly_when_spark_is_gone(
    error: str, process: str, last_line: list[str]
) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(workers.__file__).parent / "worker_site")}
    command = [sys.executable, "-c", f"raise {error}", process]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr.splitlines()[-1:]) == (1, last_line)

from __future__ import annotations

from types import ModuleType

import pytest

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

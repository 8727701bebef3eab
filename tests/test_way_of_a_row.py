"""The numbered list in ARCHITECTURE.md: its functions are where it names them, and come in its order."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.cli.support import invoke, script

from headgate.session.session import Session

_TEXT = (Path(__file__).parents[1] / "ARCHITECTURE.md").read_text()
_SECTION = _TEXT.split("## The way of a row\n")[1].split("\n## ")[0]
NAMES = re.findall(r"^\d+\. `([\w.]+)`", _SECTION, re.MULTILINE)
# what needs no Spark; the command itself is called by the test
PLANNED = NAMES[1 : NAMES.index("session.session.Session.start") + 1]
RUN = NAMES[NAMES.index("session.session.Session.start") :]


class NoSparkError(Exception):
    """Raised where Spark would be started."""


def home(name: str) -> tuple[Any, str, Any]:
    """The module or class that a function is in, its own name, and the function as it stands there."""
    owner_name, _, own = f"headgate.{name}".rpartition(".")
    owner = resolve_name(owner_name)
    return owner, own, vars(owner).get(own)


@pytest.mark.parametrize("name", NAMES)
def test_every_step_is_a_function_of_the_file_that_is_named(name: str) -> None:
    owner, _, found = home(name)
    assert callable(found)
    assert found.__module__ == getattr(owner, "__module__", owner.__name__)


def recorded(names: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of these functions as they are called from now on."""
    calls: list[str] = []

    def recording(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def record(*arguments: Any, **named: Any) -> Any:
            calls.append(name)
            return function(*arguments, **named)

        return record

    for name in names:
        owner, own, found = home(name)
        is_static = isinstance(found, staticmethod)
        recorder = recording(name, found.__func__ if is_static else found)
        # modules that import a function have it under its name as well
        homes = [owner] if isinstance(owner, type) else list(sys.modules.values())
        for one in homes:
            if vars(one).get(own) is found:
                monkeypatch.setattr(one, own, staticmethod(recorder) if is_static else recorder)
    return calls


def in_order(names: Sequence[str], calls: Sequence[str]) -> bool:
    """Whether the calls contain these names one after the other, whatever lies between."""
    later = iter(calls)
    return all(name in later for name in names)


def test_a_command_is_planned_in_the_order_of_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise NoSparkError

    monkeypatch.setattr("headgate.cli.script.jvm.start_early", lambda *given: None)
    monkeypatch.setattr("headgate.cli.script._start_session", lambda *given: None)
    monkeypatch.setattr("headgate.spark.application.cluster.own_session", refuse)
    calls = recorded(PLANNED, monkeypatch)
    assert isinstance(invoke("run", script(tmp_path)).exception, SystemExit)
    assert len(PLANNED) == 7 and in_order(PLANNED, calls)
    assert not in_order(PLANNED[::-1], calls)


@pytest.mark.spark
def test_a_row_goes_the_way_of_the_list(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = recorded(RUN, monkeypatch)
    with Session(spark) as session:
        sink = f"INTO parquet OPTIONS (path '{tmp_path / 'out'}')"
        session.execute(script(tmp_path).read_text().replace("value > 10;", f"value > 10 {sink};"))
        assert session.start(until_done=True).wait(120)
    assert len(RUN) == 13 and in_order(RUN, calls), calls

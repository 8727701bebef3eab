"""What ``import headgate`` offers: names, help, types; and that no argument ends in a stack trace."""

from __future__ import annotations

import inspect
import math
import pydoc
import subprocess
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fake_runs import a_run, without_spark

import headgate
from headgate import HeadgateError, Measured, Run, RunStatus, Session
from headgate.model.profile import Profile
from headgate.scheduling.baselines import Fifo

SCRIPT = """
CREATE STREAM s (ts BIGINT, v INT) FROM csv OPTIONS (path 's/', timestamp 'ts');
CREATE QUERY a WITH (overload = 'shed') AS SELECT v FROM s WHERE v > 1;
"""


def test_dir_lists_all_there_is_and_each_can_be_had() -> None:
    assert dir(headgate) == sorted(headgate.__all__)
    assert {"Session", "Run", "RunStatus", "Measured", "HeadgateError", "Refused"} <= set(dir(headgate))
    for name in dir(headgate):
        assert getattr(headgate, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'Sesion'"):
        headgate.Sesion  # noqa: B018


def test_help_tells_how_to_begin() -> None:
    text = pydoc.plain(pydoc.render_doc(headgate))
    for part in ("with headgate.Session() as session:", "class Session", "start(self, ", "class Run("):
        assert part in text


def test_importing_the_package_imports_neither_spark_nor_the_planner() -> None:
    program = "import sys, headgate; print([m for m in ('pyspark', 'sqlglot', 'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_type_checkers_find_the_types_of_all_that_is_public() -> None:
    assert (Path(headgate.__file__).parent / "py.typed").exists()
    for kind in (Session, Run, RunStatus, Measured):
        for name, method in inspect.getmembers(kind, inspect.isfunction):
            if name.startswith("_") and name != "__init__":
                continue
            # an annotation of self is for methods that return it
            [_, *parameters] = [name for name in inspect.signature(method).parameters]
            assert {*parameters, "return"} <= method.__annotations__.keys(), f"{kind.__name__}.{name}"
            assert method.__doc__ or name == "__init__", f"{kind.__name__}.{name}"


class Slotted:
    """Has all of a strategy but its name, and takes none."""

    __slots__ = ()

    def prepare(self, *_: object) -> None:
        """Nothing to learn."""

    def choose(self, *_: object) -> None:
        """Never anything."""


class Hostile:
    """Its text cannot be had."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")


# what users pass by mistake, and some of what is right
JUNK: tuple[Any, ...] = (
    *(None, True, 0, 1, -1, 3, 10**400, -(10**30), 0.0, 0.5, -0.5, 2.5, 1e308),
    *(math.nan, math.inf, -math.inf, Fraction(1, 3), 1j),
    *(
        "",
        " ",
        "a",
        "A",
        "s",
        "fifo",
        "chian",
        "x.py:Y",
        "operator:index",
        "5 s",
        "-5 s",
        "5 lightyears",
        "\0",
    ),
    *("64 MB", "q\nq", "nan", "<b>", "bigint", "é" * 100, "SELECT 1", "CREATE POOL p SLOTS 0"),
    *(b"bytes", [], [1], ["a"], [None], (), ("s",), {}, {"a": 1}, {"s": 0.5}, {"s": math.nan}, {"s": "x"}),
    *(
        {1: 2},
        {None: None},
        {"a": None},
        {"a": ["s"]},
        {"a": "s"},
        {"a": Profile()},
        {"a": Profile(math.nan)},
    ),
    *(
        set(),
        range(3),
        object(),
        Hostile(),
        object,
        int,
        Fifo,
        Fifo(),
        len,
        print,
        lambda *_: None,
        Path("x"),
    ),
    *(np.float64(0.5), np.int64(3), np.bool_(True), np.array([1, 2]), np.nan, pd.DataFrame({"v": [1]})),
    *(Measured({}), Profile(), KeyError("k"), sys, iter([len]), (x for x in [1])),
)
junk = st.sampled_from(JUNK) | st.floats() | st.integers() | st.text(max_size=20)
junk_tables = st.dictionaries(st.sampled_from(["s", "a", "A", "q", 1, None]), junk, max_size=2)
anything = junk | junk_tables | st.lists(junk, max_size=3)


def arguments_of(method: Callable[..., Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Values for some parameters of a method; those without a default always have one."""
    parameters = list(inspect.signature(method).parameters.values())
    required = {p.name: anything for p in parameters if p.default is inspect.Parameter.empty}
    optional = {p.name: anything for p in parameters if p.default is not inspect.Parameter.empty}
    return st.fixed_dictionaries(required, optional=optional)


def works_or_is_refused(call: Callable[..., Any], arguments: dict[str, Any]) -> None:
    try:
        call(*arguments.values()) if call is setattr else call(**arguments)
    except HeadgateError as error:
        # an error of CQL shows the text, whose line ends are the user's
        assert "\n" not in str(error).strip() or "<cql>" in str(error)


def public(kind: type, *others: str) -> list[str]:
    methods = inspect.getmembers(kind, inspect.isfunction)
    return [name for name, _ in methods if not name.startswith("_") and name not in others]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where whatever is written goes."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("library")
        patch.chdir(folder)
        patch.setattr("tempfile.tempdir", str(folder))
        yield folder


# profiles need a real run
@pytest.mark.slow
@pytest.mark.parametrize("name", public(Session, "profile", "sql", "plans", "network", "close"))
@settings(max_examples=500, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_no_argument_of_a_session_ends_in_a_stack_trace(folder: Path, name: str, data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        session = without_spark(patch, Session().execute(SCRIPT))
        session.measured = Measured(dict.fromkeys(session.network().operators, Profile(1e-3)), {"s": 10.0})
        method = getattr(session, name)
        works_or_is_refused(method, data.draw(arguments_of(method)))
        # whatever happened, it is of use
        assert "a" in session.network().queries and repr(session)
        if session.run is not None:
            session.run.stop()
        assert session.start().is_running
        session.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", public(Run, "watch"))
@settings(max_examples=500, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_no_argument_of_a_run_ends_in_a_stack_trace(folder: Path, name: str, data: st.DataObject) -> None:
    run, behind = a_run(folder / "state")
    # nothing is waited for
    if name in ("wait", "run_for") or data.draw(st.booleans()):
        behind.over.set()
    method = getattr(run, name)
    works_or_is_refused(method, data.draw(arguments_of(method)))
    assert repr(run)


@given(anything, anything, anything)
def test_no_argument_elsewhere_ends_in_a_stack_trace(one: Any, two: Any, three: Any) -> None:
    works_or_is_refused(Session, {"spark": object() if one is None else one, "master": two})
    works_or_is_refused(setattr, {"object": Session(), "name": "measured", "value": three})
    works_or_is_refused(Measured.read, {"path": one})
    if isinstance(two, str):
        works_or_is_refused(Measured.from_json, {"text": two, "origin": "here"})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"until_done": "yes"}, "until_done = 'yes' is wrong; write True or False"),
        ({"memory": -1}, "memory = -1 is wrong; write a number of bytes, or a text such as '64 MB'"),
        ({"memory": "64 lightyears"}, "memory: unknown unit 'lightyears' of a size"),
        ({"memory": 0}, "memory must be more than 0 bytes"),
        ({"tick_budget": math.nan}, "tick_budget = nan is wrong; write a number of seconds"),
        ({"tick_budget": "0 s"}, "tick_budget must be more than 0 s"),
        ({"checkpoint": 7}, "checkpoint = 7 is wrong; write the path of a folder"),
        ({"observers": print}, r"observers = .* is wrong; write a list of functions: observers=\[note\]"),
        ({"observers": ["note"]}, "an observer = 'note' is wrong; pass a function"),
        ({"strategy": Fifo}, r"strategy = .* is wrong; pass an object of the class: Fifo\(\)"),
        (
            {"strategy": 5},
            "strategy = 5 is wrong; pass a name or an object with the methods prepare and choose",
        ),
        (
            {"routing": object()},
            "routing = .* is wrong; pass a name or an object with the methods prepare and",
        ),
        ({"keep": {"s": 2}}, r"keep\['s'\] = 2 is wrong; write a share from 0 to 1"),
        ({"keep": 0.5}, r"keep = 0.5 is wrong; write keep={'stream': 0.5}"),
        ({"seed": 1.5}, "seed = 1.5 is wrong; write a whole number such as 7"),
        ({"orders": {"a": "s"}}, r"orders\['a'\] = 's' is wrong; write orders={'query': \['a', 'b'\]}"),
        ({"profiles": Measured({})}, "profiles = .* is wrong; write profiles=session.measured.profiles"),
        ({"profiles": {"a": Profile(-1.0)}}, r"profiles\['a'\].seconds_per_tuple = -1.0 is wrong"),
    ],
)
def test_a_refusal_names_the_argument_and_what_would_be_right(
    monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], message: str
) -> None:
    session = without_spark(monkeypatch, Session().execute(SCRIPT))
    with pytest.raises(headgate.SetupError, match=message):
        session.start(**arguments)
    assert session.run is None

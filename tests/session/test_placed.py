"""Functions by their place, and what of them can be placed."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pytest

from headgate.errors import QueryError, SetupError
from headgate.routing import RoutingView
from headgate.routing.policies import Optimal
from headgate.session.placed import located_function, plain_function, router_for_run


def test_a_function_of_a_file_travels_by_value(tmp_path: Path) -> None:
    path = tmp_path / "services.py"
    path.write_text("SHIFT = 3\ndef shifted(v):\n    return v + SHIFT\n")
    function = located_function(f"{path}:shifted")
    from headgate.spark.eddies.task import pickled

    sent = pickled(function)
    # a task has never heard of the file
    del sys.modules[function.__module__]
    assert pickle.loads(sent)(4) == 7


def test_a_function_of_a_module_is_imported() -> None:
    assert located_function("math:sqrt")(9) == 3


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("nowhere.py:f", "no such file: nowhere.py"),
        ("math:nothing", "math has no function nothing; functions: acos"),
        ("no_such_module:f", "no_such_module cannot be imported: ModuleNotFoundError"),
    ],
)
def test_what_is_wrong_with_a_place_is_told(location: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        located_function(location)


def test_a_file_that_does_not_run_is_told(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("1 / 0\n")
    with pytest.raises(QueryError, match=r"broken\.py cannot be imported: ZeroDivisionError"):
        located_function(f"{tmp_path}/broken.py:f")


def test_a_plain_function_is_called_as_it_is() -> None:
    assert plain_function(len) is len


def test_weights_are_solved_in_the_time_of_runs() -> None:
    router = router_for_run("optimal")
    assert isinstance(router, Optimal)
    assert router.every_s <= 5


def test_a_router_of_the_users_is_made_from_its_class(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "class Last:\n"
        "    def prepare(self, network): pass\n"
        "    def route(self, done, eligible, view): return {eligible[-1]: 1.0}\n"
        "    def learn(self, outcome): pass\n"
    )
    router = router_for_run(f"{path}:Last")
    assert (router.name, router.route((), ["a", "b"], RoutingView({}))) == ("Last", {"b": 1.0})


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("class Mine:\n    pass\n", "mine.py:Mine does not create a router: Mine has no method prepare"),
        (
            "class Mine:\n    def __init__(self, a):\n        pass\n",
            "mine.py:Mine does not create a router: TypeError",
        ),
    ],
)
def test_what_makes_no_router_is_refused(tmp_path: Path, code: str, message: str) -> None:
    (tmp_path / "mine.py").write_text(code)
    with pytest.raises(SetupError, match=message):
        router_for_run(f"{tmp_path}/mine.py:Mine")

"""Whose fault the failure of a Spark job is, by its text; without Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import partial
from operator import eq
from typing import Any
from unittest.mock import Mock

import pytest

from headgate import Session
from headgate.errors import SetupError, UserCodeError
from headgate.runtime.usercode import user_code_error
from headgate.spark.file_system import local_path, normal_path
from headgate.spark.user_functions import blamed, registration
from headgate.spark.user_functions import declared as declared_function

ENDED = RuntimeError(
    "An error occurred while calling o9.save.\n: org.apache.spark.SparkException: Job aborted: "
    "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n\tat org.apache"
)


def declared(functions: Iterable[str], text: str) -> Session:
    session = Session()
    for name in functions:
        session.function(name, abs, "int")
    return session.execute(f"CREATE STREAM s (ts BIGINT, v INT) FROM rate; {text}")


@pytest.mark.parametrize(
    ("text", "called"),
    [
        ("CREATE QUERY q AS SELECT f(v) AS x FROM s", "function f in query q"),
        (
            "CREATE QUERY q AS SELECT F(v) AS x FROM s; CREATE QUERY r AS SELECT g(v) AS x FROM s",
            "function f in query q or function g in query r",
        ),
        (
            "CREATE POOL one SLOTS 1; PLACE f ON one; CREATE QUERY q AS SELECT v FROM s WHERE f(v) > 3",
            "function f in query q",
        ),
    ],
)
def test_a_python_process_that_has_ended_is_that_of_the_functions_called(text: str, called: str) -> None:
    session = declared("fgh", text)
    found = blamed(ENDED, session.network(), session._functions)
    assert isinstance(found, UserCodeError)
    assert str(found) == f"the Python process that calls {called} has ended: it exited, crashed or was killed"


def test_or_that_of_a_generated_stream() -> None:
    session = Session().function("f", abs, "int")
    session.execute("CREATE STREAM s FROM burst; CREATE QUERY q AS SELECT f(bytes) AS x FROM s")
    found = blamed(ENDED, session.network(), session._functions)
    assert "that calls function f in query q or generates stream s has ended" in str(found)


def test_without_functions_it_is_an_error_of_sparks() -> None:
    session = declared("f", "CREATE QUERY q AS SELECT v FROM s")
    assert blamed(ENDED, session.network(), session._functions) is ENDED


@pytest.mark.parametrize("make", [lambda lock: lambda v: lock.locked(), lambda lock: partial(eq, lock)])
def test_a_function_that_cannot_be_pickled_is_named_and_not_registered(
    make: Callable[[Any], Callable[..., Any]],
) -> None:
    spark = Mock()
    register = registration("f", make(threading.Lock()), "boolean", is_aggregate=False)
    with pytest.raises(SetupError, match=r"^function f cannot be sent to Python workers: .*_thread.lock"):
        register(spark)
    spark.udf.register.assert_not_called()


def test_stop_iteration_is_an_error_of_the_function() -> None:
    called = declared_function("f", lambda v: next(iter(())), "int")
    with pytest.raises(RuntimeError, match=r"^StopIteration$"):
        called(1)


class Mute(Exception):
    """An error that fails to describe itself."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_an_error_that_fails_to_describe_itself_is_named_by_its_class() -> None:
    assert str(user_code_error("callback f", Mute())) == "callback f raised Mute"


@pytest.mark.parametrize(
    ("path", "local", "normal"),
    [
        ("file:///in/a#1 b?.csv", "/in/a#1 b?.csv", "/in/a#1 b?.csv"),
        ("file:/in/c%20d.csv", "/in/c%20d.csv", "/in/c d.csv"),
        ("/in/[e].csv", "/in/[e].csv", "/in/[e].csv"),
    ],
)
def test_all_letters_of_a_path_belong_to_the_name(path: str, local: str, normal: str) -> None:
    assert (str(local_path(path)), normal_path(path)) == (local, normal)

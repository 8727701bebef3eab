"""Whose fault the failure of a Spark job is, by its text; without Spark."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from headgate import Session
from headgate.errors import UserCodeError
from headgate.spark.user_functions import blamed

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


def test_without_functions_it_is_an_error_of_sparks() -> None:
    session = declared("f", "CREATE QUERY q AS SELECT v FROM s")
    assert blamed(ENDED, session.network(), session._functions) is ENDED

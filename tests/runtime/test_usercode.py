"""Code of the user's that raises, exits, hangs or answers nonsense is named in one line."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.runtime.networks import chains
from tests.runtime.test_drive import OneTick

from headgate.cli.app import describe_failure
from headgate.errors import UserCodeError
from headgate.model.event import Event, TuplesArrived
from headgate.model.view import SystemView, Turn
from headgate.routing.policies import RoutingView
from headgate.runtime import usercode
from headgate.runtime.drive import drive, guarded, notify
from headgate.runtime.usercode import Guarded, routed, user_code_error_in


def raises() -> None:
    raise ValueError("two\nlines")


def exits() -> None:
    sys.exit(3)


def interrupts() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("function", "deed"),
    [
        (raises, "raised ValueError: two lines"),
        (exits, "called sys.exit(3)"),
        (interrupts, "raised KeyboardInterrupt"),
    ],
)
def test_what_a_call_raises_is_one_line_with_its_place(function: Callable[[], None], deed: str) -> None:
    line = function.__code__.co_firstlineno + 1
    with pytest.raises(UserCodeError) as caught:
        Guarded("callback f of query q", function)()
    assert str(caught.value) == f"callback f of query q {deed} ({__file__}:{line})"
    assert describe_failure(caught.value) == (f"error: {caught.value}", 1)


def test_the_place_is_the_users_own_line_even_if_a_library_raises() -> None:
    def parse() -> None:
        import json

        json.loads("{")

    with pytest.raises(UserCodeError, match=rf"raised JSONDecodeError: .* \({__file__}:\d+\)$"):
        Guarded("callback f of query q", parse)()


def test_a_call_beyond_its_time_limit_is_given_up_and_says_where_it_is_stuck() -> None:
    release = threading.Event()
    with pytest.raises(UserCodeError) as caught:
        Guarded("callback f of query q", release.wait, timeout_s=0.1)(30)
    release.set()
    assert str(caught.value).startswith("callback f of query q has not returned within 0.1 s")


def test_a_run_that_is_stopped_waits_for_a_grace_period_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usercode, "STOP_GRACE_S", 0.1)
    release = threading.Event()

    def hangs() -> None:
        release.wait(30)

    call = Guarded("callback f of query q", hangs)
    threading.Timer(0.1, call.hurry).start()
    with pytest.raises(UserCodeError) as caught:
        call()
    release.set()
    assert str(caught.value).startswith(
        "callback f of query q has not returned 0.1 s after the run was stopped ("
    )
    assert __file__ in str(caught.value)


def test_all_calls_are_made_on_one_thread_and_answers_keep_their_order() -> None:
    seen: list[tuple[int, int]] = []
    call = Guarded("callback", lambda n: seen.append((n, threading.get_ident())))
    for number in range(5):
        call(number)
    assert [n for n, _ in seen] == list(range(5)) and len({ident for _, ident in seen}) == 1


@pytest.mark.parametrize("is_guarded", [True, False])
def test_an_observer_that_exits_is_named_and_unplugged(
    caplog: pytest.LogCaptureFixture, is_guarded: bool
) -> None:
    seen: list[Event] = []

    def leaves(event: Event) -> None:
        sys.exit("enough")

    observers = [*(guarded([leaves]) if is_guarded else [leaves]), seen.append]
    with caplog.at_level(logging.WARNING, logger="headgate"):
        for _ in range(2):
            notify(observers, TuplesArrived(0.0, {}))
    assert len(seen) == 2
    [record] = caplog.records
    assert "leaves called sys.exit(enough)" in record.message and __file__ in record.message
    assert record.exc_info is None


class Wayward:
    """A strategy that does what it is given."""

    name = "wayward"

    def __init__(self, choose: Callable[[SystemView], Any]) -> None:
        self.choose = choose

    def prepare(self, network: object, profiles: object) -> None:
        pass


@pytest.mark.parametrize(
    ("choose", "told"),
    [
        (lambda view: 1 / 0, "strategy wayward raised ZeroDivisionError: division by zero"),
        (lambda view: sys.exit(), r"strategy wayward called sys.exit\(\) \("),
        (lambda view: "o", r"strategy wayward chose 'o' \(str\); choose must return a Turn or None"),
        (
            lambda view: Turn(("nobody",), 1.0),
            "strategy wayward chose a turn of operator 'nobody'; operators: ",
        ),
        (lambda view: Turn((), 1.0), "strategy wayward chose a turn of no operator"),
    ],
)
def test_a_strategy_that_raises_or_answers_nonsense_is_named(choose: Callable[..., Any], told: str) -> None:
    engine = OneTick(chains(2), [TuplesArrived(0.0, {})])
    with pytest.raises(UserCodeError, match=told):
        drive(engine, Wayward(choose))


class Lost:
    """A router that answers what it is given."""

    name = "lost"

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def prepare(self, network: object) -> None:
        pass

    def learn(self, outcome: object) -> None:
        pass

    def route(self, done: object, eligible: object, view: object) -> Any:
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer


@pytest.mark.parametrize(
    "answer", [None, "a", {}, {"a": 0.0}, {"a": -1.0, "b": 2.0}, {"c": 1.0}, {"a": "1"}, {"a": float("nan")}]
)
def test_a_router_that_answers_nonsense_is_named(answer: Any) -> None:
    with pytest.raises(UserCodeError, match=r"router lost returned .*; route must return weights.* of a, b"):
        routed(Lost(answer), (), ["a", "b"], RoutingView({}))


def test_a_router_that_raises_is_named_and_one_that_answers_is_left_alone() -> None:
    with pytest.raises(UserCodeError, match=r"router lost raised KeyError: 'x' \("):
        routed(Lost(KeyError("x")), (), ["a"], RoutingView({}))
    assert routed(Lost({"a": 1.0}), (), ["a"], RoutingView({})) == {"a": 1.0}


def test_the_text_of_a_traceback_is_read_like_the_traceback_itself() -> None:
    told = (
        "Traceback (most recent call last):\n"
        '  File "/x/pyspark/worker.py", line 5, in main\n    process()\n'
        '  File "/home/me/udfs.py", line 7, in half\n    return helper(x)\n'
        '  File "/home/me/helpers.py", line 3, in helper\n    1 / 0\n    ~~^~~\n'
        "ZeroDivisionError: division by zero\n\n\tat org.apache.spark.Task(Task.scala:1)"
    )
    found = user_code_error_in(told, lambda file, name: f"function {name}" if name == "half" else None)
    assert str(found) == "function half raised ZeroDivisionError: division by zero (/home/me/helpers.py:3)"
    assert user_code_error_in(told, lambda file, name: None) is None

"""What library users pass in: whatever is wrong is a ``SetupError`` that names the argument, in one line."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar

from sqlglot import exp
from sqlglot.errors import SqlglotError

from headgate.cql.measure import LARGEST, parse_bytes, parse_duration_us
from headgate.errors import SetupError
from headgate.model.join_order import JoinOrder
from headgate.model.profile import Profile, Profiles
from headgate.routing.policies import Router
from headgate.runtime.drive import Observer
from headgate.scheduling import Strategy, strategy_named
from headgate.session.placed import router_for_run

Value = TypeVar("Value")

_LONGEST = 60
# of tuples of one stream
_MOST_PER_S = 1e15


def wrong(what: str, given: object, right: str) -> SetupError:
    return SetupError(f"{what} = {_shown(given)} is wrong; {right}")


def _shown(given: object) -> str:
    """A value in one short line, whatever it makes of ``repr``."""
    try:
        text = " ".join(repr(given).split())
    except Exception:
        text = f"<{type(given).__name__}>"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def text(what: str, given: object, example: str) -> str:
    if not isinstance(given, str):
        raise wrong(what, given, f"write a text such as {example}")
    return given


def name(what: str, given: object, example: str) -> str:
    """A text that errors can show in one line."""
    if not isinstance(given, str) or not given.strip() or not given.isprintable():
        raise wrong(what, given, f"write a name such as {example}")
    return given


def flag(what: str, given: object) -> bool:
    if not isinstance(given, bool):
        raise wrong(what, given, "write True or False")
    return given


def function(what: str, given: Any) -> Callable[..., Any]:
    if not callable(given):
        raise wrong(what, given, "pass a function")
    found: Callable[..., Any] = given
    return found


def number(what: str, given: Any, right: str, least: float = 0.0, most: float = math.inf) -> float:
    """A number within its bounds, both included; numpy's are welcome, True and NaN are not."""
    if isinstance(given, bool) or not isinstance(given, Real):
        raise wrong(what, given, right)
    try:
        found = float(given)
    except OverflowError:
        found = math.nan
    if not least <= found <= most:
        raise wrong(what, given, right)
    return found


def whole(what: str, given: Any, least: int, example: int) -> int:
    if isinstance(given, bool) or not isinstance(given, Integral) or not least <= int(given) <= LARGEST:
        raise wrong(what, given, f"write a whole number such as {example}")
    return int(given)


def seconds(what: str, given: object) -> float:
    """A duration of 0 or more: a number of seconds, or a text such as '500 ms'."""
    if isinstance(given, str):
        return _measured(what, given, parse_duration_us) / 1e6
    return number(what, given, "write a number of seconds, or a text such as '500 ms'")


def positive_seconds(what: str, given: object, most: float = math.inf) -> float:
    found = seconds(what, given)
    if not 0 < found <= most:
        limit = "" if most == math.inf else f", and at most {most:g} s"
        raise SetupError(f"{what} must be more than 0 s{limit}")
    return found


def duration_us(what: str, given: object) -> int:
    """A duration of 0 or more in microseconds; it must have an end."""
    found = seconds(what, given) * 1e6
    if found > LARGEST:
        raise wrong(what, given, "write a number of seconds, or a text such as '500 ms'")
    return round(found)


def size_bytes(what: str, given: object) -> float:
    """A size above 0: a number of bytes, or a text such as '64 MB'."""
    is_text = isinstance(given, str)
    right = "write a number of bytes, or a text such as '64 MB'"
    found = float(_measured(what, str(given), parse_bytes)) if is_text else number(what, given, right)
    if found == 0:
        raise SetupError(f"{what} must be more than 0 bytes")
    return found


def _measured(what: str, given: str, read: Callable[[str], int]) -> int:
    try:
        return read(given)
    except ValueError as error:
        raise SetupError(f"{what}: {error}") from None


def by_name(what: str, given: Any, example: str, check: Callable[[str, object], Value]) -> dict[str, Value]:
    """A dict with names as keys; ``check`` takes what to call a value, and the value."""
    if not isinstance(given, Mapping):
        raise wrong(what, given, f"write {example}")
    for name in given:
        if not isinstance(name, str):
            raise wrong(f"a key of {what}", name, f"write {example}")
    return {name: check(f"{what}[{name!r}]", value) for name, value in given.items()}


def ratios(given: Any) -> dict[str, float]:
    """Keep ratios by stream."""

    def check(what: str, value: object) -> float:
        return number(what, value, "write a share from 0 to 1", most=1.0)

    return by_name("keep", given, "keep={'stream': 0.5}", check)


def rates(given: Any) -> dict[str, float]:
    """Tuples per second by stream."""

    def check(what: str, value: object) -> float:
        return number(what, value, "write tuples per second, as in 1000", most=_MOST_PER_S)

    return by_name("rates", given, "rates={'stream': 1000}", check)


def orders(given: Any) -> dict[str, JoinOrder]:
    """Aliases in the order to join them, by query; nested where a plan is bushy."""
    example = "orders={'query': ['a', 'b']}"

    def check(what: str, value: Any) -> JoinOrder:
        try:
            return JoinOrder.of(value)
        except ValueError:
            raise wrong(what, value, f"write {example}") from None

    return by_name("orders", given, example, check)


def profiles(given: Any) -> Profiles:
    """Profiles by operator, none of which is negative or not a number."""

    def check(what: str, value: object) -> Profile:
        if not isinstance(value, Profile):
            raise wrong(what, value, "pass the profiles of an operator, as in session.measured.profiles")
        for field, amount in vars(value).items():
            # of what too few ticks have measured, nothing is known about the error
            is_unknown = field.endswith("_error") and amount == float("inf")
            if not is_unknown:
                number(f"{what}.{field}", amount, "write a number of 0 or more", most=LARGEST)
        return value

    return by_name("profiles", given, "profiles=session.measured.profiles", check)


def folder(what: str, given: Any) -> str | Path:
    path = os.fspath(given) if isinstance(given, os.PathLike) else given
    if not isinstance(path, str) or not path.strip() or "\0" in path:
        raise wrong(what, given, "write the path of a folder, or an address such as s3a://bucket/state")
    return path


def strategy(given: Any) -> Strategy:
    """A strategy by name, or an object of the user's that has all it takes."""
    if isinstance(given, str):
        return strategy_named(name("strategy", given, "'chain'"))
    _check_object("strategy", given, "prepare", "choose")
    own: Strategy = given
    return own


def router(given: Any) -> Router:
    """A router by the name of its policy or its place in a file, or an object of the user's."""
    if isinstance(given, str):
        return router_for_run(name("routing", given, "'optimal'"))
    _check_object("routing", given, "prepare", "route", "learn")
    own: Router = given
    return own


def _check_object(what: str, given: Any, *methods: str) -> None:
    if isinstance(given, type):
        raise wrong(what, given, f"pass an object of the class: {given.__name__}()")
    missing = [name for name in methods if not callable(getattr(given, name, None))]
    if missing:
        needed = f"an object with the methods {' and '.join(methods)}"
        raise wrong(what, given, f"pass a name or {needed}; it has no {missing[0]}")
    if not hasattr(given, "name"):
        try:
            given.name = type(given).__name__
        except AttributeError:
            raise wrong(what, given, "give it an attribute name, for messages") from None


def observers(given: Any) -> tuple[Observer, ...]:
    if callable(given) or not isinstance(given, Iterable):
        raise wrong("observers", given, "write a list of functions: observers=[note]")
    found = tuple(given)
    for observer in found:
        function("an observer", observer)
    return found


def data_type(what: str, given: Any) -> str:
    """A type of Spark: its name in SQL, or an object of ``pyspark.sql.types``."""
    written = given.simpleString() if callable(getattr(given, "simpleString", None)) else given
    right = "write a type of Spark such as 'bigint'"
    if isinstance(given, type) or not isinstance(written, str):
        raise wrong(what, given, right)
    try:
        exp.DataType.build(written, dialect="spark")
    except SqlglotError:
        raise wrong(what, given, right) from None
    return written

"""Python code of the user's inside of a run: reported as theirs if it fails, and not waited for for ever."""

from __future__ import annotations

import queue
import re
import sys
import sysconfig
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Sequence
from math import inf
from pathlib import Path
from typing import Any

from headgate.errors import HeadgateError, UserCodeError
from headgate.routing.router import Router, RoutingView

STOP_GRACE_S = 10.0
"""How long a run that is being stopped waits for a call of the user's code."""

_OURS = str(Path(__file__).parents[1])
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_TOLD_FRAME = re.compile(r'^ *File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)$', re.MULTILINE)
_RAISED = re.compile(r"^(?P<kind>[A-Za-z_][\w.]*)(?:: (?P<text>.*))?$", re.MULTILINE)
_POLL_S = 0.05


def user_code_error(what: str, error: BaseException) -> UserCodeError:
    """One line: whose code, what it raised, and where."""
    if isinstance(error, UserCodeError):
        return error
    frames = [(f.filename, f.lineno or 0) for f in traceback.extract_tb(error.__traceback__)]
    return UserCodeError(f"{what} {_deed(type(error).__name__, str(error))}{_place(frames)}")


def user_code_error_in(told: str, what: Callable[[str, str], str | None]) -> UserCodeError | None:
    """The same from the text of a traceback, if it passes through code that ``what`` has a name for.

    ``what`` gets the file and the function of a frame.
    """
    found = list(_TOLD_FRAME.finditer(told))
    names = [name for frame in found if (name := what(frame["file"], frame["function"])) is not None]
    if not names:
        return None
    last = next(
        (line for line in told[found[-1].end() :].splitlines() if re.match(r"[\w.]+(: |$)", line)), ""
    )
    kind, _, text = last.partition(": ")
    frames = [(frame["file"], int(frame["line"])) for frame in found]
    deed = _deed(kind.rpartition(".")[2] or "an exception", text)
    return UserCodeError(f"{names[-1]} {deed}{_place(frames)}")


def is_from_user(error: BaseException) -> bool:
    """Whether the error passed through a file that is neither ours nor a library's."""
    frames = traceback.extract_tb(error.__traceback__)
    return not isinstance(error, HeadgateError) and any(_is_users(frame.filename) for frame in frames)


def routed(
    router: Router, done: Collection[str], eligible: Sequence[str], view: RoutingView
) -> dict[str, float]:
    """What a router answers, made sure of: one of the user's may answer anything."""
    what = f"router {getattr(router, 'name', name_of(router))}"
    try:
        # a dict of numbers, if it keeps to the protocol
        weights: Any = router.route(done, eligible, view)
    except (Exception, SystemExit) as error:
        if is_from_user(error):
            raise user_code_error(what, error) from error
        raise
    try:
        known = all(name in eligible and weight >= 0 for name, weight in weights.items())
        is_usable = known and 0 < sum(weights.values()) < inf
    except Exception:
        is_usable = False
    if not is_usable:
        wanted = f"weights, not all of them 0, of {', '.join(eligible)}"
        raise UserCodeError(f"{what} returned {weights!r}; route must return {wanted}")
    checked: dict[str, float] = weights
    return checked


def name_of(function: Any) -> str:
    """A function, or an object that can be called, as its author knows it."""
    return str(getattr(function, "__qualname__", type(function).__qualname__)).replace("<locals>.", "")


def _deed(kind: str, text: str) -> str:
    text = " ".join(text.split())
    if kind == "SystemExit":
        return f"called sys.exit({text})"
    return f"raised {kind}: {text}" if text else f"raised {kind}"


def _place(frames: Iterable[tuple[str, int]]) -> str:
    own = [(file, line) for file, line in frames if _is_users(file)]
    return f" ({own[-1][0]}:{own[-1][1]})" if own else ""


def _is_users(file: str) -> bool:
    if file.startswith(_OURS) or "/pyspark/" in file or file.startswith("<frozen"):
        return False
    return not file.startswith(_LIBRARIES)


class Guarded:
    """A function of the user's, called on a thread of its own.

    A call that takes longer than ``timeout_s``, or that still runs ``STOP_GRACE_S`` after ``hurry``, is given
    up: its thread cannot be ended and is left behind.
    """

    def __init__(self, what: str, function: Callable[..., Any], timeout_s: float | None = None) -> None:
        self.what = what
        self._function = function
        self._timeout_s = timeout_s
        self._calls: queue.SimpleQueue[tuple[tuple[Any, ...], _Answer]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._hurried_s: float | None = None

    def hurry(self) -> None:
        """The run is being stopped."""
        if self._hurried_s is None:
            self._hurried_s = time.monotonic()

    def __call__(self, *arguments: Any) -> None:
        """Call the function and wait for it; raises ``UserCodeError``."""
        if self._thread is None:
            # always the same one: what a function has opened may belong to its thread
            self._thread = threading.Thread(target=self._serve, name=f"headgate {self.what}", daemon=True)
            self._thread.start()
        answer, began_s = _Answer(), time.monotonic()
        self._calls.put((arguments, answer))
        while not answer.ready.wait(_POLL_S):
            self._check(began_s)
        if answer.error is not None:
            raise user_code_error(self.what, answer.error) from answer.error

    def _serve(self) -> None:
        while True:
            arguments, answer = self._calls.get()
            try:
                self._function(*arguments)
            except BaseException as error:
                answer.error = error
            answer.ready.set()
            del arguments, answer

    def _check(self, began_s: float) -> None:
        now_s = time.monotonic()
        if self._timeout_s is not None and now_s - began_s > self._timeout_s:
            raise UserCodeError(f"{self.what} has not returned within {self._timeout_s:g} s{self._where()}")
        if self._hurried_s is not None and now_s - max(began_s, self._hurried_s) > STOP_GRACE_S:
            raise UserCodeError(
                f"{self.what} has not returned {STOP_GRACE_S:g} s after the run was stopped{self._where()}"
            )

    def _where(self) -> str:
        """Where it is stuck."""
        frame = sys._current_frames().get(self._thread.ident or 0) if self._thread else None
        return _place((f.filename, f.lineno or 0) for f in traceback.extract_stack(frame)) if frame else ""


class _Answer:
    def __init__(self) -> None:
        self.ready = threading.Event()
        self.error: BaseException | None = None

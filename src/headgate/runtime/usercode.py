"""The user's Python code inside a run: its failures are reported as its own, and its calls may time out."""

from __future__ import annotations

import queue
import re
import sys
import sysconfig
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from itertools import dropwhile, takewhile
from math import inf
from pathlib import Path
from typing import Any

from headgate.errors import HeadgateError, UserCodeError
from headgate.routing.policies import Router, RoutingView

STOP_GRACE_S = 10.0
"""How long a run that is being stopped waits for a call of the user's code."""

_OURS = str(Path(__file__).parents[1])
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_FRAME = re.compile(r'^ *File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)$', re.MULTILINE)
_POLL_S = 0.05


def user_code_error(what: str, error: BaseException) -> UserCodeError:
    """One line: whose code, what it raised, and where."""
    if isinstance(error, UserCodeError):
        return error
    frames = [(f.filename, f.lineno or 0) for f in traceback.extract_tb(error.__traceback__)]
    return UserCodeError(f"{what} {_action(type(error).__name__, _text(error))}{_place(frames)}")


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        # an error of the user's may fail to describe itself
        return ""


def user_code_error_in(trace: str, what: Callable[[str, str], str | None]) -> UserCodeError | None:
    """The same from the text of a traceback, if ``what`` names the file and function of one of its frames."""
    found = list(_FRAME.finditer(trace))
    names = [name for frame in found if (name := what(frame["file"], frame["function"])) is not None]
    if not names:
        return None
    below = trace[found[-1].end() :].splitlines()
    message = dropwhile(lambda line: not re.match(r"[\w.]+(: |$)", line), below)
    # up to an empty line, or the frames of Java
    whole = "\n".join(takewhile(lambda line: line.strip() and not line.startswith("\t"), message))
    kind, _, text = whole.partition(": ")
    frames = [(frame["file"], int(frame["line"])) for frame in found]
    action = _action(kind.rpartition(".")[2] or "an exception", text)
    return UserCodeError(f"{names[-1]} {action}{_place(frames)}")


def is_from_user(error: BaseException) -> bool:
    """Whether the error passed through a file that is neither ours nor a library's."""
    frames = traceback.extract_tb(error.__traceback__)
    return not isinstance(error, HeadgateError) and any(_is_users(frame.filename) for frame in frames)


@contextmanager
def blaming(what: str) -> Iterator[None]:
    """Report what code of the user's raises as its own; a defect of ours stays one."""
    try:
        yield
    except (Exception, SystemExit) as error:
        if is_from_user(error):
            raise user_code_error(what, error) from error
        raise


def routed(
    router: Router, done: Collection[str], eligible: Sequence[str], view: RoutingView
) -> dict[str, float]:
    """The weights that a router returns, checked: one of the user's may return anything."""
    what = f"router {getattr(router, 'name', name_of(router))}"
    with blaming(what):
        weights: Any = router.route(done, eligible, view)
    try:
        known = all(name in eligible and weight >= 0 for name, weight in weights.items())
        is_usable = known and 0 < sum(weights.values()) < inf
    except Exception:
        is_usable = False
    if not is_usable:
        wanted = f"weights, not all of them 0, of {', '.join(eligible)}"
        raise UserCodeError(f"{what} returned {weights!r}; route must return {wanted}")
    return dict(weights)


def name_of(function: Any) -> str:
    """The name of a function or of another callable object, as its author knows it."""
    return str(getattr(function, "__qualname__", type(function).__qualname__)).replace("<locals>.", "")


def _action(kind: str, text: str) -> str:
    text = " ".join(text.split())
    if kind == "SystemExit":
        return f"called sys.exit({text})"
    return f"raised {kind}: {text}" if text else f"raised {kind}"


def _place(frames: Iterable[tuple[str, int]]) -> str:
    own = [(file, line) for file, line in frames if _is_users(file)]
    return f" ({own[-1][0]}:{own[-1][1]})" if own else ""


def _is_users(file: str) -> bool:
    return not (file.startswith((_OURS, "<frozen", *_LIBRARIES)) or "/pyspark/" in file)


class Guarded:
    """A function of the user's, called on a thread of its own.

    A call that takes longer than ``timeout_s``, or still runs ``STOP_GRACE_S`` after ``hurry``, is abandoned
    with its thread, which Python cannot end.
    """

    def __init__(self, what: str, function: Callable[..., Any], timeout_s: float | None = None) -> None:
        self.what = what
        self._function = function
        self._timeout_s = timeout_s
        self._calls: queue.SimpleQueue[tuple[tuple[Any, ...], Future[None]]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._hurried_s = inf

    def hurry(self) -> None:
        """Give the calls a last grace period: the run is being stopped."""
        self._hurried_s = min(self._hurried_s, time.monotonic())

    def __call__(self, *arguments: Any) -> None:
        """Call the function and wait for it; raises ``UserCodeError``."""
        if self._thread is None:
            # always the same thread: what a function has opened may belong to it
            self._thread = threading.Thread(target=self._serve, name=f"headgate {self.what}", daemon=True)
            self._thread.start()
        answer, began_s = Future[None](), time.monotonic()
        self._calls.put((arguments, answer))
        while not wait([answer], _POLL_S).done:
            self._check(began_s)
        if (error := answer.exception()) is not None:
            raise user_code_error(self.what, error) from error

    def _serve(self) -> None:
        while True:
            arguments, answer = self._calls.get()
            try:
                self._function(*arguments)
                answer.set_result(None)
            except BaseException as error:
                answer.set_exception(error)
            del arguments, answer

    def _check(self, began_s: float) -> None:
        now_s = time.monotonic()
        if self._timeout_s is not None and now_s - began_s > self._timeout_s:
            raise UserCodeError(f"{self.what} has not returned within {self._timeout_s:g} s{self._where()}")
        if now_s - max(began_s, self._hurried_s) > STOP_GRACE_S:
            late = f"{STOP_GRACE_S:g} s after the run was stopped"
            raise UserCodeError(f"{self.what} has not returned {late}{self._where()}")

    def _where(self) -> str:
        frame = sys._current_frames().get(self._thread.ident or 0) if self._thread else None
        return _place((f.filename, f.lineno or 0) for f in traceback.extract_stack(frame)) if frame else ""

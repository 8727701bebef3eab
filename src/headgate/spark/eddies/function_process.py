"""Calls of CPU-bound functions in processes of their own, so that the slots of a pool mean parallel work.

A process ends with the one that has started it, even in the middle of a call.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from pyspark import cloudpickle

from headgate.errors import UserCodeError
from headgate.runtime.usercode import user_code_error

_GONE = (OSError, EOFError)
# of processes that end before their first call, such as where memory is short
_ATTEMPTS = 3
_END_S = 5.0


class _EndedBefore(Exception):
    """A process has ended before a call, which it had no part in."""


class FunctionProcess:
    """A process that makes one call at a time; it keeps functions, and what they have loaded."""

    def __init__(self) -> None:
        self._connection, calls = Pipe()
        alive, self._alive = os.pipe()
        descriptors = [calls.fileno(), alive]
        command = [sys.executable, "-m", __name__, *map(str, descriptors)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        with calls:
            try:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, env=environment, pass_fds=descriptors
                )
            finally:
                os.close(alive)
        self._numbers: dict[bytes, int] = {}

    def call(self, name: str, function: bytes, arguments: list[Any]) -> Any:
        """What a pickled function returns; what it raises, or its end, is an error of the user's code."""
        # a function is sent once
        sent = None if function in self._numbers else function
        number = self._numbers.setdefault(function, len(self._numbers))
        try:
            self._connection.send((name, number, sent, arguments))
            # the process has the call, and is about to make it
            self._connection.recv()
        except _GONE:
            raise _EndedBefore(self._exit()) from None
        try:
            error, value = self._connection.recv()
        except _GONE:
            raise UserCodeError(f"placed function {name} ended its process: {self._exit()}") from None
        if error is not None:
            raise UserCodeError(error)
        return pickle.loads(value)

    def _exit(self) -> str:
        try:
            code = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return "it has closed its connection"
        if code >= 0:
            return f"exit code {code}"
        # some have a number only
        known = {one.value: one.name for one in signal.Signals}
        return f"signal {known.get(-code, -code)}"

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        """End the process, which makes no call."""
        self._connection.close()
        os.close(self._alive)
        self._process.wait()


class FunctionProcesses:
    """Processes for concurrent calls, started when needed, and kept for later calls; thread-safe."""

    def __init__(self) -> None:
        self._idle: list[FunctionProcess] = []
        self._lock = threading.Lock()

    def call(self, name: str, function: bytes, arguments: list[Any]) -> Any:
        for _ in range(_ATTEMPTS):
            process = self._take()
            try:
                return process.call(name, function, arguments)
            except _EndedBefore as ended:
                # idle processes that have ended say nothing of new ones
                self._close_dead()
                reason = str(ended)
            finally:
                with self._lock:
                    self._idle.append(process)
        raise UserCodeError(f"placed function {name} is not called: its process ends before that: {reason}")

    def _close_dead(self) -> None:
        with self._lock:
            dead = [process for process in self._idle if not process.is_alive]
            self._idle = [process for process in self._idle if process not in dead]
        for process in dead:
            process.close()

    def _take(self) -> FunctionProcess:
        with self._lock:
            while self._idle:
                # the one used last: others may never be needed again
                process = self._idle.pop()
                if process.is_alive:
                    return process
                process.close()
        return FunctionProcess()

    def close(self) -> None:
        """End the processes that make no call."""
        with self._lock:
            while self._idle:
                self._idle.pop().close()


def _end_with(descriptor: int) -> None:
    """End this process when the other end of a pipe is closed, whatever it is doing."""
    # by the default action of SIGIO: a call into C may keep all threads from running
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_ASYNC)
    # where SIGIO is ignored by default, or the pipe was closed before
    threading.Thread(target=_exit_at_end, args=(descriptor,), daemon=True).start()


def _exit_at_end(descriptor: int) -> None:
    os.read(descriptor, 1)
    os._exit(0)


def _answer(
    functions: dict[int, Callable[..., Any]], name: str, number: int, sent: bytes | None, arguments: list[Any]
) -> tuple[str | None, bytes]:
    """An error, or a pickled result."""
    what = f"placed function {name}"
    try:
        if sent is not None:
            functions[number] = cloudpickle.loads(sent)
        value = functions[number](*arguments)
    except BaseException as error:
        return str(user_code_error(what, error)), b""
    try:
        result: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
        pickle.loads(result)
    except Exception as error:
        shown = f"{value!r} ({type(value).__name__})"
        return f"{what} returned {shown}, which no other process can read: {error}", b""
    return None, result


def serve(connection: Connection) -> None:
    """Make the calls that are received, until the other end is closed."""
    functions: dict[int, Callable[..., Any]] = {}
    with suppress(*_GONE):
        while True:
            call = connection.recv()
            # what ends this process from here on is the function's doing
            connection.send(None)
            connection.send(_answer(functions, *call))


if __name__ == "__main__":
    _end_with(int(sys.argv[2]))
    serve(Connection(int(sys.argv[1])))

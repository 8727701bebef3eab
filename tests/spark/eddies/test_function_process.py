"""Calls in processes, without Spark: results, errors of the user's, parallel work, no process left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from headgate.errors import UserCodeError
from headgate.spark.eddies.function_process import FunctionProcesses
from headgate.spark.eddies.task import pickled

TIMEOUT_S = 60
Eventually = Callable[[Callable[[], bool], float], None]


@pytest.fixture
def processes() -> Iterator[FunctionProcesses]:
    made = FunctionProcesses()
    yield made
    made.close()


@pytest.fixture(scope="module")
def lasting_processes() -> Iterator[FunctionProcesses]:
    """For tests that leave them as they are after any call: starting one takes longer than the calls."""
    made = FunctionProcesses()
    yield made
    made.close()


def is_running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        threads = list(Path(f"/proc/{process}/task").iterdir())
    except FileNotFoundError:
        return False
    # the parent sees the end once the last thread is gone
    return state != "Z" or len(threads) > 1


def test_calls_at_a_time_are_made_in_as_many_processes_which_later_calls_use_again(
    processes: FunctionProcesses, tmp_path: Path
) -> None:
    def meets(own: int) -> int:
        """Return once the other call is in progress too, by a busy loop that never waits."""
        (tmp_path / str(own)).touch()
        while len(list(tmp_path.iterdir())) < 2:
            pass
        return os.getpid()

    function = pickled(meets)
    with ThreadPoolExecutor(2) as threads:
        both = list(threads.map(lambda own: processes.call("meets", function, [own]), range(2)))
    assert len({*both, os.getpid()}) == 3
    again = {processes.call("meets", function, [0]) for _ in range(5)}
    assert len(again) == 1 and again <= set(both)


def test_what_a_function_has_loaded_stays_with_its_process(lasting_processes: FunctionProcesses) -> None:
    seen: list[int] = []

    def counted(step: int) -> int:
        seen.append(step)
        return sum(seen)

    function = pickled(counted)
    assert [lasting_processes.call("counted", function, [step]) for step in (1, 2, 3)] == [1, 3, 6]
    assert not seen


def raises(value: int) -> bool:
    raise ValueError(f"no {value}")


def leaves(value: int) -> bool:
    os._exit(value)


def crashes(value: int) -> bool:
    os.kill(os.getpid(), signal.SIGSEGV)
    return True


def exits(value: int) -> bool:
    sys.exit(value)


def locks(value: int) -> Any:
    return threading.Lock()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (raises, rf"raised ValueError: no 7 \({re.escape(__file__)}:\d+\)"),
        (exits, rf"called sys.exit\(7\) \({re.escape(__file__)}:\d+\)"),
        (leaves, "ended its process: exit code 7"),
        (crashes, "ended its process: signal SIGSEGV"),
        (locks, r"returned <unlocked .*> \(lock\), which no other process can read: cannot pickle .*"),
    ],
)
def test_failures_name_the_function_and_others_go_on(
    lasting_processes: FunctionProcesses, function: Callable[[int], Any], message: str
) -> None:
    name = function.__name__
    with pytest.raises(UserCodeError, match=f"^placed function {name} {message}$"):
        lasting_processes.call(name, pickled(function), [7])
    assert lasting_processes.call("double", pickled(lambda value: 2 * value), [7]) == 14


def test_an_idle_process_that_is_killed_is_replaced_even_if_it_has_been_sent_a_call(
    processes: FunctionProcesses,
) -> None:
    own_process = pickled(os.getpid)
    for is_sent in (False, True):
        first: int = processes.call("own_process", own_process, [])
        # it takes no call any more
        os.kill(first, signal.SIGSTOP)
        with ThreadPoolExecutor(1) as thread:
            if is_sent:
                call = thread.submit(processes.call, "own_process", own_process, [])
            os.kill(first, signal.SIGKILL)
            second = call.result() if is_sent else processes.call("own_process", own_process, [])
        assert second != first


def test_processes_that_end_before_a_call_are_not_blamed_on_the_function(
    processes: FunctionProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(UserCodeError, match=r"^placed function f is not called: .*: exit code 1$"):
        processes.call("f", pickled(os.getpid), [])


def test_signals_without_a_name_are_numbers(processes: FunctionProcesses) -> None:
    def ends() -> None:
        os.kill(os.getpid(), signal.SIGRTMIN + 3)

    with pytest.raises(UserCodeError, match=f"ended its process: signal {signal.SIGRTMIN + 3}"):
        processes.call("ends", pickled(ends), [])


def hangs(folder: str, in_c: bool) -> None:
    (Path(folder) / "pid").write_text(str(os.getpid()))
    while not in_c:
        pass
    # takes years, and keeps other threads from running
    re.match(r"(a*)*b", "a" * 64)


HOLDER = """
import sys
from headgate.spark.eddies.function_process import FunctionProcess
from headgate.spark.eddies.task import pickled
from tests.spark.eddies.test_function_process import hangs
FunctionProcess().call("hangs", pickled(hangs), [sys.argv[1], sys.argv[2] == "C"])
"""


@pytest.mark.slow
@pytest.mark.parametrize("language", ["Python", "C"])
def test_a_process_ends_with_the_one_that_has_started_it_in_the_middle_of_a_call(
    tmp_path: Path, language: str, eventually: Eventually
) -> None:
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "src")])}
    command = [sys.executable, "-c", HOLDER, str(tmp_path), language]
    with subprocess.Popen(command, env=environment) as holder:
        eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text() != "", TIMEOUT_S)
        process = int((tmp_path / "pid").read_text())
        assert is_running(process)
        holder.kill()
    eventually(lambda: not is_running(process), TIMEOUT_S)


def test_closing_ends_processes_and_a_dead_one_is_replaced(
    processes: FunctionProcesses, eventually: Eventually
) -> None:
    own_process = pickled(os.getpid)
    first: int = processes.call("own_process", own_process, [])
    os.kill(first, signal.SIGKILL)
    eventually(lambda: not is_running(first), TIMEOUT_S)
    second: int = processes.call("own_process", own_process, [])
    assert second != first
    processes.close()
    assert not is_running(second)

"""One run per checkpoint, whoever died with its lock."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from headgate.errors import SetupError
from headgate.spark.file_system import Files
from headgate.spark.lock import Holder, RunLock, process_start

ALIVE = Holder("here", 100, "monday")
OTHER = Holder("here", 200, "tuesday")


def lock(folder: Path) -> RunLock:
    """In a world where two processes live."""
    return RunLock(Files(), str(folder), {100: "monday", 200: "tuesday"}.get)


def left_by(folder: Path, holder: Holder) -> None:
    (folder / "headgate.lock").write_text(json.dumps(asdict(holder)))


def holder(lock: RunLock) -> Holder | None:
    return Holder.parse(Path(lock.path).read_text())


def test_a_second_run_is_refused_by_host_and_process(tmp_path: Path) -> None:
    first = lock(tmp_path)
    first.acquire(ALIVE)
    with pytest.raises(SetupError) as refused:
        lock(tmp_path).acquire(OTHER)
    assert str(refused.value) == (
        f"checkpoint {tmp_path} is in use by process 100 on this host (here); "
        "stop it first, or choose another checkpoint"
    )
    assert holder(first) == ALIVE
    first.release()
    lock(tmp_path).acquire(OTHER)


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path: Path) -> None:
    left_by(tmp_path, Holder("here", 300, "sunday"))
    taken = lock(tmp_path)
    taken.acquire(ALIVE)
    assert holder(taken) == ALIVE
    assert [path.name for path in tmp_path.iterdir()] == ["headgate.lock"]


def test_another_process_with_the_id_of_a_dead_one_is_not_taken_for_it(tmp_path: Path) -> None:
    left_by(tmp_path, Holder("here", 200, "last year"))
    lock(tmp_path).acquire(ALIVE)


def test_a_lock_of_another_host_is_refused_with_how_to_remove_it(tmp_path: Path) -> None:
    left_by(tmp_path, Holder("there", 300, "sunday"))
    with pytest.raises(SetupError) as refused:
        lock(tmp_path).acquire(ALIVE)
    assert str(refused.value) == (
        f"checkpoint {tmp_path} is in use by process 300 on host there; "
        f"if that run is over, remove {tmp_path}/headgate.lock"
    )


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"[1]", b"[" * 100_000])
def test_a_lock_that_cannot_be_read_is_refused_with_how_to_remove_it(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "headgate.lock").write_bytes(content)
    with pytest.raises(SetupError, match=f"if no run uses it, remove {tmp_path}/headgate.lock"):
        lock(tmp_path).acquire(ALIVE)


def test_two_runs_of_one_process_are_told_apart(tmp_path: Path) -> None:
    first, second = lock(tmp_path), lock(tmp_path)
    first.acquire(ALIVE)
    with pytest.raises(SetupError, match=r"another run of this process \(100 on host here\)"):
        second.acquire(ALIVE)
    second.release()
    assert holder(first) == ALIVE


def test_a_lock_that_changed_hands_is_not_released(tmp_path: Path) -> None:
    first = lock(tmp_path)
    first.acquire(ALIVE)
    left_by(tmp_path, OTHER)
    first.release()
    assert holder(first) == OTHER


def test_a_live_lock_that_came_in_between_is_put_back(tmp_path: Path) -> None:
    dead = json.dumps(asdict(Holder("here", 300, "sunday")))
    left_by(tmp_path, OTHER)
    second = lock(tmp_path)
    assert not Files().exchange_text(second.path, dead, json.dumps(asdict(ALIVE)))
    assert holder(second) == OTHER


def test_a_process_is_known_by_its_start_while_it_lives() -> None:
    own = process_start(os.getpid())
    assert own is not None
    assert process_start(os.getpid()) == own
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert process_start(child.pid) not in (None, own)
        child.communicate(b"\n")
    assert process_start(child.pid) is None


def test_a_killed_process_leaves_a_lock_that_is_taken_over(tmp_path: Path) -> None:
    code = (
        "from headgate.spark.lock import RunLock; from headgate.spark.file_system import Files; "
        f"RunLock(Files(), {str(tmp_path)!r}).acquire(); print('locked', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None and child.stdout.readline() == "locked\n"
        mine = RunLock(Files(), str(tmp_path))
        with pytest.raises(SetupError, match=f"is in use by process {child.pid} on this host"):
            mine.acquire()
        child.kill()
    mine.acquire()
    found = holder(mine)
    assert found is not None and found.pid == os.getpid()

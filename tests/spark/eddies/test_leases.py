"""Leases of slots: never more than a pool has, whoever requests, releases or is lost."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import AuthenticationError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.model.network import PoolDefinition
from headgate.routing import router_named
from headgate.spark.eddies.leases import LeaseTable
from headgate.spark.eddies.pools import Pools
from headgate.spark.eddies.slot_server import SlotClient, SlotServer

Action = tuple[str, str, int]
ACTIONS = st.tuples(
    st.sampled_from(["request", "release", "take turns", "forget", "alter"]),
    st.sampled_from(["a", "b"]),
    st.integers(0, 3),
)


def executor_of(worker: int) -> int:
    return worker // 2


@given(st.lists(ACTIONS, max_size=60), st.sets(st.sampled_from(["a", "b"])))
def test_no_sequence_of_requests_leases_more_slots_or_processors_than_there_are(
    actions: list[Action], computing: set[str]
) -> None:
    slots = {"a": 1, "b": 2}
    table: LeaseTable[int] = LeaseTable(lambda: slots, computing, executor_of, processors=1)
    held: Counter[tuple[str, int]] = Counter()
    for kind, pool, worker in actions:
        before = sum(number for (name, _), number in held.items() if name == pool)
        granted: list[tuple[str, int]] = []
        if kind == "request":
            granted = table.request(pool, worker, worker % 2)
        elif kind == "forget":
            granted = table.forget(worker)
            held = Counter({key: number for key, number in held.items() if key[1] != worker})
        elif kind == "alter":
            slots[pool] = worker
            granted = table.grant()
        elif held[pool, worker]:
            held[pool, worker] -= 1
            granted = table.release(pool, worker) if kind == "release" else table.take_turns(pool, worker, 0)
        held.update(granted)
        busy = Counter(executor_of(own) for name, own in held.elements() if name in computing)
        assert max(busy.values(), default=0) <= 1
        assert table.grant() == [], "what is free has been granted"
        for name in slots:
            used = sum(number for (own, _), number in held.items() if own == name)
            assert table.used(name) == used
            # a pool with fewer slots than before grants nothing until enough leases have run out
            assert used <= max(slots[name], before if name == pool else used)


def test_workers_of_earlier_jobs_come_first_and_those_of_one_job_in_order() -> None:
    table: LeaseTable[str] = LeaseTable(lambda: {"a": 1})
    assert table.request("a", "first of job 1", 1) == [("a", "first of job 1")]
    for worker, job in (("of job 2", 2), ("second of job 1", 1)):
        assert table.request("a", worker, job) == []
    assert table.take_turns("a", "first of job 1", 1) == [("a", "second of job 1")]
    assert table.release("a", "second of job 1") == [("a", "first of job 1")]
    assert table.release("a", "first of job 1") == [("a", "of job 2")]


def test_a_slot_is_taken_again_only_if_its_worker_comes_first() -> None:
    table: LeaseTable[str] = LeaseTable(lambda: {"a": 1})
    table.request("a", "of job 1", 1)
    table.request("a", "of job 2", 2)
    assert table.take_turns("a", "of job 1", 1) == [("a", "of job 1")]


def test_a_slot_of_a_computing_pool_goes_to_an_executor_with_a_free_processor() -> None:
    slots = {"cores": 2, "service": 2}
    table: LeaseTable[int] = LeaseTable(lambda: slots, {"cores"}, executor_of)
    here, beside, elsewhere = 0, 1, 2
    assert table.request("cores", here, 1) == [("cores", here)]
    assert table.request("cores", beside, 1) == []
    # calls that wait for another system need no processor
    assert table.request("service", beside, 1) == [("service", beside)]
    assert table.request("cores", elsewhere, 2) == [("cores", elsewhere)]
    assert table.take_turns("cores", here, 1) == [("cores", beside)]
    assert table.forget(beside) == [("cores", here)]
    table.request("cores", beside, 1)
    slots["cores"], table.processors = 3, 2
    assert table.grant() == [("cores", beside)]


HOLDER = """
import os, pickle, sys, time
from headgate.spark.eddies.slot_server import SlotClient
client = SlotClient(pickle.load(sys.stdin.buffer), {}, lambda: os._exit(7))
assert client.acquire("a")
print("holds", flush=True)
time.sleep(600)
"""


@contextmanager
def holder(server: SlotServer) -> Iterator[subprocess.Popen[bytes]]:
    """A process that holds the slot of the pool until it is killed."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", HOLDER], **pipes) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(pickle.dumps(server.new_job()))
        process.stdin.close()
        assert process.stdout.readline() == b"holds\n"
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def server() -> Iterator[SlotServer]:
    """Of a pool with one slot."""
    pools = Pools([PoolDefinition("a", 1)], [], router_named("wscq"))
    made = SlotServer("127.0.0.1", "127.0.0.1", pools)
    yield made
    made.close()


def test_the_slot_of_a_killed_process_goes_to_the_next_worker(server: SlotServer) -> None:
    with holder(server) as process:
        assert server.used("a") == 1
        client = SlotClient(server.new_job(), {}, lambda: None)
        process.kill()
        assert client.acquire("a")
        assert server.used("a") == 1
        client.close()


def test_a_worker_that_loses_the_driver_ends_with_its_calls(server: SlotServer) -> None:
    with holder(server) as process:
        server.close()
        assert process.wait(20) == 7


def test_only_workers_of_the_run_get_slots(server: SlotServer) -> None:
    with pytest.raises(AuthenticationError):
        SlotClient(replace(server.new_job(), key=b"guessed"), {}, lambda: None)

"""Slots of pools over a cluster: the driver grants them, eddy workers hold them by a connection.

A lease lasts as long as the connection of the process that makes the calls. A killed process loses it at
once. A machine that is cut off loses it after a while, and before that its worker has ended itself, since it
heard nothing from the driver; so no more slots are in use than a pool has. Over the same connection workers
publish their statistics, and receive those of the others.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import Any, Protocol

from headgate.routing.monitor import OperatorStatistics
from headgate.spark.eddies.leases import LeaseTable
from headgate.spark.eddies.publication import Publication, Report

PUBLISH_S = 1.0
"""Workers publish at least this often, whether they have news or not."""

# a worker that is cut off must end before its leases do
_WORKER_WAITS_S = 30.0
_LEASE_EXPIRES_S = 60.0
_CONNECT_S = 30.0

_REQUEST, _RELEASE, _TAKE_TURNS, _PUBLISH, _END = range(5)
_GRANTED, _STATISTICS, _JOB_ENDS = range(3)
_GONE = (OSError, EOFError, AuthenticationError)

Statistics = Mapping[str, OperatorStatistics]


class PublishedStatistics(Protocol):
    """The statistics of all operators, to which workers contribute."""

    def slots(self) -> Mapping[str, int]:
        """Slots of every pool."""

    def publish(self, worker: int, published: Publication) -> Statistics:
        """Add what a worker has done; returns statistics in which queues are those of other workers."""

    def leave(self, worker: int) -> None:
        """Forget the queues of a worker."""


@dataclass(frozen=True)
class SlotAccess:
    """How the worker of a job reaches the server."""

    host: str
    port: int
    key: bytes
    job: int


@dataclass(eq=False)
class _Worker:
    number: int
    job: int
    executor: str
    connection: Connection


class SlotServer:
    """Runs in the driver, with a thread per worker.

    Calls of ``computing`` pools use a processor each: an executor has no more of them at a time than it has
    processors.
    """

    def __init__(
        self,
        bind_host: str,
        host: str,
        statistics: PublishedStatistics,
        computing: Collection[str] = (),
        port: int = 0,
    ) -> None:
        self._statistics = statistics
        self._leases: LeaseTable[_Worker] = LeaseTable(
            statistics.slots, computing, lambda worker: worker.executor
        )
        self._lock = threading.Lock()
        self._numbers = count()
        self._jobs = count()
        self._reports: defaultdict[int, list[Report]] = defaultdict(list)
        self._workers: set[_Worker] = set()
        self._key = secrets.token_bytes(32)
        self._socket = _listening(bind_host, port)
        self._host = host
        threading.Thread(target=self._accept, name="headgate-slots", daemon=True).start()

    def new_job(self) -> SlotAccess:
        """Access for the workers of a job; those of earlier jobs come first."""
        return SlotAccess(self._host, self._socket.getsockname()[1], self._key, next(self._jobs))

    def set_processors(self, processors: int) -> None:
        """Set how many processors every executor has from now on."""
        with self._lock:
            self._leases.processors = processors
            self._send_grants(self._leases.grant())

    def take_reports(self, access: SlotAccess) -> list[Report]:
        """The reports of the workers of a job that has ended."""
        with self._lock:
            return self._reports.pop(access.job, [])

    def used(self, pool: str) -> int:
        """Slots in use."""
        with self._lock:
            return self._leases.used(pool)

    def close(self) -> None:
        """End all leases; workers that still run end themselves."""
        with suppress(OSError):
            # wakes the thread that accepts connections
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with self._lock:
            for worker in self._workers:
                _shut(worker.connection)

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self._socket.accept()
            except OSError:
                return
            connection = _connection(accepted)
            threading.Thread(
                target=self._serve, args=(connection,), name="headgate-slots", daemon=True
            ).start()

    def _serve(self, connection: Connection) -> None:
        worker = None
        try:
            deliver_challenge(connection, self._key)
            answer_challenge(connection, self._key)
            job, executor = connection.recv()
            worker = _Worker(next(self._numbers), job, executor, connection)
            with self._lock:
                self._workers.add(worker)
            while connection.poll(_LEASE_EXPIRES_S):
                kind, value = connection.recv()
                self._handle(worker, kind, value)
        except _GONE:
            pass
        finally:
            self._forget(worker, connection)

    def _handle(self, worker: _Worker, kind: int, value: Any) -> None:
        if kind in (_PUBLISH, _END):
            published = value if kind == _PUBLISH else value.last
            known = self._statistics.publish(worker.number, published)
            with self._lock:
                if kind == _END:
                    self._reports[worker.job].append(value)
                    if value.is_settled:
                        self._end_job(worker)
                # the slots of pools may have changed
                self._send_grants(self._leases.grant())
                worker.connection.send((_STATISTICS, known))
            return
        with self._lock:
            if kind == _REQUEST:
                granted = self._leases.request(value, worker, worker.job)
            elif kind == _TAKE_TURNS:
                granted = self._leases.take_turns(value, worker, worker.job)
            else:
                granted = self._leases.release(value, worker)
            self._send_grants(granted)

    def _send_grants(self, granted: list[tuple[str, _Worker]]) -> None:
        for pool, worker in granted:
            # the thread of a worker that is gone takes its leases back
            with suppress(*_GONE):
                worker.connection.send((_GRANTED, pool))

    def _end_job(self, first: _Worker) -> None:
        """Tell the other workers of a job that one of them has no tuples left."""
        for worker in self._workers:
            if worker.job == first.job and worker is not first:
                with suppress(*_GONE):
                    worker.connection.send((_JOB_ENDS, None))

    def _forget(self, worker: _Worker | None, connection: Connection) -> None:
        with self._lock:
            # first, so that a worker that is cut off learns that its leases have ended
            connection.close()
            if worker is None:
                return
            self._workers.discard(worker)
            self._send_grants(self._leases.forget(worker))
        self._statistics.leave(worker.number)


class SlotClient:
    """Used by the worker of a task; ``lost`` must end its calls, since others may be granted their slots."""

    def __init__(
        self,
        access: SlotAccess,
        statistics: Statistics,
        lost: Callable[[], None],
        executor: str | None = None,
    ) -> None:
        self._lost = lost
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._changed: defaultdict[str, threading.Condition] = defaultdict(self._condition)
        self._granted: Counter[str] = Counter()
        self._replied = threading.Condition(self._lock)
        self._open_replies = 0
        self._is_ending = False
        self._job_ends = threading.Event()
        self._at_job_end: Callable[[], None] = lambda: None
        self.statistics = statistics
        """Of all operators, as published last; queues are those of other workers."""
        opened = socket.create_connection((access.host, access.port), _CONNECT_S)
        opened.settimeout(None)
        self._connection = _connection(opened)
        answer_challenge(self._connection, access.key)
        deliver_challenge(self._connection, access.key)
        self._connection.send((access.job, executor or _executor()))
        self._receiver = threading.Thread(target=self._receive, name="headgate-slots", daemon=True)
        self._receiver.start()

    def _condition(self) -> threading.Condition:
        return threading.Condition(self._lock)

    def acquire(self, pool: str) -> bool:
        """Wait for a slot; returns whether there is one, which there is not once work ends."""
        return self._wait_for(pool, _REQUEST)

    def take_turns(self, pool: str) -> bool:
        """Let workers that come first have a held slot, and wait for one again."""
        return self._wait_for(pool, _TAKE_TURNS)

    def release(self, pool: str) -> None:
        self._send(_RELEASE, pool)

    def publish(self, published: Publication) -> None:
        """Publish what this worker has done; the statistics of all are received later."""
        with self._lock:
            self._open_replies += 1
        self._send(_PUBLISH, published)

    def at_job_end(self, callback: Callable[[], None]) -> None:
        """Have a callback called when another worker of the job has no tuples left."""
        self._at_job_end = callback
        if self._job_ends.is_set():
            callback()

    def stop_waiting(self) -> None:
        """Work ends: no thread waits for a slot from now on."""
        with self._lock:
            self._is_ending = True
            for changed in self._changed.values():
                changed.notify_all()

    def end(self, report: Report) -> None:
        """Hand in the report; returns after the driver has it."""
        with self._lock:
            self._open_replies += 1
        self._send(_END, report)
        with self._lock:
            self._replied.wait_for(lambda: not self._open_replies)

    def close(self) -> None:
        self.stop_waiting()
        _shut(self._connection)
        self._receiver.join()
        self._connection.close()

    def _wait_for(self, pool: str, kind: int) -> bool:
        with self._lock:
            changed = self._changed[pool]
        self._send(kind, pool)
        with self._lock:
            changed.wait_for(lambda: self._is_ending or self._granted[pool] > 0)
            if self._is_ending:
                return False
            self._granted[pool] -= 1
            return True

    def _send(self, kind: int, value: Any) -> None:
        # if the driver is gone, the receiver notices it too
        with self._sending, suppress(*_GONE):
            self._connection.send((kind, value))

    def _receive(self) -> None:
        with suppress(*_GONE):
            while self._connection.poll(_WORKER_WAITS_S):
                kind, value = self._connection.recv()
                if kind == _JOB_ENDS:
                    self._job_ends.set()
                    self._at_job_end()
                    continue
                with self._lock:
                    if kind == _GRANTED:
                        self._granted[value] += 1
                        self._changed[value].notify()
                    else:
                        self.statistics = value
                        self._open_replies -= 1
                        self._replied.notify_all()
        with self._lock:
            is_lost = not self._is_ending or self._open_replies
            self._open_replies = 0
            self._replied.notify_all()
        if is_lost:
            self._lost()


def _executor() -> str:
    """The executor of this process: its Python workers have one parent, Spark's daemon."""
    return f"{socket.gethostname()} {os.getppid()}"


def _listening(host: str, port: int) -> socket.socket:
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    return socket.create_server((str(address[0]), port), family=family)


def _connection(opened: socket.socket) -> Connection:
    # a grant must not wait for the acknowledgement of the one before
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Connection(opened.detach())


def _shut(connection: Connection) -> None:
    """Wake the thread that reads from a connection: it finds the end."""
    with suppress(*_GONE), socket.socket(fileno=os.dup(connection.fileno())) as other:
        other.shutdown(socket.SHUT_RDWR)

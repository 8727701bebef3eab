"""A real server on a random port of loopback, over a session whose runs are fakes; and ticks for it."""

from __future__ import annotations

import http.client
import json
import math
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.fake_runs import behind, without_spark

from headgate.model.event import (
    OperatorCounts,
    QueryCounts,
    SettingsChanged,
    StreamCounts,
    TickCommitted,
)
from headgate.model.network import Network
from headgate.model.shedding import TickSettings
from headgate.server import http_app
from headgate.server.guard import Keys
from headgate.server.hub import Hub
from headgate.server.openapi import Operation
from headgate.server.recording import FOLDER, Recorded, Recording
from headgate.server.routes import Live
from headgate.server.run_monitor import RunMonitor
from headgate.server.session_thread import Worker
from headgate.session.session import Session

TOKEN = "a-token-for-tests-only"
STREAMS = """
CREATE STREAM packets (ts TIMESTAMP, src STRING, bytes INT) FROM json OPTIONS (path '/p', timestamp 'ts');
CREATE STREAM flows (ts TIMESTAMP, src STRING, flow INT) FROM json OPTIONS (path '/f', timestamp 'ts');
"""
QUERIES = """
CREATE QUERY talkers WITH (latency = '4 s') AS SELECT src, COUNT(*) AS n, SUM(bytes) AS volume
  FROM packets [RANGE 10 SECONDS SLIDE 5 SECONDS] WHERE bytes > 40 GROUP BY src HAVING COUNT(*) > 50;
CREATE QUERY heavy WITH (latency = '6 s', overload = 'shed') AS SELECT p.src, p.bytes, f.flow
  FROM packets [RANGE 2 SECONDS] AS p, flows [ROWS 1000] AS f WHERE p.src = f.src AND p.bytes > 1000;
CREATE QUERY big AS SELECT src, bytes FROM packets WHERE bytes > 1400;
"""


class Client:
    """Asks a server as a program would; every answer but streams is read to its end."""

    def __init__(self, port: int, token: str | None = TOKEN) -> None:
        self.port = port
        self.token = token

    def ask(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        sent = {name.replace("_", "-"): text for name, text in headers.items()}
        if self.token is not None:
            sent.setdefault("authorization", f"Bearer {self.token}")
        try:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        status, _, body = self.ask("GET", path)
        assert status == 200, body
        return json.loads(body)

    def post(self, path: str, document: dict[str, Any], expected: int = 200) -> Any:
        status, _, body = self.ask(
            "POST", path, json.dumps(document).encode(), content_type="application/json"
        )
        assert status == expected, body
        return json.loads(body)

    def error(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, str]:
        """The status and the one line of a request that is refused."""
        status, found, text = self.ask(method, path, body, **headers)
        assert status >= 400 and found["content-type"] == "application/json", (status, text)
        error = json.loads(text)["error"]
        assert error and len(error.splitlines()) == 1
        return status, error


class Served(Client):
    """A server with its session."""

    def __init__(self, live: Live, port: int, session: Session | None) -> None:
        super().__init__(port)
        self.live = live
        self.session = session

    def ask(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """What the server answers, which must be documented."""
        found = super().ask(method, path, body, **headers)
        operation = self._operation(method, path)
        if operation is not None:
            kind, kinds = found[1].get("content-type", ""), operation.kinds
            assert found[0] in operation.codes, (method, path, found)
            wanted = kinds if found[0] == operation.success else ("application/json",)
            assert not kind or kind.startswith(wanted), (method, path, kind)
        return found

    def _operation(self, method: str, path: str) -> Operation | None:
        where = path.partition("?")[0]
        for operation in self.live.operations():
            pattern = re.escape(operation.path).replace(r"\{name\}", "[^/]+")
            if operation.method == method and re.fullmatch(pattern, where):
                return operation
        return None

    def emit(self, *events: Any) -> None:
        """Let the run report events, and wait until pages can see them."""
        assert self.session is not None and self.session.run is not None
        for event in events:
            self.session.run._recorder(event)
            self.live.monitor(event)
        wait_for(self.live.monitor._events.empty)
        wait_for(lambda: json.loads(self.live.hub.last_tick()).get("tick") == last_tick(events))


def last_tick(events: tuple[Any, ...]) -> int:
    return max(event.batch_id for event in events if isinstance(event, TickCommitted))


def wait_for(condition: Any, timeout_s: float = 20.0) -> None:
    end_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end_s, "not in time"
        time.sleep(0.01)


@contextmanager
def serving(
    monkeypatch: pytest.MonkeyPatch, folder: Path, text: str = "", record: bool = False
) -> Iterator[Served]:
    """A server whose session starts no Spark."""
    recording = Recording(folder / FOLDER) if record else None
    hub = Hub() if recording is None else Hub(recording)
    monitor = RunMonitor(hub)
    session = without_spark(monkeypatch, Session())
    worker = Worker(session, monitor)
    if text:
        worker.execute(text)
    live = Live(worker, monitor, Keys(TOKEN), "0.0.0")
    with _running(live) as port:
        yield Served(live, port, session)
    if session.run is not None:
        behind(session.run).over.set()
    worker.close()
    monitor.close()
    if recording is not None:
        recording.close()


@contextmanager
def replaying(folder: Path) -> Iterator[Served]:
    live = Live(None, RunMonitor(Hub()), Keys(TOKEN), "0.0.0", recorded=Recorded(folder))
    with _running(live) as port:
        yield Served(live, port, None)
    live.monitor.close()


@contextmanager
def _running(live: Live) -> Iterator[int]:
    listening = http_app.bind("127.0.0.1", 0)
    ending = threading.Event()
    server = http_app.Server(live, http_app.application(live), ending.is_set)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    wait_for(lambda: server.started)
    try:
        yield listening.getsockname()[1]
    finally:
        ending.set()
        thread.join(20)
        assert not thread.is_alive()
        listening.close()


def ticks(network: Network, number: int, begin_s: float = 1.7e9, every_s: float = 1.0) -> list[Any]:
    """Ticks of a flood that comes and goes, with a decision of the controller at its height."""
    events: list[Any] = []
    kept = 1.0
    for tick in range(number):
        flood = max(0.0, math.sin(tick / 23)) ** 2
        now_s = begin_s + tick * every_s
        rows = int(2500 + 9000 * flood + 300 * math.sin(tick * 1.7))
        backlog = 4_000 * flood**1.5
        operators = {
            name: OperatorCounts(
                rows / (2 + place), backlog / (1 + place % 3), 160 * backlog / (1 + place % 3)
            )
            for place, name in enumerate(network.operators)
        }
        busy = min(0.97, 0.25 + 0.7 * flood)
        latency_s = 0.9 + 3.6 * flood
        shed = int((1 - kept) * rows)
        counts = {
            name: StreamCounts(
                rows if place == 0 else 90, tick % 11 == 0, tick % 17 == 0, shed * (place == 0)
            )
            for place, name in enumerate(network.streams)
        }
        queries = {
            name: QueryCounts(
                30 + 10 * place + tick % 7,
                ((latency_s * 0.7, 10.0), (latency_s * (1 + place / 4), 2.0)),
                kept,
            )
            for place, name in enumerate(network.queries)
        }
        waiting = sum(one.waiting for one in operators.values())
        size = sum(one.waiting_bytes for one in operators.values())
        turns = {path[: 1 + tick % len(path)]: float(rows) for path in network.paths()}
        events.append(
            TickCommitted(
                now_s,
                tick,
                every_s * (0.6 + 0.35 * flood),
                counts,
                queries,
                int(waiting),
                int(size),
                2_000_000,
                {"arrive": 0.1, "run": 0.4},
                busy * 2 * every_s * (0.6 + 0.35 * flood),
                operators=operators,
                turns=turns,
            )
        )
        wanted = 0.7 if flood > 0.8 else 1.0
        if wanted != kept and "flows" in network.streams:
            before, after = TickSettings({"flows": kept}), TickSettings({"flows": wanted})
            reason = "the next tick would take 2.9 s where 1.8 s are wanted" if wanted < 1 else "room again"
            events.append(SettingsChanged(now_s, tick, reason, before, after, {"tuples per s": rows}))
            kept = wanted
    return events


def raw(port: int, request: bytes) -> bytes:
    """What the server answers to bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        found = b""
        while part := connection.recv(65536):
            found += part
    return found


def open_with(port: int, request: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=20)
    connection.sendall(request)
    return connection

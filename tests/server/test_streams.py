"""Events and results as streams: complete, in order, and bounded whatever their readers do."""

from __future__ import annotations

import http.client
import io
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from tests.fake_runs import FakeSparkRun
from tests.server.support import QUERIES, STREAMS, TOKEN, Served, serving, ticks, wait_for

from headgate.server import streams


def rows_of(tick: int, number: int = 3) -> pa.Table:
    return pa.table({"ts": [tick * 10 + n for n in range(number)], "src": [f"h{n}" for n in range(number)]})


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Served]:
    """A server whose run has results of ticks 0 to 4 for query big."""
    kept = list(range(5))
    monkeypatch.setattr(FakeSparkRun, "result_ticks", lambda self, query: list(kept), raising=False)
    read = SimpleNamespace(most=0)

    def results_of_tick(self: Any, query: str, batch_id: int) -> Any:
        read.most = max(read.most, batch_id)
        size = 3 if query == "big" else 60_000
        return SimpleNamespace(toArrow=lambda: rows_of(batch_id, size))

    monkeypatch.setattr(FakeSparkRun, "results_of_tick", results_of_tick)
    with serving(monkeypatch, tmp_path, STREAMS + QUERIES) as found:
        assert found.session is not None and found.session.run is not None
        found.emit(*ticks(found.session.run.network, 5))
        found.kept, found.read = kept, read  # type: ignore[attr-defined]
        yield found


class Reader:
    """An answer that goes on, until it is closed."""

    def __init__(self, served: Served, path: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
        self._connection.request("GET", path, headers={"authorization": f"Bearer {TOKEN}"})
        self.answer = self._connection.getresponse()

    def line(self) -> str:
        return self.answer.readline().decode().rstrip("\n")

    def event(self) -> dict[str, str]:
        """The next event with data."""
        found: dict[str, str] = {}
        while True:
            line = self.line()
            if not line and "data" in found:
                return found
            name, _, value = line.partition(": ")
            found[name] = value

    def tick(self, number: int) -> list[dict[str, str]]:
        """The events up to a tick."""
        found = [self.event()]
        while json.loads(found[-1]["data"]).get("tick") != number:
            found.append(self.event())
        return found

    def close(self) -> None:
        self.answer.close()
        self._connection.close()


def test_events_continue_after_the_last_one_seen(served: Served) -> None:
    reader = Reader(served, "/events")
    assert reader.answer.headers["content-type"].startswith("text/event-stream")
    seen = reader.tick(4)
    assert [e["event"] for e in seen].count("tick") == 5
    numbers = [int(event["id"]) for event in seen]
    assert numbers == sorted(numbers)
    assert served.session is not None and served.session.run is not None
    served.emit(*ticks(served.session.run.network, 7)[5:])
    assert reader.tick(5)
    reader.close()
    reader = Reader(served, f"/events?after={numbers[-1]}")
    assert [e["event"] for e in reader.tick(6)].count("tick") == 2
    reader.close()
    wait_for(lambda: served.live.hub.readers == 0)


def test_results_are_json_lines_or_an_arrow_stream(served: Served) -> None:
    status, headers, body = served.ask("GET", "/queries/big/results")
    lines = [json.loads(line) for line in body.decode().splitlines()]
    assert status == 200 and headers["content-type"] == "application/x-ndjson"
    assert [(line["tick"], line["row"]["ts"]) for line in lines] == [
        (t, t * 10 + n) for t in range(5) for n in range(3)
    ]
    _, _, body = served.ask("GET", "/queries/big/results?format=arrow&since=2")
    table = pa.ipc.open_stream(io.BytesIO(body)).read_all()
    assert table.column("ts").to_pylist() == [30, 31, 32, 40, 41, 42]


def test_a_reader_that_follows_gets_the_results_of_new_ticks(served: Served) -> None:
    reader = Reader(served, "/queries/big/results?follow=true&since=4")
    assert served.session is not None and served.session.run is not None
    served.kept.append(5)  # type: ignore[attr-defined]
    served.emit(*ticks(served.session.run.network, 6)[-1:])
    assert json.loads(reader.line()) == {"tick": 5, "row": {"ts": 50, "src": "h0"}}
    reader.close()
    wait_for(lambda: served.live.hub.readers == 0)


def test_a_slow_reader_is_cut_off_and_holds_no_more_than_a_tick(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "READ_WITHIN_S", 0.3)
    served.kept.extend(range(5, 200))  # type: ignore[attr-defined]
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        head = (
            f"GET /queries/heavy/results HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n\r\n"
        )
        connection.sendall(head.encode())
        wait_for(lambda: served.live._streams == 1)
        wait_for(lambda: served.live._streams == 0)
    # others are answered meanwhile, and most ticks were never read
    assert served.get("/health") == {"status": "ok"}
    assert served.read.most < 20  # type: ignore[attr-defined]


def test_a_reader_that_goes_away_leaves_nothing_behind(served: Served) -> None:
    for path in ("/events", "/queries/big/results?follow=true"):
        reader = Reader(served, path)
        reader.line()
        reader.close()
    wait_for(lambda: served.live._streams == 0 and served.live.hub.readers == 0)


def test_twenty_pages_at_once_see_the_same(served: Served) -> None:
    pages = [Reader(served, "/events?after=0") for _ in range(20)]
    wait_for(lambda: served.live.hub.readers == 20)
    assert served.session is not None and served.session.run is not None
    served.emit(*ticks(served.session.run.network, 6)[-1:])
    found = [page.tick(5)[-1] for page in pages]
    assert all(event == found[0] for event in found)
    for page in pages:
        page.close()


def test_too_many_streams_are_refused(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.server.routes._MOST_STREAMS", 2)
    kept = [Reader(served, "/events") for _ in range(2)]
    wait_for(lambda: served.live._streams == 2)
    assert served.error("GET", "/events") == (503, "2 streams are open; close one of them")
    for reader in kept:
        reader.close()

"""Events and results as streams: complete, in order, and bounded whatever their readers do."""

from __future__ import annotations

import http.client
import io
import json
import socket
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from tests.fake_runs import SHEDDING, FakeSparkRun, network_of
from tests.server.support import QUERIES, STREAMS, TOKEN, Served, serving, ticks, wait_for

from headgate.errors import SparkError
from headgate.server import http_app, streams


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
    none = SimpleNamespace(toArrow=lambda: rows_of(0).slice(0, 0))
    monkeypatch.setattr(FakeSparkRun, "no_results", lambda *_: none, raising=False)
    with serving(monkeypatch, tmp_path, STREAMS + QUERIES) as found:
        assert found.session is not None and found.session.run is not None
        found.emit(*ticks(found.session.run.network, 5))
        found.kept, found.read = kept, read  # type: ignore[attr-defined]
        yield found


class Reader:
    """An answer that goes on, until it is closed."""

    def __init__(self, served: Served, path: str, **headers: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        self._connection.request("GET", path, headers={"authorization": f"Bearer {TOKEN}", **sent})
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
    with pa.ipc.open_stream(io.BytesIO(body)) as batches:
        # a reader that is cut off goes on after the last tick that it has whole
        told = [dict(found.custom_metadata) for found in batches.iter_batches_with_custom_metadata()]
    assert told == [{b"tick": b"3"}, {b"tick": b"4"}]


def test_values_of_every_type_are_lines_and_an_answer_without_rows_has_its_columns(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    utc = pa.timestamp("us", tz="UTC")
    table = pa.table(
        {
            "price": [Decimal("1.10"), None],
            "raw": [b"\x00\xff", b""],
            "ratio": [float("nan"), float("-inf")],
            "before": pa.array([-1, -(10**15)], utc),
            # milliseconds that were taken for seconds
            "far": pa.array([1_700_000_000_000_000_000, None], utc),
            "deep": [[{"a": [1, None]}], None],
            "pairs": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
            "text": ["\x1b[2J\U0001f600\n", "</script>"],
        }
    )
    monkeypatch.setattr(FakeSparkRun, "results_of_tick", lambda *_: SimpleNamespace(toArrow=lambda: table))
    none = SimpleNamespace(toArrow=lambda: table.slice(0, 0))
    monkeypatch.setattr(FakeSparkRun, "no_results", lambda *_: none)
    lines = served.ask("GET", "/queries/big/results?since=3")[2].decode().splitlines()
    first, second = (json.loads(line)["row"] for line in lines)
    assert first == {
        "price": "1.10",
        "raw": "AP8=",
        "ratio": None,
        "before": "1969-12-31T23:59:59.999999+00:00",
        "far": "55840-11-08T22:13:20.000000+00:00",
        "deep": [{"a": [1, None]}],
        "pairs": [["k", 1]],
        "text": "\x1b[2J\U0001f600\n",
    }
    assert second["before"].startswith("1938-04-24") and second["far"] is None
    for since, rows in ((3, 2), (4, 0)):
        _, _, body = served.ask("GET", f"/queries/big/results?format=arrow&since={since}")
        found = pa.ipc.open_stream(io.BytesIO(body)).read_all()
        assert found.schema == table.schema and found.num_rows == rows
    assert served.ask("GET", "/queries/big/results?since=4")[2] == b""


def test_the_head_of_a_stream_ends_at_once(served: Served) -> None:
    for path, kind in (
        ("/events", "text/event-stream"),
        ("/queries/big/results?follow=true", "application/"),
    ):
        status, headers, body = served.ask("HEAD", path)
        assert status == 200 and headers["content-type"].startswith(kind) and body == b""
    assert served.live._streams == 0


def test_events_continue_whatever_number_a_reader_names(served: Served) -> None:
    def first(path: str, **headers: str) -> int:
        reader = Reader(served, path, **headers)
        number = int(reader.event()["id"])
        reader.close()
        return number

    last = served.live.hub.last
    # a browser that connects again names both: the address that it began with, and what it has seen
    assert first("/events?after=1", last_event_id=str(last - 1)) == last
    for garbage in ("x", "-1", "1e3", "9" * 30, "\xb2"):
        assert first(f"/events?after={last - 1}", last_event_id=garbage) == last
    # numbers of a server that was there before
    assert first(f"/events?after={last + 1000}") <= 2
    assert first("/events", last_event_id=str(last + 1000)) <= 2


def test_a_reader_that_follows_gets_the_results_of_new_ticks(served: Served) -> None:
    reader = Reader(served, "/queries/big/results?follow=true&since=4")
    assert served.session is not None and served.session.run is not None
    served.kept.append(5)  # type: ignore[attr-defined]
    served.emit(*ticks(served.session.run.network, 6)[-1:])
    assert json.loads(reader.line()) == {"tick": 5, "row": {"ts": 50, "src": "h0"}}
    reader.close()
    wait_for(lambda: served.live.hub.readers == 0)


def test_a_reader_that_was_too_slow_for_notices_misses_no_results(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "_LOOK_AGAIN_S", 1e6)
    reading, go_on = threading.Event(), threading.Event()

    def results_of_tick(self: Any, query: str, batch_id: int) -> Any:
        if batch_id == 5:
            reading.set()
            assert go_on.wait(20)
        return SimpleNamespace(toArrow=lambda: rows_of(batch_id, 1))

    monkeypatch.setattr(FakeSparkRun, "results_of_tick", results_of_tick)
    reader = Reader(served, "/queries/big/results?follow=true&since=4")
    assert served.session is not None and served.session.run is not None
    later = ticks(served.session.run.network, 400)
    served.kept.append(5)  # type: ignore[attr-defined]
    served.emit(later[5])
    assert reading.wait(20)
    served.kept.extend(range(6, 400))  # type: ignore[attr-defined]
    for tick in later[6:]:
        served.live.hub.publish("tick", {"tick": tick.batch_id, "queries": {"big": [1]}})
    go_on.set()
    assert [json.loads(reader.line())["tick"] for _ in range(5, 400)] == list(range(5, 400))
    reader.close()


@pytest.mark.parametrize("format", ["jsonl", "arrow"])
@pytest.mark.parametrize("is_replaced", [True, False])
def test_an_error_ends_the_stream_of_a_query_that_was_replaced_meanwhile(
    served: Served, monkeypatch: pytest.MonkeyPatch, format: str, is_replaced: bool
) -> None:
    assert served.session is not None and served.session.run is not None
    run = served.session.run

    def results_of_tick(self: Any, query: str, batch_id: int) -> Any:
        if batch_id == 4:
            if is_replaced:
                served.live.monitor.close()
                run._network = network_of(SHEDDING)
            raise SparkError("the path does not exist")
        return SimpleNamespace(toArrow=lambda: rows_of(batch_id))

    monkeypatch.setattr(FakeSparkRun, "results_of_tick", results_of_tick)
    reader = Reader(served, f"/queries/big/results?since=2&format={format}")
    if is_replaced:
        body = reader.answer.read()
        if format == "arrow":
            assert pa.ipc.open_stream(io.BytesIO(body)).read_all().equals(rows_of(3))
        else:
            assert body.count(b'"tick": 3') == body.count(b"\n") == 3
    else:
        with pytest.raises(http.client.IncompleteRead):
            reader.answer.read()
    reader.close()
    wait_for(lambda: served.live._streams == 0)


def test_streams_of_a_query_that_is_dropped_or_replaced_end(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert served.session is not None and served.session.run is not None
    run = served.session.run
    tables = [rows_of(3), pa.table({"ts": [40], "other": ["x"]})]
    monkeypatch.setattr(
        FakeSparkRun,
        "results_of_tick",
        lambda _, query, tick: SimpleNamespace(toArrow=lambda: tables[tick - 3]),
    )
    _, _, body = served.ask("GET", "/queries/big/results?format=arrow&since=2&follow=true")
    assert pa.ipc.open_stream(io.BytesIO(body)).read_all().equals(tables[0])
    reader = Reader(served, "/queries/big/results?follow=true&since=4")
    served.live.monitor.close()
    run._network = network_of(SHEDDING)
    served.live.hub.publish("network", {})
    # the end of the answer, and not of the connection alone
    assert reader.answer.read() == b""
    reader.close()
    wait_for(lambda: served.live._streams == 0 and served.live.hub.readers == 0)


@pytest.mark.slow
@pytest.mark.parametrize("header", ["accept: */*", "x-forwarded-for: 10.0.0.1"])
def test_a_slow_reader_is_cut_off_and_holds_no_more_than_a_tick(
    served: Served, monkeypatch: pytest.MonkeyPatch, header: str
) -> None:
    monkeypatch.setattr(http_app, "_READ_WITHIN_S", 0.3)
    served.kept.extend(range(5, 200))  # type: ignore[attr-defined]
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        head = f"GET /queries/heavy/results HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n"
        connection.sendall(f"{head}{header}\r\n\r\n".encode())
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

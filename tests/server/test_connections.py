"""What a connection can do wrong: it ends, and all others go on."""

from __future__ import annotations

import http.client
import json
import select
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.server.support import QUERIES, STREAMS, TOKEN, Served, open_with, raw, serving, ticks, wait_for

from headgate.server import bodies, http_app

KNOWN = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with (
        pytest.MonkeyPatch.context() as monkeypatch,
        serving(monkeypatch, tmp_path_factory.mktemp("server"), STREAMS + QUERIES) as found,
    ):
        assert found.session is not None and found.session.run is not None
        found.emit(*ticks(found.session.run.network, 3))
        yield found


@pytest.fixture
def served(shared: Served) -> Iterator[Served]:
    yield shared
    # whatever was refused, the server and its run go on
    assert shared.get("/health") == {"status": "ok"}
    assert shared.session is not None and shared.session.run is not None and shared.session.run.is_running
    assert shared.get("/status")["ticks"] == 3


def post_head(length: int) -> bytes:
    head = f"POST /sql HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n"
    return f"{head}content-type: text/plain\r\ncontent-length: {length}\r\n\r\n".encode()


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("begun", [b"", b"GET /status HTTP/1.1\r\nhost: local"])
def test_a_connection_whose_request_does_not_come_is_closed(
    served: Served, monkeypatch: pytest.MonkeyPatch, begun: bytes, is_first: bool
) -> None:
    monkeypatch.setattr(http_app, "_HEAD_WITHIN_S", 0.2)
    # without a token, the answer would be the end of the connection
    known = f"GET /health HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n\r\n".encode()
    before = b"" if is_first else known
    with open_with(served.port, before) as connection:
        if before:
            answer = b""
            # its head and its body may come one after the other
            while not answer.endswith(b"}"):
                answer += connection.recv(65536)
            assert answer.startswith(b"HTTP/1.1 200")
        connection.sendall(begun)
        if is_first or begun:
            # a connection that has served a request may stay idle for longer
            assert connection.recv(65536) == b""


@pytest.mark.slow
def test_connections_that_send_nothing_shut_nobody_out_for_long(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_app, "_HEAD_WITHIN_S", 1.0)
    with ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(open_with(served.port, b"GET /"))
        wait_for(lambda: served.ask("GET", "/health")[0] == 200)


def test_a_body_that_does_not_come_is_refused(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "_SECONDS", 0.2)
    answer = b""
    with open_with(served.port, post_head(100) + b"SHOW") as connection:
        # the body may come after the head
        while not answer.endswith(b"}") and (part := connection.recv(65536)):
            answer += part
    assert answer.startswith(b"HTTP/1.1 408")
    assert b'{"error":"the body did not come within 0.2 s"}' in answer


def test_a_client_that_goes_away_before_its_body_or_its_answer_disturbs_nobody(served: Served) -> None:
    for request in (post_head(100) + b"SHOW", post_head(10) + b"SHOW POOLS"):
        open_with(served.port, request).close()
    assert served.post("/sql", {"text": "SHOW POOLS"})["answers"]


def test_connections_beyond_the_limit_are_refused_and_those_that_are_open_go_on(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        kept = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
        stack.callback(kept.close)
        kept.request("GET", "/health", headers=KNOWN)
        assert kept.getresponse().read() == b'{"status":"ok"}'
        monkeypatch.setattr(http_app, "_MOST_CONNECTIONS", 1)
        head, _, body = raw(served.port, b"").partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503") and b"application/json" in head
        assert json.loads(body) == {"error": "1 connections are open; try again later"}
        kept.request("GET", "/health", headers=KNOWN)
        assert kept.getresponse().read() == b'{"status":"ok"}'


@pytest.mark.parametrize("path", ["/health", "/status", "/nothing"])
def test_connections_of_strangers_are_not_kept(served: Served, path: str) -> None:
    for headers, is_kept in (({}, False), ({"authorization": "Bearer wrong"}, False), (KNOWN, True)):
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        answer.read()
        assert (answer.headers["connection"] != "close") == is_kept
        connection.close()


def test_an_answer_that_nobody_reads_is_not_kept(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_app, "_READ_WITHIN_S", 0.3)
    monkeypatch.setattr(served.live.hub, "history", lambda: '{"text":"' + "x" * 20_000_000 + '"}')
    head = f"GET /history HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n\r\n".encode()
    with open_with(served.port, head) as connection:
        assert connection.recv(12) == b"HTTP/1.1 200"
        reset = select.poll()
        reset.register(connection, 0)
        wait_for(lambda: reset.poll(0))


@pytest.mark.slow
def test_an_answer_that_is_read_slowly_arrives(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_app, "_READ_WITHIN_S", 0.2)
    monkeypatch.setattr(served.live.hub, "history", lambda: '{"text":"' + "x" * 40_000_000 + '"}')
    checks: list[int] = []
    watch = http_app._Protocol._watch_unread

    def noted(self: http_app._Protocol) -> None:
        checks.append(1)
        watch(self)

    monkeypatch.setattr(http_app._Protocol, "_watch_unread", noted)
    head = f"GET /history HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n\r\n".encode()
    with open_with(served.port, head) as connection:
        found = 0
        while found < 40_000_000:
            found += len(connection.recv(2**16))
            # no faster than the server looks
            if (seen := len(checks)) < 4 and found > 4_000_000 * seen:
                wait_for(lambda seen=seen: len(checks) > seen)
        assert len(checks) >= 4


@pytest.mark.parametrize("token", [TOKEN, "x"])
@pytest.mark.parametrize("target", ["GET /events", "GET /status", "POST /sql"])
def test_a_body_without_an_end_ends_its_connection(served: Served, target: str, token: str) -> None:
    lines = (f"{target} HTTP/1.1", "host: localhost", f"authorization: Bearer {token}")
    head = "\r\n".join((*lines, "transfer-encoding: chunked", "", "")).encode()
    part = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    with open_with(served.port, head) as connection:
        connection.settimeout(5)
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            for _ in range(100_000_000 // len(part)):
                connection.sendall(part)

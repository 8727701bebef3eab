"""What a request can do wrong: a clean refusal in one line, and nothing else is disturbed."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.support import QUERIES, STREAMS, TOKEN, Served, raw, serving, ticks

from headgate.errors import SetupError
from headgate.server.guard import Bucket, Guard, Keys
from headgate.server.http_app import bind, hosts_of, token_in


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


def test_wrong_tokens_are_refused_and_slowed_down(served: Served) -> None:
    for wrong in (f"Bearer {TOKEN}x", "Bearer", "Basic abc", f"bearer{TOKEN}", "Bearer \xff"):
        status, error = served.error("GET", "/status", authorization=wrong)
        assert (status, error.split(";")[0]) == (401, "the token is wrong")
    found = {served.error("GET", "/status", authorization="Bearer x")[0] for _ in range(30)}
    assert found == {401, 429}
    # the right one is not refused with them
    assert served.get("/status")["ticks"] == 3


def test_a_link_opens_the_page_once_and_its_cookie_is_for_this_page_alone(served: Served) -> None:
    link = served.live.keys.new_link()
    served.token = None
    status, headers, _ = served.ask("GET", f"/?link={link}")
    assert (status, headers["location"]) == (303, "/")
    assert "HttpOnly" in headers["set-cookie"] and "SameSite=strict" in headers["set-cookie"]
    cookie = headers["set-cookie"].split(";")[0]
    # a browser has one jar for all ports of this machine
    assert cookie.startswith(f"headgate-{served.port}=")
    status, headers, body = served.ask("GET", "/", cookie=cookie)
    assert status == 200 and b"<title>Headgate</title>" in body
    assert "default-src 'none'" in headers["content-security-policy"]
    assert not any(name.startswith("access-control") for name in headers)
    assert served.error("GET", f"/?link={link}")[0] == 403
    assert served.error("GET", "/?link=guess")[0] == 403
    assert served.error("GET", "/status", cookie=f"headgate-{served.port}=guess")[0] == 401
    assert served.error("POST", "/sql", b"{}", cookie=cookie, origin="http://evil.example")[0] == 403
    here = f"http://127.0.0.1:{served.port}"
    answer = served.ask("POST", "/sql", b"SHOW POOLS", cookie=cookie, origin=here, content_type="text/plain")
    assert answer[0] == 200
    served.token = TOKEN


def test_a_cookie_is_found_whatever_other_servers_of_this_machine_have_set(served: Served) -> None:
    cookie = served.live.keys.cookie_for(served.live.keys.new_link())
    own = f"headgate-{served.port}"
    served.token = None
    for other in (
        'a={"x": 1}',
        "b=c d",
        "d[0]=1",
        "expires",
        'e="open',
        "path=/",
        f"{own}=of a page below /x",
    ):
        assert served.ask("GET", "/names", cookie=f"{other}; {own}={cookie}")[0] == 200, other
    served.token = TOKEN


def test_only_a_get_of_the_page_uses_a_link(served: Served) -> None:
    link = served.live.keys.new_link()
    for token in (None, TOKEN):
        served.token = token
        served.ask("HEAD", f"/?link={link}")
        assert served.error("POST", f"/?link={link}")[0] in (401, 405)
    served.token = None
    assert served.error("GET", "/?xlink=1")[0] == served.error("GET", f"/names?link={link}")[0] == 401
    assert served.ask("GET", f"/?link={link}")[0] == 303
    served.token = TOKEN


def test_other_hosts_are_refused_so_that_a_page_cannot_reach_loopback_by_a_name_of_its_own(
    served: Served,
) -> None:
    for host in ("evil.example", f"evil.example:{served.port}", "127.0.0.1@evil.example", "[::1", ""):
        assert served.error("GET", "/status", host=host)[0] == 421, host
    for host in ("[foo]", "[]", "]a[", "%31", "a b"):
        assert served.error("GET", "/health", host=host)[0] == 421, host
    cookie = f"headgate-{served.port}={served.live.keys.cookie_for(served.live.keys.new_link())}"
    served.token = None
    for origin in ("null", "", "http://[foo]", f"http://127.0.0.1:{served.port + 1}"):
        assert served.error("POST", "/stop", cookie=cookie, origin=origin)[0] == 403, origin
    served.token = TOKEN
    assert hosts_of("0.0.0.0") is None
    assert "localhost" in (hosts_of("127.0.0.1") or ())


@pytest.mark.parametrize(
    ("body", "kind", "status", "error"),
    [
        (b"{", "application/json", 400, "the body is not valid JSON"),
        (b"[" * 100_000, "application/json", 400, "the body is not valid JSON"),
        (rb'{"text": "SHOW \ud800"}', "application/json", 400, "the body is not valid JSON"),
        (b"[]", "application/json", 400, "the body is not a JSON object; keys: text, force, limit"),
        (b'{"text": 5}', "application/json", 400, "text is a whole number, not a text"),
        (b'{"text": "SHOW POOLS", "limit": true}', "application/json", 400, "limit is true or false, not"),
        (b'{"text": "SHOW POOLS", "limit": 0}', "application/json", 400, "limit is 0; write"),
        (b'{"txt": "x"}', "application/json", 400, "unknown key 'txt'; known: text, force, limit"),
        (b'{"text": "  "}', "application/json", 400, "there is no statement"),
        (b"\xff\xfe", "text/plain", 400, "the body is not valid UTF-8"),
        (b"a=b", "application/x-www-form-urlencoded", 415, "the body is application/x-www-form"),
        (b"SELECT 1 FROM 'unclosed", "text/plain", 400, "sql:1:"),
        (b"x" * 1_000_001, "text/plain", 413, "the body has 1,000,001 bytes; send at most 1,000,000"),
        (b"\x00\x01", "text/plain", 400, "sql:1:1"),
    ],
)
def test_malformed_statements_are_refused(
    served: Served, body: bytes, kind: str, status: int, error: str
) -> None:
    found = served.error("POST", "/sql", body, content_type=kind)
    assert found[0] == status
    assert found[1].startswith(error)


def test_a_body_without_a_declared_length_is_bounded_too(served: Served) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "text/plain"}
    parts = (b"y" * 100_000 for _ in range(15))
    connection.request("POST", "/sql", parts, headers, encode_chunked=True)
    answer = connection.getresponse()
    assert answer.status == 413
    assert json.loads(answer.read())["error"].startswith("the body has more than 1,000,000 bytes")
    connection.close()


@pytest.mark.parametrize(
    "path",
    [
        "/static/../routes.py",
        "/static/..%2f..%2fhandle.py",
        "/static/%2e%2e/%2e%2e/etc/passwd",
        "/static//etc/passwd",
        "/static/index.html/..",
        "/../../etc/passwd",
        "/queries/..%2f..%2fetc/results",
        "/queries/" + "x" * 5_000,
        "/nothing",
        "/no%0Athing%1b%00",
        "/static/",
    ],
)
def test_no_path_leads_out(served: Served, path: str) -> None:
    status, error = served.error("GET", path)
    assert status == 404
    assert "there is no" in error


def test_methods_and_parameters_are_checked(served: Served) -> None:
    assert served.error("GET", "/sql") == (405, "/sql does not take GET; see /openapi.json")
    for method in ("DELETE", "PUT", "PATCH", "TRACE", "OPTIONS", "CONNECT"):
        assert served.error(method, "/queries")[0] == 405
    for query in ("format=xml", "since=1e5", "since=-2", "since=" + "9" * 40, "follow=maybe", "since=²"):
        status, error = served.error("GET", f"/queries/big/results?{query.replace('²', '%C2%B2')}")
        assert status == 400 and "; write" in error, query
    assert served.error("GET", "/events?after=x")[0] == 400
    assert served.error("GET", "/queries/nope/results")[1].startswith("there is no query 'nope'; known: talk")


@pytest.mark.parametrize(
    "headers",
    [
        (f"authorization: Bearer {TOKEN}", "authorization: Bearer x"),
        ("cookie: a=1", "cookie: b=2"),
        ("content-type: text/plain", "content-type: application/json"),
        ("origin: http://127.0.0.1", "origin: http://evil.example"),
        ("content-length: 4", "transfer-encoding: chunked"),
    ],
)
def test_headers_that_contradict_each_other_are_refused(served: Served, headers: tuple[str, str]) -> None:
    for pair in (headers, headers[::-1]):
        head = "\r\n".join((f"authorization: Bearer {TOKEN}", *dict.fromkeys(pair)))
        request = f"POST /sql HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{head}\r\n\r\n"
        assert raw(served.port, request.encode()).startswith(b"HTTP/1.1 400"), pair


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GARBAGE\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nbad header\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nendless: " + b"a" * 70_000,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
    ],
)
def test_what_is_not_http_is_refused(served: Served, request_bytes: bytes) -> None:
    head, _, body = raw(served.port, request_bytes).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert json.loads(body) == {"error": "this is not a valid HTTP request"}


def test_one_client_cannot_pass_for_many(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(Bucket, "takes", lambda self, client: not seen.append(client))
    for address in ("10.0.0.1", "10.0.0.2"):
        served.ask("GET", "/health", x_forwarded_for=address, forwarded=f"for={address}")
    assert seen == ["127.0.0.1", "127.0.0.1"]


def test_requests_without_a_token_do_not_use_up_the_rate_of_those_with_one() -> None:
    guard = Guard(None, Keys(TOKEN), None)

    def status(path: str, **headers: str) -> int:
        given = [(name.encode(), value.encode()) for name, value in headers.items()]
        scope = {"path": path, "method": "GET", "query_string": b"", "headers": given, "server": ("", 1)}
        refusal = guard._refusal(scope, guard._is_known(scope))
        return 200 if refusal is None else refusal.status_code

    assert {status("/status") for _ in range(450)} == {401, 429}
    assert status("/health") == 429
    assert {status("/status", authorization=f"Bearer {TOKEN}") for _ in range(300)} == {200}
    assert {status("/status", authorization=f"Bearer {TOKEN}") for _ in range(150)} == {200, 429}


def test_a_client_that_asks_too_often_is_slowed_down() -> None:
    now_s = [0.0]
    bucket = Bucket(per_s=2, burst=3, clock_s=lambda: now_s[0])
    assert [bucket.takes("a") for _ in range(5)] == [True, True, True, False, False]
    assert bucket.takes("b")
    now_s[0] = 1.0
    assert [bucket.takes("a") for _ in range(3)] == [True, True, False]


def test_tokens_are_made_for_their_owner_alone_and_short_ones_refused(tmp_path: Path) -> None:
    path = tmp_path / "state" / "headgate.token"
    token = token_in(path)
    assert len(token) >= 40 and path.stat().st_mode & 0o777 == 0o600
    assert token_in(path) == token != token_in(tmp_path / "other")
    path.write_text("short\n")
    with pytest.raises(SetupError, match="has no token: write 16 printable characters or more"):
        token_in(path)
    keys = Keys("a" * 16)
    links = [keys.new_link() for _ in range(20)]
    assert keys.cookie_for(links[0]) is None
    assert keys.cookie_for(links[-1]) is not None


def test_a_port_in_use_is_named() -> None:
    with bind("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SetupError, match=f"127.0.0.1:{port} cannot be used: Address already in use"):
            bind("127.0.0.1", port)

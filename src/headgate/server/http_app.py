"""The application, and the process that serves it until it is stopped."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import secrets
import socket
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from headgate.errors import HeadgateError, InternalError, OverloadError, SetupError, SparkError
from headgate.formats.plain_json import json_text
from headgate.server.documents import failure
from headgate.server.guard import Guard, refused
from headgate.server.routes import Live
from headgate.server.session_thread import Busy

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_LONGEST_HEAD = 32_768
_MOST_CONNECTIONS = 256
_GRACE_S = 3
_HEAD_WITHIN_S = 10.0
_READ_WITHIN_S = 20.0
# of a request that is refused while its body still comes; a client that reads has read the answer by then
_MOST_SENT = 16 * 2**20


def application(live: Live, hosts: frozenset[str] | None = _LOOPBACK) -> Starlette:
    """The routes behind the guard; every error is one line of JSON."""

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        live.hub.open(asyncio.get_running_loop())
        yield

    return Starlette(
        routes=[Route(o.path, o.handler, methods=[o.method]) for o in live.operations()],
        middleware=[Middleware(Guard, keys=live.keys, hosts=hosts)],
        exception_handlers={HTTPException: _http_error, HeadgateError: _our_error, Exception: _defect},
        lifespan=life,
    )


async def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    details = (
        {404: f"there is no {request.url.path[:200]}; see /openapi.json"}
        if error.detail == "Not Found"
        else {}
    )
    if error.status_code == 405:
        details = {405: f"{request.url.path[:200]} does not take {request.method}; see /openapi.json"}
    return refused(error.status_code, details.get(error.status_code, error.detail), dict(error.headers or {}))


async def _our_error(request: Request, error: Exception) -> JSONResponse:
    status = 400
    if isinstance(error, Busy):
        status = 503
    elif isinstance(error, OverloadError):
        status = 409
    elif isinstance(error, (SparkError, InternalError)):
        status = 500
    return JSONResponse(failure(error), status)


async def _defect(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse(failure(error), 500)


class _Protocol(H11Protocol):
    """HTTP/1.1 whose refusals are one line of JSON, too; heads must come, and answers be read, in time.

    Nobody has to prove anything before the end of a head, and connections that wait for it would shut out all
    others. An answer that is not read stays in memory.
    """

    _head_due: asyncio.TimerHandle | None = None
    _read_due: asyncio.TimerHandle | None = None
    _unread = 0
    _sent = 0

    def connection_made(self, transport: Any) -> None:
        """Wait for the head of the first request, if there is room for another connection."""
        super().connection_made(transport)
        if len(self.connections) > _MOST_CONNECTIONS:
            # requests of the others go on
            error = f"{_MOST_CONNECTIONS} connections are open; try again later"
            self._refuse("503 Service Unavailable", error)
        else:
            self._watch_head()

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of a head, or no more."""
        super().data_received(data)
        self._sent = self._sent + len(data) if self.conn.their_state is h11.SEND_BODY else 0
        if self._sent > _MOST_SENT:
            self.transport.abort()
        else:
            self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._forget_head()
        self._forget_unread()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait until the reader has taken most of what was written."""
        super().pause_writing()
        self._watch_unread()

    def resume_writing(self) -> None:
        """Write on."""
        self._forget_unread()
        super().resume_writing()

    def _watch_unread(self) -> None:
        self._unread = self.transport.get_write_buffer_size()
        self._read_due = self.loop.call_later(_READ_WITHIN_S, self._end_unread)

    def _forget_unread(self) -> None:
        if self._read_due is not None:
            self._read_due.cancel()
            self._read_due = None

    def _end_unread(self) -> None:
        if self.transport.get_write_buffer_size() < self._unread:
            # slow, but it reads
            self._watch_unread()
        else:
            # closing would wait for it, here and in the kernel
            connection = self.transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()

    def _watch_head(self) -> None:
        if not self._is_before_request():
            self._forget_head()
        elif self._head_due is None:
            self._head_due = self.loop.call_later(_HEAD_WITHIN_S, self._end_without_head)

    def _is_before_request(self) -> bool:
        # none before the first request, whatever its annotation states
        cycle: Any = self.cycle
        return cycle is None or bool(cycle.response_complete)

    def _forget_head(self) -> None:
        if self._head_due is not None:
            self._head_due.cancel()
            self._head_due = None

    def _end_without_head(self) -> None:
        self._head_due = None
        if self._is_before_request():
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP."""
        self._refuse("400 Bad Request", "this is not a valid HTTP request")

    def _refuse(self, status: str, error: str) -> None:
        text = json_text({"error": error}, indent=None)
        head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\n"
        self.transport.write(f"{head}content-length: {len(text)}\r\n\r\n{text}".encode())
        self.transport.close()


class Server(uvicorn.Server):
    """Serves until ``is_to_end`` returns True, or a request ends it; signals are left to the caller."""

    def __init__(self, live: Live, app: Any, is_to_end: Callable[[], bool]) -> None:
        config = uvicorn.Config(
            app,
            http=_Protocol,
            ws="none",
            lifespan="on",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            # a client could pass for as many as it likes
            proxy_headers=False,
            h11_max_incomplete_event_size=_LONGEST_HEAD,
            timeout_graceful_shutdown=_GRACE_S,
            timeout_keep_alive=30,
        )
        super().__init__(config)
        self._live = live
        self._is_to_end = is_to_end
        live.stop = self._end

    def _end(self) -> None:
        self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        """Called ten times per second."""
        if self._is_to_end():
            self.should_exit = True
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End streams first: nothing would end them otherwise."""
        self._live.hub.close()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """They are the caller's."""
        yield


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 is any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
        # a client that has the address before the server has started waits for it
        found.listen(_MOST_CONNECTIONS)
    except (OSError, OverflowError) as error:
        found.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise SetupError(f"{host}:{port} cannot be used: {reason}; choose another with --port") from None
    return found


def hosts_of(host: str) -> frozenset[str] | None:
    """The host names that requests may use: on loopback, pages of others must not reach it."""
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = host == "localhost"
    return _LOOPBACK | {host} if is_loopback else None


def url_of(found: socket.socket) -> str:
    """The address of a socket, for a browser on this machine."""
    host, port = found.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}"


def token_in(path: Path) -> str:
    """The token in a file; a new one is written to a file that is not there, for its owner alone."""
    try:
        if path.exists():
            token = path.read_text(encoding="utf-8").strip()
            if len(token) < 16 or not token.isascii() or not token.isprintable() or " " in token:
                raise SetupError(f"{path} has no token: write 16 printable characters or more, in one line")
            return token
        path.parent.mkdir(parents=True, exist_ok=True)
        token = secrets.token_urlsafe(32)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(token + "\n")
        return token
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(f"the token file {path} cannot be used: {error}") from None

"""Who may ask, how much and how often: token, one-time links, request sizes and rates."""

from __future__ import annotations

import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import QueryParams
from starlette.responses import JSONResponse

OPEN_PATHS = ("/health",)
# of headers that decide who asks for what; of two, one might be checked and the other used
_SINGLE = frozenset({"authorization", "content-type", "cookie", "host", "origin"})
# of one name in one request
_MOST_GIVEN = 4
_MOST_CLIENTS = 1_000
_MOST_COOKIES = 64
_MOST_LINKS = 16
_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cache-control": "no-store",
}


class Bucket:
    """So many requests per second, and a burst of some more."""

    def __init__(self, per_s: float, burst: float, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._per_s, self._burst, self._clock_s = per_s, burst, clock_s
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def takes(self, client: str) -> bool:
        """Count a request; whether it is within the limit."""
        now_s = self._clock_s()
        left, seen_s = self._left.pop(client, (self._burst, now_s))
        left = min(self._burst, left + (now_s - seen_s) * self._per_s)
        is_within = left >= 1
        self._left[client] = (left - 1 if is_within else left), now_s
        if len(self._left) > _MOST_CLIENTS:
            self._left.popitem(last=False)
        return is_within


class Keys:
    """The token, one-time links, and the cookies that were given for them."""

    def __init__(self, token: str) -> None:
        self.token = token
        self._links: list[str] = []
        self._cookies: list[str] = []

    def new_link(self) -> str:
        """A code that can be exchanged for a cookie once."""
        self._links = [*self._links[1 - _MOST_LINKS :], secrets.token_urlsafe(24)]
        return self._links[-1]

    def cookie_for(self, link: str) -> str | None:
        """A new cookie; None if the link is wrong or used."""
        found = [known for known in self._links if _equal(known, link)]
        if not found:
            return None
        self._links.remove(found[0])
        self._cookies = [*self._cookies[1 - _MOST_COOKIES :], secrets.token_urlsafe(32)]
        return self._cookies[-1]

    def knows_cookie(self, cookie: str) -> bool:
        return any([_equal(known, cookie) for known in self._cookies])

    def is_token(self, given: str) -> bool:
        return _equal(self.token, given)


def _equal(known: str, given: str) -> bool:
    # in a time that does not tell how much of it is right
    return hmac.compare_digest(known.encode(), given.encode("utf-8", "surrogateescape"))


class Guard:
    """Refuses requests before any route sees them; adds headers to every answer."""

    def __init__(self, app: Any, keys: Keys, hosts: frozenset[str] | None) -> None:
        """``hosts`` are the names that requests may use; any, if it is None."""
        self._app = app
        self._keys = keys
        self._hosts = hosts
        self._requests = Bucket(per_s=100, burst=400)
        # requests of others must not use up what those with a token may send
        self._without_token = Bucket(per_s=100, burst=400)
        self._wrong_tokens = Bucket(per_s=0.2, burst=20)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        is_known = self._is_known(scope)
        # connections of strangers, which are kept open for nothing, would shut out all others
        common = _HEADERS if is_known else {**_HEADERS, "connection": "close"}

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                present = {name.lower() for name, _ in message["headers"]}
                added = [(k.encode(), v.encode()) for k, v in common.items() if k.encode() not in present]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        refusal = self._refusal(scope, is_known)
        answer = self._app if refusal is None else refusal
        await answer(scope, receive, with_headers)

    def _is_known(self, scope: Any) -> bool:
        headers = dict(_given(scope))
        return self._has_token(headers) or self._has_cookie(scope, headers)

    def _refusal(self, scope: Any, is_known: bool) -> JSONResponse | None:
        given = _given(scope)
        headers = dict(given)
        client = scope["client"][0] if scope.get("client") else ""
        if not (self._requests if is_known else self._without_token).takes(client):
            return refused(429, "too many requests; send at most 100 per second", {"retry-after": "1"})
        repeated = sorted(name for name in _SINGLE if [own for own, _ in given].count(name) > 1)
        if repeated or {"content-length", "transfer-encoding"} <= headers.keys():
            what = f"{repeated[0]} is sent twice" if repeated else "the length of the body is stated twice"
            return refused(400, f"{what}; send one", {"connection": "close"})
        host = headers.get("host", "")
        if self._hosts is not None and _name_of(host) not in self._hosts:
            return refused(421, f"this server does not answer for host {host[:100]!r}")
        if self._has_token(headers) or _is_open(scope):
            return None
        if "authorization" in headers:
            if not self._wrong_tokens.takes(client):
                return refused(429, "too many wrong tokens; wait a while", {"retry-after": "5"})
            error = "the token is wrong; send that of headgate serve as Authorization: Bearer TOKEN"
            return refused(401, error, {"www-authenticate": "Bearer"})
        if is_known:
            # another page must not use the cookie of this one
            is_own = "origin" not in headers or _netloc(headers["origin"]) == host
            return None if is_own else refused(403, "requests of other pages are refused")
        needed = "open the link that headgate serve has printed, or send Authorization: Bearer TOKEN"
        return refused(401, f"a token is needed; {needed}", {"www-authenticate": "Bearer"})

    def _has_token(self, headers: dict[str, str]) -> bool:
        kind, _, given = headers.get("authorization", "").partition(" ")
        return kind.lower() == "bearer" and self._keys.is_token(given.strip())

    def _has_cookie(self, scope: Any, headers: dict[str, str]) -> bool:
        found = _cookies(headers.get("cookie", ""), cookie_name(scope))
        return any([self._keys.knows_cookie(cookie) for cookie in islice(found, _MOST_GIVEN)])


def _given(scope: Any) -> list[tuple[str, str]]:
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]


def _is_open(scope: Any) -> bool:
    """Whether a request needs no token: the link to the page has a code in its place."""
    if scope["path"] in OPEN_PATHS:
        return True
    return scope["method"] == "GET" and scope["path"] == "/" and "link" in QueryParams(scope["query_string"])


def refused(status: int, error: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """An error in one line."""
    return JSONResponse({"error": " ".join(error.split())}, status, headers)


def _name_of(host: str) -> str:
    """A host without its port."""
    try:
        return (urlsplit(f"//{host}").hostname or "") if host and not set(host) & set("/@?#\\ ") else ""
    except ValueError:
        # brackets around what is no address
        return ""


def _netloc(origin: str) -> str | None:
    """Host and port of an origin; None if it is not one."""
    try:
        return urlsplit(origin).netloc or None
    except ValueError:
        return None


def cookie_name(scope: Any) -> str:
    """The name of the cookie; browsers send those of all servers of a machine, whatever their ports."""
    return f"headgate-{scope['server'][1]}"


def _cookies(header: str, name: str) -> Iterator[str]:
    """All values of a cookie; those of other servers beside it may have any form."""
    for part in header.split(";"):
        key, _, value = part.strip().partition("=")
        if key == name:
            yield value

"""A client of a server: requests with its token, and errors in one line."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from headgate.errors import HeadgateError, QueryError, SetupError, Span
from headgate.formats.plain_json import json_text

VARIABLE = "HEADGATE_TOKEN"
ORIGIN = "sql"
"""What servers call the text of a request."""


class Answered(HeadgateError):
    """What a server has answered to a request that it refuses, and where in the statements it is wrong."""

    def __init__(self, reason: str, place: tuple[int, int, int] | None = None) -> None:
        """``place`` is a line, a column and a length."""
        super().__init__(reason)
        self.place = place

    def within(self, text: str) -> HeadgateError:
        """The same for a person who has written this text."""
        if self.place is None:
            return self
        line, column, length = self.place
        start = sum(len(one) + 1 for one in text.split("\n")[: line - 1]) + column - 1
        reason = str(self).removeprefix(f"{ORIGIN}:{line}:{column}: ")
        return QueryError(reason, Span(text, start, start + length, ORIGIN))


@dataclass(frozen=True)
class Client:
    """Sends requests to one server."""

    url: str
    token: str

    @staticmethod
    def of(url: str, token_file: Path | None) -> Client:
        """The token is in the file, or in the environment."""
        whole = (url if "://" in url else f"http://{url}").rstrip("/")
        if not _is_address(whole):
            raise SetupError(f"--url {url} is not an address; write http://127.0.0.1:8640")
        if token_file is None:
            where, token = VARIABLE, os.environ.get(VARIABLE, "").strip()
            if not token:
                advice = f"pass --token-file DIR/headgate.token, DIR being its checkpoint, or set {VARIABLE}"
                raise SetupError(f"the server at {whole} requires its token; {advice}")
        else:
            where = f"--token-file {token_file}"
            try:
                token = token_file.read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise SetupError(f"{where} cannot be read: {error}") from None
        if not token.isascii() or not token.isprintable() or " " in token or not token:
            # it is not shown: part of it may be right
            raise SetupError(f"{where} has no token: it is one line of printable characters")
        return Client(whole, token)

    def get(self, path: str) -> Any:
        return self._ask(urllib.request.Request(self.url + path))

    def post(self, path: str, document: dict[str, Any]) -> Any:
        body = json_text(document, indent=None).encode()
        return self._ask(
            urllib.request.Request(self.url + path, body, {"content-type": "application/json"}, method="POST")
        )

    def _ask(self, request: urllib.request.Request) -> Any:
        request.add_unredirected_header("Authorization", f"Bearer {self.token}")
        # a proxy of the environment is for other hosts
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                try:
                    found = json.load(error)
                    reason = found["error"]
                except (OSError, HTTPException, ValueError, KeyError, TypeError):
                    found, reason = {}, f"{self.url} answers {error.code}"
            place = (found["line"], found["column"], found["length"]) if "length" in found else None
            raise Answered(reason, place) from None
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise SetupError(f"{self.url} does not answer: {reason}; start one with headgate serve") from None


def _is_address(url: str) -> bool:
    """Whether it has a host and no more than that, with a port that is one."""
    try:
        parts = urlsplit(url)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        return False
    is_plain = url.isprintable() and not set(url) & set(" ?#@")
    return parts.scheme in ("http", "https") and bool(parts.hostname) and has_port and is_plain

"""A client of a server: requests with its token, and errors in one line."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from headgate.errors import HeadgateError, SetupError
from headgate.formats.plain_json import json_text

VARIABLE = "HEADGATE_TOKEN"


class Answered(HeadgateError):
    """What a server has answered to a request that it refuses."""


@dataclass(frozen=True)
class Client:
    """Sends requests to one server."""

    url: str
    token: str

    @staticmethod
    def of(url: str, token_file: Path | None) -> Client:
        """The token is in the file, or in the environment."""
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).netloc:
            raise SetupError(f"--url {url} is not an address; write http://127.0.0.1:8640")
        if token_file is None:
            token = os.environ.get(VARIABLE, "")
            if not token:
                advice = f"pass --token-file DIR/headgate.token, DIR being its checkpoint, or set {VARIABLE}"
                raise SetupError(f"the server at {url} requires its token; {advice}")
            return Client(url.rstrip("/"), token)
        try:
            return Client(url.rstrip("/"), token_file.read_text(encoding="utf-8").strip())
        except (OSError, UnicodeDecodeError) as error:
            raise SetupError(f"--token-file {token_file} cannot be read: {error}") from None

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
                    reason = json.load(error)["error"]
                except (ValueError, KeyError, TypeError):
                    reason = f"{self.url} answers {error.code}"
            raise Answered(reason) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise SetupError(f"{self.url} does not answer: {reason}; start one with headgate serve") from None

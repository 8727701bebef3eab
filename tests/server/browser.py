"""A real Chromium, driven over the DevTools protocol."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import websocket

_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def browser_path() -> str | None:
    return next((found for name in _NAMES if (found := shutil.which(name))), None)


needs_browser = pytest.mark.skipif(
    browser_path() is None, reason="no Chromium: install chromium-headless-shell to test the dashboard"
)


class Page:
    """One page: JavaScript in it, keys, and its picture."""

    def __init__(self, address: str) -> None:
        self._socket = websocket.create_connection(address, timeout=60)
        self._number = 0
        self.complaints: list[str] = []
        for domain in ("Runtime", "Log", "Page"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == self._number:
                assert "error" not in message, message
                found: dict[str, Any] = message["result"]
                return found
            if message.get("method") == "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(message["params"])[:500])
            elif message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
                self.complaints.append(message["params"]["entry"]["text"])

    def run(self, script: str) -> Any:
        """The value of an expression."""
        found = self._evaluated(script)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def _evaluated(self, script: str) -> dict[str, Any]:
        return self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)

    def until(self, script: str, timeout_s: float = 30.0) -> Any:
        """Wait until an expression is true, and return its value."""
        end_s = time.monotonic() + timeout_s
        while not (found := self._tried(script)):
            assert time.monotonic() < end_s, f"not in time: {script}; {self.complaints}"
            time.sleep(0.05)
        return found

    def _tried(self, script: str) -> Any:
        # before the page is there, most expressions fail
        found = self._evaluated(script)
        return None if "exceptionDetails" in found else found["result"].get("value")

    def text(self, selector: str) -> str:
        found = self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")
        return str(found)

    def key(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if kind == "keyDown" and len(key) == 1 else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, **text)

    def fill(self, selector: str, text: str) -> None:
        where = json.dumps(selector)
        self.run(f"(e => {{ e.focus(); e.value = {json.dumps(text)}; }})(document.querySelector({where}))")

    def click(self, selector: str) -> None:
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def screen(self, width: int, height: int, scheme: str) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def picture(self) -> bytes:
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def close(self) -> None:
        self._socket.close()


@contextmanager
def opened(url: str) -> Iterator[Page]:
    """A page at an address."""
    path = browser_path()
    assert path is not None
    folder = tempfile.mkdtemp(prefix="headgate-browser-")
    options = ("--no-sandbox", "--headless", "--disable-gpu", "--remote-allow-origins=*")
    command = [path, *options, "--remote-debugging-port=0", f"--user-data-dir={folder}", "about:blank"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        address = next(line.split()[-1] for line in process.stderr if "DevTools listening" in line)
        port = address.split(":")[2].split("/")[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:
            target = next(one for one in json.load(answer) if one["type"] == "page")
        page = Page(target["webSocketDebuggerUrl"])
        page.call("Page.navigate", url=url)
        try:
            yield page
        finally:
            page.close()
    finally:
        process.terminate()
        process.wait(20)
        if process.stderr is not None:
            process.stderr.close()
        shutil.rmtree(folder, ignore_errors=True)

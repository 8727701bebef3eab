"""Draw the pictures of docs/dashboard.md: ``python -m tests.server.pictures docs/images``."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.fake_runs import FakePools
from tests.server.browser import Page, opened
from tests.server.support import QUERIES, STREAMS, serving, ticks

from headgate.spark.eddies.pools import PoolStatus

TICKS, SHOWN = 230, 176
"""Three floods, and a tick at the height of the last one."""
PORTS = """
CREATE POOL web SLOTS 3;
CREATE QUERY ports AS SELECT bytes, COUNT(*) AS n FROM packets [RANGE 30 SECONDS SLIDE 5 SECONDS]
  WHERE bytes < 100 GROUP BY bytes;
"""


def draw(folder: Path) -> None:
    """A laptop in the light, and a phone in the dark."""
    with pytest.MonkeyPatch.context() as monkeypatch, TemporaryDirectory() as state:
        calls, status = count(1), PoolStatus(3, 0, 0, 0.0)
        monkeypatch.setattr(
            FakePools,
            "status",
            lambda self: {"web": replace(status, calls=10 * (n := next(calls)), busy_s=1.6 * n)},
        )
        with serving(monkeypatch, Path(state), STREAMS + QUERIES + PORTS) as served:
            assert served.session is not None and served.session.run is not None
            served.emit(*ticks(served.session.run.network, TICKS))
            with opened(f"http://127.0.0.1:{served.port}/?link={served.live.keys.new_link()}") as page:
                _take(page, 1280, 1500, "light", folder / "dashboard.png")
                _take(page, 390, 2000, "dark", folder / "dashboard-phone.png")


def _take(page: Page, width: int, height: int, scheme: str, path: Path) -> None:
    page.screen(width, height, scheme)
    page.call("Emulation.setScrollbarsHidden", hidden=True)
    page.until(f"document.querySelector('#at').innerText.startsWith('tick {TICKS - 1} ')")
    page.run("document.querySelector('#time').focus()")
    for _ in range(TICKS - 1 - SHOWN):
        page.key("ArrowLeft")
    page.until(f"document.querySelector('#at').innerText.startsWith('tick {SHOWN} ')")
    page.run("document.activeElement.blur(); scrollTo(0, 0)")
    # gauges and lines take 0.4 s to reach their new size
    page.until("document.getAnimations().length === 0")
    path.write_bytes(page.picture())
    page.key("Escape")


if __name__ == "__main__":
    draw(Path(sys.argv[1]))

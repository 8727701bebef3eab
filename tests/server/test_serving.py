"""A real run behind a real server, in a real browser: values of the run appear, controls take effect."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.server.browser import browser_path, opened
from tests.server.support import TOKEN, Client, Served, _running, wait_for

from headgate.server.guard import Keys
from headgate.server.hub import Hub
from headgate.server.recording import FOLDER, Recorded, Recording
from headgate.server.routes import Live
from headgate.server.run_monitor import RunMonitor
from headgate.server.session_thread import Worker
from headgate.session.handle import Run
from headgate.session.session import Session

pytestmark = pytest.mark.spark

# a source that needs no Python processes
TEXT = """
CREATE STREAM beats FROM rate OPTIONS (rowsPerSecond 200);
CREATE QUERY big WITH (latency = '60 s', overload = 'shed') AS SELECT value FROM beats WHERE value > 5;
CREATE QUERY odd WITH (overload = 'shed') AS SELECT value FROM beats WHERE value % 2 = 1;
"""


@pytest.fixture
def served(spark: SparkSession, tmp_path: Path) -> Iterator[Served]:
    recording = Recording(tmp_path / FOLDER)
    monitor = RunMonitor(Hub(recording))
    session = Session(spark=spark)
    worker = Worker(session, monitor)
    live = Live(worker, monitor, Keys(TOKEN), "0.0.0")
    try:
        with _running(live) as port:
            yield Served(live, port, session)
    finally:
        worker.close()
        monitor.close()
        recording.close()


def test_a_run_is_served_watched_and_steered(served: Served, tmp_path: Path) -> None:
    served.post("/sql", {"text": TEXT})
    assert served.session is not None
    run = served.session.run
    assert run is not None
    wait_for(lambda: not run.wait(0) and run.status().queries["big"].rows_out > 0, 600)
    wait_for(lambda: served.ask("GET", "/ready")[0] == 200)
    _results_are_those_of_the_run(served)
    _a_program_opens_a_page_of_its_own(run)
    if browser_path() is not None:
        _page_shows_and_steers(served)
    run.ask_to_stop()
    run.wait(300)
    ticks = run.status().ticks
    wait_for(lambda: served.live.monitor._events.empty())
    share = served.get("/status")["sampling"]["share_of_ticks"]
    assert share < 0.03, share
    served.live.monitor.look()
    assert json.loads(served.live.hub.state("run"))["state"] == "ended"
    recorded = json.loads(Recorded(tmp_path).history())
    assert len(recorded["ticks"]) == ticks
    rows_in = run.status().streams["beats"].rows_in
    assert recorded["ticks"][-1]["streams"]["beats"][5] == rows_in
    if browser_path() is None:
        pytest.skip("no Chromium: the page was not tested; install chromium-headless-shell")


def _results_are_those_of_the_run(served: Served) -> None:
    lines = [json.loads(line) for line in served.ask("GET", "/queries/big/results")[2].decode().splitlines()]
    last = lines[-1]["tick"]
    assert len(lines) > 0 and all(line["row"]["value"] > 5 for line in lines)
    _, _, body = served.ask("GET", "/queries/big/results?format=arrow")
    table = pa.ipc.open_stream(io.BytesIO(body)).read_all()
    assert table.slice(0, len(lines)).column("value").to_pylist() == [line["row"]["value"] for line in lines]
    # a query without results has the same columns
    assert served.session is not None and served.session.run is not None
    assert served.session.run.result_schema("big").equals(table.schema)
    found = served.post("/sql", {"text": "SELECT COUNT(*) AS n, MAX(value) AS m FROM big"})
    assert found["columns"] == {"n": "bigint", "m": "bigint"} and found["rows"][0]["n"] >= len(lines)
    unknown = served.post("/sql", {"text": "SELECT * FROM bgi"}, expected=400)["error"]
    assert unknown.startswith("unknown table bgi; tables: ")
    # a reader that follows sees the rows of a later tick
    more: list[bytes] = []
    path = f"/queries/big/results?follow=true&since={last}"

    def follow() -> None:
        import http.client

        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=600)
        connection.request("GET", path, headers={"authorization": f"Bearer {TOKEN}"})
        answer = connection.getresponse()
        more.append(answer.readline())
        answer.close()
        connection.close()

    thread = threading.Thread(target=follow)
    thread.start()
    thread.join(600)
    assert json.loads(more[0])["tick"] > last


def _a_program_opens_a_page_of_its_own(run: Run) -> None:
    with run.dashboard(opens=False) as dashboard:
        asking = Client(int(dashboard.url.rpartition(":")[2]), dashboard._live.keys.token)
        # it begins with ticks that were before it
        first = wait_for_ticks(asking, 1)[0]
        assert first["tick"] <= run.status().ticks
        last = wait_for_ticks(asking, run.status().ticks - first["tick"] + 2)[-1]
        assert last["streams"]["beats"][5] <= run.status().streams["beats"].rows_in
        asking.post("/sql", {"text": "ALTER QUERY odd SET (latency = '50 s')"})
        assert run.settings().latency_s["odd"] == 50
    assert run.is_running


def wait_for_ticks(asking: Client, number: int) -> list[Any]:
    wait_for(lambda: len(asking.get("/history")["ticks"]) >= number, 300)
    found: list[Any] = asking.get("/history")["ticks"]
    return found


def _page_shows_and_steers(served: Served) -> None:
    assert served.session is not None and served.session.run is not None
    run = served.session.run
    with opened(f"http://127.0.0.1:{served.port}/?link={served.live.keys.new_link()}") as page:
        page.until("document.querySelector('#run-state').innerText === 'running'")
        page.until(r"/^tick \d/.test(document.querySelector('#at').innerText)")
        # the network of the run, its streams and queries
        names = page.run("[...document.querySelectorAll('.node')].map(n => n.dataset.name)")
        assert set(names) == {*run.network.streams, *run.network.operators, *run.network.queries}
        page.until("document.querySelector('.node.stream').textContent.match(/[1-9][0-9,.]* rows.s in/)")
        page.until("document.querySelector('[data-stream=beats]').innerText.match(/[1-9]/)")
        page.until("document.querySelector('#queries [data-query=big]').innerText.includes(' of 60 s')")
        page.until("document.querySelectorAll('#time .backlog').length === 1")
        page.until("document.querySelectorAll('#charts .chip.ran').length > 0")
        assert "No pool" in page.text("#pools")
        # the controller's decisions: a keep ratio set by hand
        run.shed({"beats": 0.5})
        page.until("document.querySelector('#decisions').innerText.includes('set by hand: keep 0.5')", 300)
        page.until(
            "Number(document.querySelector('[data-stream=beats] td:nth-child(5)').innerText[0]) > 0", 60
        )
        # strategy, budget and bounds
        page.fill("#set-strategy", "chain")
        page.fill("#set-memory", "32 MB")
        page.fill("#set-budget", "700 ms")
        page.fill("#settings-form [data-query=odd]", "45 s")
        page.click("#apply")
        page.until("document.querySelector('#applied').innerText.startsWith('in force')")
        page.until("document.querySelector('#strategy-name').innerText === 'chain'")
        settings = run.settings()
        assert (settings.strategy, settings.memory_bytes) == ("chain", 32 * 2**20)
        assert settings.tick_budget_s == 0.7
        assert settings.latency_s == {"big": 60.0, "odd": 45.0}
        # a statement: explained, and a SELECT over results
        page.fill(
            "#statement",
            "CREATE QUERY small WITH (overload = 'shed') AS SELECT value FROM beats WHERE value % 5 = 0;",
        )
        page.click("#check")
        page.until("document.querySelector('#answer pre')?.innerText.includes('small')", 300)
        assert page.text("#answer .verdict")
        page.click("#execute")
        page.until("document.querySelector('#answer .verdict.good')?.innerText === 'in force'", 300)
        page.until("[...document.querySelectorAll('.node.query')].some(n => n.dataset.name === 'small')", 300)
        assert "small" in run.network.queries
        page.fill("#statement", "SELECT COUNT(*) AS n FROM big")
        page.click("#execute")
        page.until("Number(document.querySelector('#answer td')?.innerText) > 0", 300)
        assert page.complaints == []

"""The dashboard in a real Chromium: every panel shows the values of the run, and controls take effect."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from tests.fake_runs import FakePools, behind
from tests.server.browser import Page, needs_browser, opened
from tests.server.support import QUERIES, STREAMS, Served, replaying, serving, ticks

from headgate.control.admission import Refused
from headgate.spark.eddies.pools import PoolStatus

pytestmark = [needs_browser, pytest.mark.slow]

TICKS = 40
POOL = "CREATE POOL web SLOTS 3;"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    with (
        pytest.MonkeyPatch.context() as monkeypatch,
        serving(monkeypatch, folder, POOL + STREAMS + QUERIES, record=True) as found,
    ):
        calls = count(1)
        status = PoolStatus(3, 0, 0, 0.0)
        monkeypatch.setattr(
            FakePools, "status", lambda self: {"web": replace(status, calls=10 * next(calls))}
        )
        assert found.session is not None and found.session.run is not None
        found.emit(*ticks(found.session.run.network, TICKS))
        yield found


@pytest.fixture(scope="module")
def browser(served: Served) -> Iterator[Page]:
    with opened(f"http://127.0.0.1:{served.port}/?link={served.live.keys.new_link()}") as found:
        yield found


@pytest.fixture
def page(served: Served, browser: Page) -> Iterator[Page]:
    browser.screen(1366, 800, "light")
    last = served.get("/history")["ticks"][-1]["tick"]
    browser.until(f"document.querySelector('#at').innerText.startsWith('tick {last} ')")
    yield browser
    assert browser.complaints == []


def test_every_panel_shows_the_values_of_the_last_tick(served: Served, page: Page) -> None:
    last = served.get("/history")["ticks"][-1]
    assert page.text("#run-state") == "running"
    # figures
    assert "rows/s" in page.text("#figure-in")
    assert page.text("#figure-busy .value").startswith(f"{round(last['busy'] * 100)} %")
    # the graph
    network = served.get("/operators")
    shown = page.run("[...document.querySelectorAll('.node')].map(n => n.dataset.name)")
    expected = [one["name"] for kind in ("streams", "operators", "queries") for one in network[kind]]
    assert sorted(shown) == sorted(expected)
    for name, (_, waiting, _) in last["operators"].items():
        found = page.run(
            f"document.querySelector('.node.operator[data-name={json.dumps(name)}]').dataset.waiting"
        )
        assert int(found) == waiting
    # backlog and processors over time, with tick boundaries
    number = last["tick"] + 1
    assert page.run("document.querySelector('#time').getAttribute('aria-valuemax')") == str(number - 1)
    boundaries = page.run("document.querySelector('#time .boundary').getAttribute('d')")
    assert boundaries.count("M") == number
    # latency against bounds
    assert "of 4 s" in page.text("[data-query=talkers] .say")
    assert "no bound" in page.text("#queries [data-query=big] .say")
    # streams
    cells = page.text("[data-stream=packets]").split()
    total = last["streams"]["packets"][5]
    assert cells[2] == (f"{float(f'{total / 1e3:.3g}'):g}" if total >= 1e4 else f"{total:,}")
    # the strategy, and the segments that ran
    assert page.text("#strategy-name") == "fifo"
    charts = served.get("/strategy")["charts"]
    assert page.run("document.querySelectorAll('#charts .chart').length") == len(charts)
    assert page.run("document.querySelectorAll('.chip.ran').length") > 0
    # the controller's decisions with their reasons
    assert "the next tick would take 2.9 s where 1.8 s are wanted: keep 0.7 of flows" in page.text(
        "#decisions"
    )
    # pools, with their shares of all calls
    assert page.text("[data-pool=web] b") == "100 %"
    assert "3 slots" in page.text("[data-pool=web]")


def test_a_tick_that_comes_is_shown_and_an_earlier_one_by_keys(served: Served, page: Page) -> None:
    assert served.session is not None and served.session.run is not None
    served.emit(*ticks(served.session.run.network, TICKS + 3)[-3:])
    page.until(f"document.querySelector('#at').innerText.startsWith('tick {TICKS + 2}')")
    page.run("document.querySelector('#time').focus()")
    page.key("ArrowLeft")
    page.until(f"document.querySelector('#at').innerText.startsWith('tick {TICKS + 1}')")
    assert page.run("document.querySelector('#live').hidden") is False
    page.key("Escape")
    page.until(f"document.querySelector('#at').innerText.startsWith('tick {TICKS + 2}')")
    page.run("document.activeElement.blur()")
    page.key("/")
    assert page.run("document.activeElement.id") == "statement"
    page.run("document.activeElement.blur()")
    page.run("document.querySelector('.node.operator').focus()")
    assert "per tuple" in page.text("#detail")


def test_a_statement_is_explained_before_it_is_executed(served: Served, page: Page) -> None:
    page.fill("#statement", "CREATE QUERY small AS SELECT src FROM packets WHERE bytes < 10;")
    page.click("#check")
    page.until("document.querySelector('#answer pre')?.innerText.includes('small')")
    assert page.text("#answer .verdict")
    assert "small" not in served.get("/names")["query"]
    page.fill("#statement", "SHOW QUERIES")
    page.click("#execute")
    page.until("document.querySelector('#answer pre')?.innerText.includes('talkers')")
    page.fill("#statement", "SHOW NONSENSE")
    page.click("#execute")
    page.until("document.querySelector('#answer .verdict.bad')?.innerText.startsWith('sql:1:6')")
    page.complaints.clear()


def test_strategy_budget_and_bounds_are_changed_from_the_page(served: Served, page: Page) -> None:
    page.fill("#set-strategy", "chain")
    page.fill("#set-memory", "3 MB")
    page.fill("#set-budget", "300 ms")
    page.fill("#settings-form [data-query=big]", "2.5 s")
    page.click("#apply")
    page.until("document.querySelector('#applied').innerText.startsWith('in force')")
    assert served.session is not None
    [(strategy, *others)] = behind(served.session.run).changes
    assert [strategy.name, *others] == ["chain", 3 * 2**20, {"big": 2.5}, 0.3]
    page.fill("#set-strategy", "nonsense")
    page.click("#apply")
    page.until("document.querySelector('#applied').innerText.startsWith('unknown strategy nonsense')")
    page.complaints.clear()


def test_a_refused_query_is_let_in_only_on_demand(
    served: Served, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, bool]] = []

    def execute(text: str, origin: str, force: bool) -> None:
        asked.append((text, force))
        if not force:
            raise Refused("query small: latency p99 would be 9 s, 4.5 times its bound of 2 s")

    assert served.session is not None
    monkeypatch.setattr(served.session, "execute", execute)
    monkeypatch.setattr(served.session, "answers", ())
    statement = "CREATE QUERY small AS SELECT src FROM packets;"
    page.fill("#statement", statement)
    page.click("#execute")
    page.until("document.querySelector('#answer .verdict.bad')?.innerText.startsWith('query small: latency')")
    # what was refused is let in, whatever has been typed since
    page.fill("#statement", "SHOW QUERIES")
    page.click("#insist")
    page.until("document.querySelector('#answer .verdict.good')?.innerText === 'in force'")
    assert asked == [(statement, False), (statement, True)]
    page.complaints.clear()


@pytest.mark.parametrize(("width", "scheme"), [(1366, "dark"), (390, "light")])
def test_nothing_is_wider_than_the_screen(page: Page, width: int, scheme: str) -> None:
    page.screen(width, 800, scheme)
    page.until(f"document.documentElement.clientWidth <= {width}")
    page.until("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    # the network is drawn anew for the room that it has
    page.until("(e => e.scrollWidth <= e.clientWidth)(document.querySelector('#graph'))")
    ground = page.run("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(11, 19, 24)") == (scheme == "dark")


def test_rows_are_shown_as_they_are(served: Served, page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    markup = "<img src=x onerror=alert(1)>"
    table = pa.table(
        {
            markup: [f"{markup}</script>", '9007199254740993, "-9007199254740993" \\'],
            "n": [9007199254740993, None],
            "deep": [{"a": [-9007199254740993], "b": 0.25}, None],
        }
    )
    found = SimpleNamespace(columns={markup: "string", "n": "bigint", "deep": "struct<>"}, table=table)
    assert served.session is not None
    monkeypatch.setattr(served.session, "select_rows", lambda text, most: found)
    page.fill("#statement", "SELECT * FROM big")
    page.click("#execute")
    page.until("document.querySelectorAll('#answer td').length === 6")
    assert page.run("[...document.querySelectorAll('#answer th, #answer td')].map(e => e.textContent)") == [
        *(markup, "n", "deep"),
        *(f"{markup}</script>", "9007199254740993", '{"a":["-9007199254740993"],"b":0.25}'),
        *('9007199254740993, "-9007199254740993" \\', "null", "null"),
    ]
    assert page.run("document.querySelectorAll('#answer img, #answer script').length") == 0


def test_markup_in_a_statement_is_shown_as_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    markup = "<img src=x onerror=alert(1)>"
    text = f"{STREAMS} CREATE QUERY q AS SELECT src FROM packets WHERE src = '{markup}';"
    with serving(monkeypatch, tmp_path, text) as served:
        assert served.session is not None and served.session.run is not None
        served.emit(*ticks(served.session.run.network, 2))
        with opened(f"http://127.0.0.1:{served.port}/?link={served.live.keys.new_link()}") as page:
            page.until("document.querySelectorAll('.node.operator').length > 0")
            page.run("document.querySelector('.node.operator').focus()")
            page.until("document.querySelector('#detail').innerText.includes('onerror')")
            assert markup in page.text("#detail")
            assert page.run("document.querySelectorAll('main img').length") == 0
            assert page.complaints == []


def test_a_recorded_run_is_shown_at_any_of_its_ticks(served: Served, folder: Path) -> None:
    last = served.get("/history")["ticks"][-1]["tick"]
    with replaying(folder) as recorded:
        with opened(f"http://127.0.0.1:{recorded.port}/?link={recorded.live.keys.new_link()}") as page:
            page.until(f"document.querySelector('#at').innerText.startsWith('tick {last} ')")
            assert page.text("#run-state") == "recorded run"
            assert page.run("document.querySelector('#execute').disabled") is True
            page.run(
                "(e => { e.value = Number(e.min) + 10; e.dispatchEvent(new Event('input')); })"
                "(document.querySelector('#until'))"
            )
            page.until("document.querySelector('#at').innerText.startsWith('tick 10 ')")
            assert page.complaints == []
        assert recorded.error("GET", "/events")[0] == 409
        assert recorded.post("/sql", {"text": "SHOW QUERIES"}, expected=409)["error"].startswith(
            "this is the"
        )

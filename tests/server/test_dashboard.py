"""The dashboard that a program or a notebook opens of its own run."""

from __future__ import annotations

import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from tests.fake_runs import behind, without_spark
from tests.server.browser import needs_browser, opened
from tests.server.support import QUERIES, STREAMS, Client, ticks, wait_for

from headgate.errors import SetupError
from headgate.scheduling.baselines import Fifo
from headgate.server import dashboard
from headgate.session.handle import Run
from headgate.session.run_settings import Launched, RunSettings
from headgate.session.session import Session


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with without_spark(monkeypatch, Session()) as found:
        found.execute(STREAMS + QUERIES)
        yield found


@pytest.fixture
def run(session: Session) -> Run:
    """A run that has been on for some ticks."""
    found = session.start()
    found._launched = Launched(RunSettings(Fifo(), found._statistics), [found._recorder])
    committed(found, 0, 4)
    return found


def committed(run: Run, begin: int, end: int) -> None:
    assert run._launched is not None
    for event in ticks(run.network, end, time.time())[begin:]:
        run._recorder(event)
        run._launched.followers(event)


def client(found: dashboard.Dashboard) -> Client:
    return Client(int(found.url.rpartition(":")[2]), found._live.keys.token)


def test_it_shows_a_run_from_its_last_minutes_on_and_takes_statements(session: Session, run: Run) -> None:
    with run.dashboard() as found:
        asking = client(found)
        wait_for(lambda: len(asking.get("/history")["ticks"]) == 4)
        committed(run, 4, 6)
        wait_for(lambda: len(asking.get("/history")["ticks"]) == 6)
        last = asking.get("/history")["ticks"][-1]
        rows_in = run.status().streams["packets"].rows_in
        assert last["streams"]["packets"][5] == rows_in == asking.get("/streams")["packets"]["rows_in"]
        [listing] = asking.post("/sql", {"text": "SHOW QUERIES"})["answers"]
        assert [row["query"] for row in listing["rows"]] == ["talkers", "heavy", "big"]
        asking.post("/settings", {"strategy": "chain"})
        assert behind(run).changes[-1][0].name == "chain"
        # the same page, until it is closed
        assert run.dashboard() is found
    assert run.is_running and not found.is_open
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://127.0.0.1:{asking.port}/health", timeout=5)
    with run.dashboard() as another:
        assert another is not found
        wait_for(lambda: len(client(another).get("/history")["ticks"]) == 6)


def test_it_shows_itself_by_a_link(run: Run) -> None:
    found = run.dashboard()
    assert repr(found).startswith(f"<Dashboard: {found.url}/?link=")
    assert f'<a href="{found.url}/?link=' in found._repr_html_()
    found.close()
    found.close()
    assert (repr(found), found._repr_html_()) == ("<Dashboard: closed>", "The dashboard is closed.")
    with pytest.raises(SetupError, match=r"the dashboard is closed; call run.dashboard\(\) for another"):
        found.link()


def test_it_opens_in_the_browser_of_a_machine_that_has_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(dashboard.webbrowser, "open", lambda url: seen.append(url) or True)
    monkeypatch.setattr(dashboard.sys, "platform", "linux")
    run.dashboard()
    assert seen == []
    monkeypatch.setenv("DISPLAY", ":0")
    run.dashboard(opens=False)
    assert seen == []
    found = run.dashboard()
    [url] = seen
    assert url.startswith(f"{found.url}/?link=")


def test_it_is_closed_with_the_session_and_not_opened_of_a_run_that_is_over(
    session: Session, run: Run
) -> None:
    found = run.dashboard()
    for port in (-1, True, "8640"):
        with pytest.raises(SetupError, match=r"^port = .*write a whole number such as 8640"):
            run.dashboard(port)
    session.close()
    assert not found.is_open
    with pytest.raises(SetupError, match="dashboard has no effect: the run is over"):
        run.dashboard()


def test_statements_of_the_page_and_of_the_program_take_turns(session: Session, run: Run) -> None:
    with run.dashboard() as found:
        answers: list[Any] = []
        asking = client(found)
        with session.turn:
            thread = threading.Thread(
                target=lambda: answers.append(asking.post("/sql", {"text": "SHOW STREAMS"}))
            )
            thread.start()
            thread.join(0.3)
            assert thread.is_alive()
        thread.join(20)
        assert len(answers) == 1


def test_the_page_of_a_run_that_another_has_followed_takes_no_statement(session: Session, run: Run) -> None:
    with run.dashboard() as found:
        behind(run).over.set()
        session.start()
        refused = client(found).post("/sql", {"text": "SHOW QUERIES"}, expected=400)
        assert refused["error"].startswith("the session has started another run since")


@needs_browser
def test_its_link_opens_the_page(run: Run) -> None:
    with run.dashboard() as found, opened(found.link()) as page:
        page.until("document.querySelector('#at').innerText.startsWith('tick 3 ')")
        assert page.text("#run-state") == "running"
        assert page.complaints == []

"""How sessions, runs and results show themselves: one line in a prompt, escaped HTML in a notebook."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fake_runs import a_run
from tests.report.test_report import a_status

from headgate import Session
from headgate.formats.html import html_paragraph, html_table, html_text
from headgate.model.profile import Profile, TickCosts
from headgate.queueing.advice import Advice
from headgate.scheduling.chain_envelope import ProgressChart
from headgate.statistics.profile_file import Measured

EVIL = "<script>alert('x')</script> & \"q\""
TAGS = {"table", "caption", "thead", "tbody", "tr", "th", "td", "p", "pre"}


class Page(HTMLParser):
    """The tags and texts of a piece of HTML, whose tags must match."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@given(st.text(), st.lists(st.tuples(st.text(), st.text())))
def test_whatever_the_texts_are_a_table_has_its_own_tags_alone(
    caption: str, rows: list[tuple[str, str]]
) -> None:
    page = Page(html_table((caption, "b"), rows, caption) + html_paragraph(caption) + html_text(caption))
    assert page.tags <= TAGS


def measured() -> Measured:
    profiles = {"a.select": Profile(2e-6, 0.5, 40.0, 3), "a.project": Profile(1e-6, 1.0, 20.0, 3)}
    return Measured(profiles, {"s": 200.0}, TickCosts(0.2, 0.0, 0.5), {"a.select": {EVIL: Profile()}})


@pytest.fixture
def session() -> Session:
    return Session().execute(f"""
        CREATE STREAM s (ts BIGINT, v STRING) FROM csv OPTIONS (path 's/', timestamp 'ts');
        CREATE RELATION r FROM parquet OPTIONS (path 'r/');
        CREATE QUERY a AS SELECT v FROM s WHERE v > '{EVIL.replace("'", "")}';
    """)


def advice(session: Session) -> Advice:
    names = session.network().operators
    session.measured = Measured(dict.fromkeys(names, Profile(1e-3)), {"s": 10.0}, TickCosts(0.2, 0.0, 0.5))
    return session.advise()


def test_everything_is_one_line_in_a_prompt(session: Session, tmp_path: Path) -> None:
    [plan], chart = session.plans(), ProgressChart.of(list(measured().profiles.values()))
    run, _ = a_run(tmp_path)
    expected = {
        session: "<Session: 1 query (a) over 1 stream; not started>",
        plan: "<LogicalPlan of query a over s>",
        session.network(): "<Network of 2 operators for 1 query: a>",
        run: "<Run of 1 query (q): running; 0 ticks in 0.0 s; backlog 0 tuples, 0 at most>",
        chart: "<ProgressChart of 2 operators: 1 segment, 2.5e-06 s to size 0>",
    }
    for shown, line in expected.items():
        assert repr(shown) == line
    assert repr(a_status()) == (
        "<RunStatus: 10,000 rows in, 1,234,567 out; 3 ticks in 3.0 s; backlog 0 tuples, 200 at most>"
    )
    assert repr(measured()) == "<Measured: 2 operators, 1 stream, ticks of 0.2 s and more>"
    advised = repr(advice(session))
    assert advised.startswith("<Advice on 1 query: all fit up to x ")
    basis = "model: ticks as profiled, of 0.2 s or more; processors: 2; percentile: p99"
    assert advised.endswith(f"; {basis}>") and basis in Page(advice(session)._repr_html_()).texts
    run.stop()
    assert ": over; " in repr(run)


def test_everything_is_escaped_html_in_a_notebook(session: Session, tmp_path: Path) -> None:
    run, _ = a_run(tmp_path)
    run._recorder.warn(EVIL)
    status = replace(a_status(), warnings=(EVIL,))
    [plan] = session.plans()
    for shown in (
        session,
        session.explain(),
        plan,
        session.network(),
        run,
        status,
        measured(),
        advice(session),
    ):
        page = Page(shown._repr_html_())
        assert page.tags <= TAGS and page.texts
    assert EVIL in " ".join(Page(status._repr_html_()).texts)
    assert EVIL in " ".join(Page(run._repr_html_()).texts)
    assert EVIL in " ".join(Page(measured()._repr_html_()).texts)


def test_the_numbers_of_a_status_are_in_its_table() -> None:
    texts = Page(a_status()._repr_html_()).texts
    assert {"quick", "1,234,567", "0.25", "packets", "10,000", "silent", "-"} <= set(texts)


def test_a_chart_draws_itself() -> None:
    image = ProgressChart.of(list(measured().profiles.values()))._repr_html_()
    assert image.startswith("<svg") and image.rstrip().endswith("</svg>")
    assert "lower envelope" in image

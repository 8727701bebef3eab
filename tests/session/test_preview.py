"""A preview: plans and advice of statements, which are then as if they had never been written."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fake_runs import a_run, behind, without_spark

from headgate import QueryError, Session, SetupError
from headgate.model.profile import Profile, TickCosts
from headgate.statistics.profile_file import Measured

SCRIPT = """
CREATE STREAM s (ts BIGINT, v INT) FROM csv OPTIONS (path 's/', timestamp 'ts');
CREATE QUERY a WITH (latency = '2 s') AS SELECT v FROM s WHERE v > 1;
"""
NEW = "CREATE QUERY b WITH (latency = '2 s') AS SELECT v FROM s WHERE v > 5;"


def measured(session: Session, seconds_per_tuple: float) -> Measured:
    known = dict.fromkeys(session.network().operators, Profile(seconds_per_tuple, 0.5))
    return Measured(known, {"s": 100.0}, TickCosts(0.2, 0.0, 0.5), processors=2)


def test_nothing_is_declared_and_plans_made_before_are_still_those_of_the_session() -> None:
    session = Session(master="local[2]").execute(SCRIPT)
    before = session.network()
    found = session.preview(f"{NEW} CREATE STREAM t (v INT) FROM rate; SET strategy = 'chain';")
    assert "b" in str(found.explanation) and "query a" not in str(found.explanation)
    assert list(session.catalog.queries) == ["a"] and list(session.catalog.streams) == ["s"]
    assert session.options.value("strategy") == "fifo"
    assert session.network().fingerprint == before.fingerprint
    session.execute(NEW)
    assert list(session.network().queries) == ["a", "b"]


def test_advice_is_on_all_queries_together_and_left_out_with_its_reason() -> None:
    session = Session(master="local[2]").execute(SCRIPT)
    assert session.preview(NEW).to_json()["advice"] == (
        "nothing has been measured yet; advice comes with the first ticks"
    )
    whole = Session(master="local[2]").execute(SCRIPT + NEW)
    for seconds_per_tuple, fits in ((1e-5, True), (1.0, False)):
        session.measured = measured(whole, seconds_per_tuple)
        found = session.preview(NEW)
        document = found.to_json()
        assert (found.fits, document["fits"]) == (fits, fits)
        assert set(document["queries"]) == {"a", "b"}
        assert bool(document["queries"]["b"]["broken"]) is not fits
    # of the new query nothing has been measured
    for seconds_per_tuple, fits in ((1e-5, True), (1.0, False)):
        session.measured = measured(session, seconds_per_tuple)
        found = session.preview(NEW)
        assert found.fits is fits
        assert "estimates of operator b.select_s (as a.select_s)" in found.to_json()["advice"]
    of_another_kind = session.preview("CREATE QUERY c AS SELECT COUNT(*) AS n FROM s [TUMBLE 1 SECOND];")
    assert of_another_kind.fits is None
    assert of_another_kind.reason.startswith("the profile has no profile of operator c.aggregate")


def test_an_error_is_that_of_execute_and_changes_nothing() -> None:
    session = Session().execute(SCRIPT)
    with pytest.raises(QueryError, match="sql:1:"):
        session.preview("CREATE QUERY b AS SELECT nothing FROM s", "sql")
    assert list(session.catalog.queries) == ["a"]


def test_a_preview_rests_on_the_statistics_of_the_run_that_is_on(monkeypatch: pytest.MonkeyPatch) -> None:
    session = without_spark(monkeypatch, Session().execute(SCRIPT))
    run = session.start()
    monkeypatch.setattr(type(run), "measured", lambda self: measured(session, 1e-5))
    assert session.preview(NEW).fits is True
    assert session.preview("CREATE STREAM u (v INT) FROM rate").fits is True
    behind(run).over.set()
    assert session.preview(NEW).reason.startswith("nothing has been measured yet")


def test_selects_need_a_run() -> None:
    with pytest.raises(SetupError, match="there are no results to select from: no run has been started"):
        Session().select("SELECT 1")


def test_selects_only_read() -> None:
    with pytest.raises(QueryError, match="a SELECT reads tables"):
        Session().select("WITH x AS (SELECT 1) INSERT INTO y SELECT * FROM x")


def test_a_run_tells_its_network_settings_and_progress_charts(tmp_path: Path) -> None:
    run, _ = a_run(tmp_path)
    settings = run.settings()
    assert (settings.strategy, settings.memory_bytes, settings.tick_budget_s) == ("fifo", 1e6, 1.0)
    assert settings.latency_s == {"q": None} and "chain" in settings.strategies
    charts = run.progress_charts()
    assert list(charts) == list(run.network.paths())
    assert all(len(chart.points) == len(path) + 1 for path, chart in charts.items())
    assert len(run.progress_charts(most=1)) == 1

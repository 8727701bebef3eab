"""DROP, OR REPLACE, SHOW, DESCRIBE and SET in a session; none of this needs Spark."""

from __future__ import annotations

import copy
from collections.abc import Callable
from operator import index, truth
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from tests.fake_runs import without_spark

from headgate import HeadgateError, QueryError, Session, SetupError
from headgate.control.admission import Refused
from headgate.control.overrides import Overrides
from headgate.model.network import Column, Network, Schema, StreamDefinition
from headgate.routing.policies import Optimal
from headgate.scheduling.baselines import Fifo
from headgate.scheduling.chain_envelope import Chain
from headgate.session.run_settings import RunSettings
from headgate.statistics.profile_file import Measured

SCRIPT = """
CREATE STREAM s (ts BIGINT, v INT) FROM csv OPTIONS (path 's/', timestamp 'ts');
CREATE POOL web SLOTS 1;
CREATE FUNCTION odd AS 'operator:index' RETURNS boolean;
CREATE QUERY a AS SELECT v FROM s WHERE v > 1;
"""


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    return without_spark(monkeypatch, Session().execute(SCRIPT))


def test_a_refused_query_that_replaces_another_leaves_the_other(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = session.catalog.queries["a"]
    refusal = Mock(side_effect=Refused("too much"))
    monkeypatch.setattr("headgate.session.declarations.check_admission", refusal)
    session.measured = Measured({})
    with pytest.raises(Refused):
        session.execute("CREATE OR REPLACE QUERY a AS SELECT v FROM s; CREATE QUERY b AS SELECT v FROM s")
    assert session.catalog.queries == {"a": before}


def test_only_queries_that_a_text_leaves_behind_are_admitted(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = Mock()
    monkeypatch.setattr("headgate.session.declarations.check_admission", check)
    session.measured = Measured({})
    session.execute(
        "CREATE QUERY b AS SELECT v FROM s; DROP QUERY b; CREATE QUERY IF NOT EXISTS a AS SELECT 1 FROM x"
    )
    assert not check.called
    session.execute("CREATE QUERY b AS SELECT v FROM s; CREATE OR REPLACE QUERY a AS SELECT v FROM s")
    assert check.call_args.args[1] == ["b", "a"]


def test_answers_are_those_of_the_last_text_in_order(session: Session) -> None:
    assert session.execute("SHOW QUERIES; DROP QUERY a; SHOW QUERIES; DESCRIBE s") is session
    assert [answer.statement for answer in session.answers] == ["SHOW QUERIES", "SHOW QUERIES", "DESCRIBE s"]
    assert str(session.answers[0]) == "query  reads  into    with\na      s      memory  -"
    assert str(session.answers[1]) == "no queries"
    assert session.execute("SET seed = 1").answers == ()


def test_what_is_shown_and_described_is_what_the_statements_give(session: Session) -> None:
    for what in ("streams", "RELATIONS", "queries", "functions", "pools", "settings"):
        assert session.show(what) == session.execute(f"SHOW {what}").answers[0]
    for name in ("s", "A", "odd", "web"):
        assert session.describe(name) == session.execute(f"DESCRIBE {name}").answers[0]
    [kind] = session.execute("DESCRIBE FUNCTION odd").answers
    assert session.describe("odd", kind="function") == kind


def test_answers_have_a_form_for_json(session: Session) -> None:
    session.execute("CREATE QUERY b WITH (latency = '2 s') AS SELECT odd(v) FROM s; PLACE PROBE OF s ON web")
    assert session.show("queries").to_json() == {
        "statement": "SHOW QUERIES",
        "rows": [
            {"query": "a", "reads": ["s"], "into": "memory", "with": {}},
            {"query": "b", "reads": ["s"], "into": "memory", "with": {"latency": "2 s"}},
        ],
    }
    assert session.describe("s").to_json() == {
        "statement": "DESCRIBE s",
        "stream": "s",
        "format": "csv",
        "columns": {"ts": "BIGINT", "v": "INT"},
        "timestamp": "ts",
        "watermark": "0 s",
        "idle_after": "10 s",
        "max_ahead": "366 d",
        "probed_on": "web",
        "options": {"path": "s/"},
        "read_by": ["a", "b"],
    }


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda session: session.show("tables"), "what = 'tables' is wrong; write one of 'streams', 'relat"),
        (lambda session: session.show(3), "what = 3 is wrong; write a text such as 'streams'"),
        (
            lambda session: session.describe("od"),
            r"unknown name od; did you mean odd\? known: a, odd, s, web",
        ),
        (lambda session: session.describe("s", kind="pool"), "s is a stream, not a pool; write STREAM s"),
        (
            lambda session: session.describe("s", kind="table"),
            "kind = 'table' is wrong; write one of 'stream'",
        ),
        (lambda session: session.describe(None), "name = None is wrong; write a name such as 'packets'"),
    ],
)
def test_questions_that_make_no_sense_are_one_line(
    session: Session, ask: Callable[[Session], object], message: str
) -> None:
    with pytest.raises(HeadgateError, match=f"^{message}"):
        ask(session)


def test_a_text_that_is_wrong_sets_drops_and_answers_nothing(session: Session) -> None:
    session.execute("SET seed = 3; SHOW POOLS")
    frame = session._frames["f"] = Mock()
    session.catalog.add_stream(StreamDefinition("f", "dataframe", Schema((Column("v", "INT"),))))
    before = copy.deepcopy(session.catalog.queries), dict(session._functions), session.answers
    with pytest.raises(QueryError, match="unknown column w"):
        session.execute("""
            SET seed = 4; SET strategy = chain; DROP FUNCTION odd; DROP STREAM f; SHOW STREAMS;
            CREATE OR REPLACE QUERY a AS SELECT v FROM s WHERE v > 2; CREATE QUERY b AS SELECT w FROM s;
        """)
    assert (session.catalog.queries, session._functions, session.answers) == before
    assert (session.options.value("seed"), session.options.value("strategy")) == (3, "fifo")
    assert session._frames == {"f": frame}


def test_a_query_that_could_not_go_on_is_named(session: Session) -> None:
    session.execute("CREATE QUERY b AS SELECT ts FROM s;", "b.sql")
    other = "CREATE OR REPLACE STREAM s (ts BIGINT, w INT) FROM csv OPTIONS (path 's/', timestamp 'ts');"
    with pytest.raises(QueryError) as raised:
        session.execute(other)
    # its place is in an earlier text
    assert str(raised.value) == "query a could not go on: unknown column v; columns: ts, w"
    with pytest.raises(QueryError, match=r"^<cql>:1:26: unknown column w; columns: ts, v$"):
        session.execute("CREATE QUERY c AS SELECT w FROM s")


def test_queries_are_checked_against_what_is_replaced_below_them(session: Session) -> None:
    with pytest.raises(QueryError, match="unknown column v; columns: w"):
        session.execute("CREATE OR REPLACE STREAM s (w INT) FROM rate; CREATE STREAM t (v INT) FROM rate")
    assert session.show("streams").rows[0][:3] == ("s", "csv", 2)
    session.execute(
        "CREATE OR REPLACE STREAM s (w INT) FROM rate; CREATE OR REPLACE QUERY a AS SELECT w FROM s"
    )
    assert session.show("streams").rows[0][:3] == ("s", "rate", 1)


def test_questions_are_answered_while_a_run_is_on(session: Session) -> None:
    session.start()
    assert len(session.execute("SHOW QUERIES; DESCRIBE a").answers) == 2
    assert session.show("queries").rows
    with pytest.raises(SetupError, match=r"SET is for runs that are started later; run\.change"):
        session.execute("SET seed = 1")
    for text in ("DROP QUERY a", "SHOW QUERIES; CREATE POOL x SLOTS 1"):
        with pytest.raises(SetupError, match="the run of a is on"):
            session.execute(text)


def test_answers_show_themselves_in_notebooks(session: Session) -> None:
    session.execute("CREATE QUERY b AS SELECT v FROM s WHERE v < 1")
    assert '<td style="text-align: left">a, b</td>' in session.show("streams")._repr_html_()
    assert "v &lt; 1" in session.describe("b")._repr_html_()


def test_functions_follow_the_catalog(session: Session) -> None:
    assert session._functions["odd"] is index
    # what is there already is not looked for
    session.execute("CREATE FUNCTION IF NOT EXISTS ODD AS 'nowhere.py:odd' RETURNS boolean")
    session.execute("CREATE OR REPLACE FUNCTION Odd AS 'operator:truth' RETURNS boolean")
    assert (list(session._registered), session._functions) == (["Odd"], {"odd": truth})
    assert session.show("functions").rows == (("Odd", "boolean", "operator:truth", None, ()),)
    session.execute("DROP FUNCTION odd")
    assert (session._registered, session._functions) == ({}, {})


def test_a_dataframe_goes_with_its_stream(session: Session) -> None:
    frames = session._frames
    frames.update({"f": Mock(), "g": Mock(), "h": Mock()})
    for name in frames:
        session.catalog.add_stream(StreamDefinition(name, "dataframe", Schema((Column("v", "INT"),))))
    session.execute("DROP STREAM F; CREATE OR REPLACE STREAM g (v INT) FROM rate")
    assert list(frames) == ["h"]


@pytest.fixture
def started(session: Session, monkeypatch: pytest.MonkeyPatch) -> list[RunSettings]:
    """The settings of runs, which are over at once."""
    runs: list[RunSettings] = []

    def launch(network: Network, settings: RunSettings) -> SimpleNamespace:
        runs.append(settings)
        return SimpleNamespace(is_running=False)

    monkeypatch.setattr(session, "_launcher", lambda: SimpleNamespace(launch=launch))
    monkeypatch.setattr(session, "_network_on", lambda checkpoint: session.network())
    return runs


def test_what_is_set_applies_to_every_later_run(session: Session, started: list[RunSettings]) -> None:
    session.execute("""
        SET strategy = chain; SET tick_budget = 500 ms; SET memory = 1KB; SET checkpoint = 'state';
        SET until_done = true; SET balance_pools = true; SET seed = 7; SET for = DEFAULT;
    """)
    session.start()
    session.start()
    for settings in started:
        assert isinstance(settings.strategy, Chain)
        assert (settings.tick_budget_s, settings.memory_bytes, settings.checkpoint) == (0.5, 1024, "state")
        assert (settings.until_done, settings.balance_pools) == (True, True)
        assert settings.overrides is not None and settings.overrides.seed == 7
    # a strategy has state
    assert started[0].strategy is not started[1].strategy


def test_an_argument_goes_before_what_is_set(session: Session, started: list[RunSettings]) -> None:
    session.execute("SET strategy = chain; SET tick_budget = 500 ms; SET until_done = true; SET seed = 7")
    session.start(strategy="fifo", tick_budget="2 s", until_done=False, seed=0)
    [settings] = started
    assert isinstance(settings.strategy, Fifo)
    assert (settings.tick_budget_s, settings.until_done) == (2.0, False)
    assert settings.overrides is not None and settings.overrides.seed == 0


def test_without_options_a_run_has_the_defaults(session: Session, started: list[RunSettings]) -> None:
    session.execute("SET strategy = chain; SET strategy = DEFAULT")
    session.start()
    [settings] = started
    assert isinstance(settings.strategy, Fifo)
    assert isinstance(settings.routing, Optimal)
    assert (settings.tick_budget_s, settings.memory_bytes, settings.checkpoint) == (None, None, None)
    assert (settings.until_done, settings.balance_pools) == (False, False)
    assert settings.overrides == Overrides()


def test_streams_to_shed_are_named_in_any_case_and_checked_at_the_start(
    session: Session, started: list[RunSettings]
) -> None:
    session.execute(
        "CREATE OR REPLACE QUERY a WITH (overload = 'shed') AS SELECT v FROM s; SET keep = 'S=0.5'"
    )
    session.start()
    assert started[0].overrides == Overrides(keep={"s": 0.5})
    session.execute("SET keep = 't=0.5'", origin="net.sql")
    with pytest.raises(QueryError, match=r"^net.sql:1:12: keep: unknown stream t; known: s$"):
        session.start()
    session.start(keep={"s": 0.25})
    assert started[1].overrides == Overrides(keep={"s": 0.25})


def test_join_orders_can_be_set(session: Session, started: list[RunSettings]) -> None:
    session.execute("""
        CREATE STREAM t (ts BIGINT, v INT) FROM csv OPTIONS (path 't/', timestamp 'ts');
        CREATE QUERY j AS SELECT x.v FROM s [ROWS 9] x, t [ROWS 9] y WHERE x.v = y.v;
        SET orders = 'J = y x'
    """)
    session.start()
    assert started[0].overrides == Overrides(orders={"j.join": ("y", "x")})
    session.execute("SET orders = 'a = y x'", origin="net.sql")
    with pytest.raises(QueryError, match=r"^net.sql:1:14: orders: the order y, x does not fit query a"):
        session.start()


def test_altering_a_query_changes_the_settings_that_are_named(session: Session) -> None:
    session.execute("CREATE QUERY b WITH (latency = '9 s', memory = '1 MB') AS SELECT v FROM s")
    session.execute("ALTER QUERY B SET (latency = '2 s', on_error = 'stop')")
    altered = session.network().queries["b"]
    assert (altered.latency_s, altered.memory_bytes, altered.on_error) == (2.0, 2**20, "stop")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("start = 'log'", "start is part of what the query computes; write CREATE OR REPLACE QUERY a"),
        ("latncy = '2 s'", "unknown setting latncy; did you mean latency"),
        ("latency = '0 s'", "latency must be more than 0"),
    ],
)
def test_a_query_is_not_altered_in_what_it_computes_or_by_what_is_wrong(
    session: Session, settings: str, message: str
) -> None:
    with pytest.raises(QueryError, match=message):
        session.execute(f"ALTER QUERY a SET ({settings})")
    assert session.network().queries["a"].latency_s is None


def test_without_a_run_no_query_can_be_paused(session: Session) -> None:
    with pytest.raises(
        QueryError, match="there is no active run whose query could be paused; start one first"
    ):
        session.execute("PAUSE QUERY a")


def test_the_script_of_a_session_declares_what_there_is_now(session: Session) -> None:
    session.execute(
        """CREATE QUERY b AS SELECT v FROM s; ALTER QUERY b SET (latency = '2 s'); ALTER POOL web SLOTS 3;
           CREATE QUERY gone AS SELECT v FROM s; ALTER QUERY gone SET (latency = '1 s'); DROP QUERY gone;
           CREATE OR REPLACE QUERY a AS SELECT v + 1 AS w FROM s"""
    )
    with pytest.raises(QueryError):
        session.execute("CREATE QUERY c AS SELECT v FROM s; CREATE QUERY d AS SELECT w FROM s")
    again = Session().execute(session.script)
    assert "gone" not in session.script
    assert again.network().fingerprint == session.network().fingerprint
    assert again.network().queries == session.network().queries
    assert again.catalog.pools == session.catalog.pools

"""A session declares all or nothing, plans once, and has one run at a time; none of this needs Spark."""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Callable
from operator import index, truth
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from tests.cli.support import invoke
from tests.fake_runs import behind, without_spark

import headgate
from headgate import HeadgateError, QueryError, Session, SetupError
from headgate.control.admission import Refused
from headgate.control.overrides import Overrides
from headgate.handle import RunSettings
from headgate.model.network import Column, Network, Schema, StreamDefinition
from headgate.model.profile import Profile
from headgate.planning import lower
from headgate.routing.policies import Optimal
from headgate.scheduling.baselines import Fifo
from headgate.scheduling.chain_envelope import Chain
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


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary checkpoints go."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.fixture
def binding(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Counts how often a query is bound."""
    counted = Mock(side_effect=lower.bind)
    monkeypatch.setattr(lower, "bind", counted)
    return counted


def test_queries_are_planned_once_for_all_who_ask(binding: Mock) -> None:
    session = Session().execute(SCRIPT)
    network = session.network()
    assert session.network() is network
    assert session._network_on(None) is network
    assert len(session.plans()) == 1
    assert binding.call_count == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda session: session.execute("CREATE QUERY b AS SELECT v FROM s"),
        lambda session: session.execute("CREATE STREAM t (v INT) FROM rate"),
        lambda session: session.execute("CREATE RELATION r (v INT) FROM csv OPTIONS (path 'r/')"),
        lambda session: session.execute("CREATE POOL other SLOTS 2"),
        lambda session: session.execute("ALTER POOL web SLOTS 2"),
        lambda session: session.execute("PLACE odd ON web"),
        lambda session: session.execute("PLACE PROBE OF s ON web"),
        lambda session: session.function("odd", lambda v: v % 2 == 1, "boolean"),
        lambda session: session.catalog.drop_query("a"),
        lambda session: session.execute("DROP QUERY a"),
        lambda session: session.execute("DROP POOL web"),
        lambda session: session.execute("CREATE OR REPLACE QUERY a AS SELECT v FROM s"),
        lambda session: session.execute("CREATE OR REPLACE STREAM s (v INT) FROM rate"),
    ],
)
def test_a_change_of_the_catalog_is_planned_anew(
    session: Session, change: Callable[[Session], object]
) -> None:
    before = session.network()
    change(session)
    assert session.network() is not before
    assert list(session.network().queries) == list(session.catalog.queries)


def declared(session: Session) -> dict[str, Any]:
    """All that a session knows, but for the number of its changes."""
    catalog = {name: copy.copy(table) for name, table in vars(session.catalog).items() if name != "version"}
    return {**catalog, "registered": dict(session._registered), "functions": dict(session._functions)}


FIVE = (
    "CREATE STREAM t (ts BIGINT, w INT) FROM csv OPTIONS (path 't/', timestamp 'ts')",
    "CREATE RELATION r (w INT) FROM csv OPTIONS (path 'r/')",
    "CREATE FUNCTION even AS 'operator:not_' RETURNS boolean",
    "PLACE even ON web",
    "CREATE QUERY b AS SELECT w FROM t WHERE even(w)",
)
WRONG = (
    ("CREATE QUERY c AS SELECT nothing FROM s", "unknown column nothing"),
    ("CREATE QUERY c AS SELECT v FROM nowhere", "unknown stream or relation nowhere"),
    ("CREATE STREAM s (v INT) FROM rate", "stream s already exists"),
    ("CREATE FUNCTION f AS 'nowhere.py:f' RETURNS int", "no such file"),
    ("CREATE FUNCTION f AS 'operator:nothing' RETURNS int", "has no function nothing"),
    ("PLACE odd ON nowhere", "unknown pool nowhere"),
    ("CREATE QUERY c WITH (latency = 'soon') AS SELECT v FROM s", "latency: 'soon' is not a time"),
    ("CREATE QUERY c AS SELECT v FRM s", "<cql>"),
)


@pytest.mark.parametrize("place", range(6))
@pytest.mark.parametrize(("wrong", "message"), WRONG, ids=[message for _, message in WRONG])
def test_a_text_with_one_wrong_statement_declares_nothing(
    session: Session, place: int, wrong: str, message: str
) -> None:
    before, network = declared(session), session.network()
    with pytest.raises(QueryError, match=message):
        session.execute(";\n".join((*FIVE[:place], wrong, *FIVE[place:])))
    assert declared(session) == before
    assert repr(list(session.network().operators.values())) == repr(list(network.operators.values()))
    # nothing is in the way of the same text, mended
    session.execute(";\n".join(FIVE))
    assert list(session.network().queries) == ["a", "b"]


def test_plans_of_a_failed_text_do_not_come_back_with_a_later_one(session: Session) -> None:
    """Both texts have as many statements, so that they make as many changes."""
    with pytest.raises(QueryError):
        session.execute("CREATE QUERY b AS SELECT v FROM s; PLACE odd ON web; PLACE odd ON web")
    session.execute("CREATE QUERY c AS SELECT v FROM s; PLACE odd ON web; CREATE POOL other SLOTS 1")
    assert list(session.network().queries) == ["a", "c"]


def test_a_placement_that_an_earlier_query_cannot_have_is_undone(session: Session) -> None:
    session.execute("CREATE QUERY b AS SELECT v, odd(v) AS o FROM s")
    before = declared(session)
    with pytest.raises(QueryError, match="odd"):
        session.execute("PLACE odd ON web")
    assert declared(session) == before


def test_a_query_may_come_before_its_stream_within_one_text() -> None:
    session = Session().execute("CREATE QUERY q AS SELECT v FROM s; CREATE STREAM s (v INT) FROM rate;")
    assert list(session.network().queries) == ["q"]


def test_thousands_of_queries_executed_one_by_one_are_planned_once_each(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    import headgate.declarations

    counted = Mock(side_effect=headgate.declarations.bind)
    monkeypatch.setattr(headgate.declarations, "bind", counted)
    planned = Mock(side_effect=lower.bind)
    monkeypatch.setattr(lower, "bind", planned)
    for number in range(50):
        session.execute(f"CREATE QUERY q{number} AS SELECT v FROM s WHERE v > {number}")
    assert (counted.call_count, planned.call_count) == (50, 0)


def test_a_refused_text_declares_nothing(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    before = declared(session)

    def refuse(*_: object) -> None:
        raise Refused("too much")

    monkeypatch.setattr("headgate.declarations.check_admission", refuse)
    session.measured = Measured({})
    text = "CREATE STREAM t (v INT) FROM rate; CREATE QUERY b AS SELECT v FROM t WHERE v > 2"
    with pytest.raises(Refused):
        session.execute(text)
    assert declared(session) == before
    assert list(session.execute(text, force=True).network().queries) == ["a", "b"]


def test_a_function_that_a_query_cannot_have_is_not_registered(session: Session) -> None:
    session.execute("PLACE odd ON web; CREATE QUERY b AS SELECT v FROM s WHERE odd(v)")
    before = declared(session)
    with pytest.raises(QueryError):
        session.function("odd", lambda v: "x", "string")
    assert declared(session) == before


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("execute", ("CREATE POOL other SLOTS 1",)),
        ("function", ("f", len)),
        ("callback", ("c", print)),
        ("stream", ("t", object())),
        ("relation", ("t", object())),
        ("start", ()),
        ("profile", ()),
    ],
)
def test_while_a_run_is_on_the_session_refuses_and_names_it(
    session: Session, temporary: Path, method: str, arguments: tuple[Any, ...]
) -> None:
    run = session.start()
    before = declared(session)
    with pytest.raises(SetupError) as refused:
        getattr(session, method)(*arguments)
    assert str(refused.value) == (
        f"{method}: the run of a is on (checkpoint {run.checkpoint}); "
        "end it with session.run.stop(), or use another Session"
    )
    assert declared(session) == before and session.run is run and run.is_running


def test_after_its_run_a_session_declares_and_starts_again(session: Session, temporary: Path) -> None:
    first = session.start()
    first.stop()
    second = session.execute("CREATE QUERY b AS SELECT v FROM s").start()
    assert list(second.status().queries) == ["a", "b"] and session.run is second
    assert first.checkpoint != second.checkpoint


def test_closing_ends_the_run_and_removes_the_folders_of_all_runs_but_those_of_the_user(
    session: Session, temporary: Path, tmp_path: Path
) -> None:
    session.start().stop()
    (tmp_path / "mine").mkdir()
    session.start(checkpoint=tmp_path / "mine").stop()
    last = session.start()
    assert len(list(temporary.iterdir())) == 2
    session.close()
    assert not last.is_running
    assert list(temporary.iterdir()) == [] and (tmp_path / "mine").is_dir()
    session.close()
    assert last.status().ticks == 0
    with pytest.raises(SetupError, match="the results of query a went with the session, which is closed"):
        last.arrow("a")


def test_a_context_manager_closes_the_session(session: Session, temporary: Path) -> None:
    with session as entered:
        run = entered.start()
    assert entered is session and not run.is_running and list(temporary.iterdir()) == []
    with pytest.raises(SetupError, match="closed"), session:
        pass


CLOSED: list[Callable[[Session], object]] = [
    lambda session: session.execute("CREATE POOL p SLOTS 1"),
    lambda session: session.stream("t", Mock()),
    lambda session: session.relation("t", Mock()),
    lambda session: session.function("f", len),
    lambda session: session.callback("c", print),
    lambda session: session.plans(),
    lambda session: session.network(),
    lambda session: session.explain(),
    lambda session: session.sql(),
    lambda session: session.start(),
    lambda session: session.profile(),
    lambda session: session.advise(),
]


@pytest.mark.parametrize("call", CLOSED)
def test_a_closed_session_refuses_in_one_line(session: Session, call: Callable[[Session], object]) -> None:
    session.close()
    with pytest.raises(SetupError) as refused:
        call(session)
    assert str(refused.value) == "the session is closed; make another with headgate.Session()"
    assert repr(session).endswith("; closed>")


def test_a_failure_that_nobody_has_seen_is_raised_by_closing_and_only_then(
    session: Session, temporary: Path
) -> None:
    behind(session.start()).fail(SetupError("the disk is full"))
    with pytest.raises(SetupError, match="the disk is full"):
        session.close()
    assert list(temporary.iterdir()) == []
    session.close()


def test_a_failure_that_was_raised_is_not_raised_again_by_closing(session: Session, temporary: Path) -> None:
    run = session.start()
    behind(run).fail(SetupError("the disk is full"))
    with pytest.raises(SetupError):
        run.wait()
    session.close()
    assert list(temporary.iterdir()) == []


def test_an_error_inside_with_goes_before_that_of_the_run(
    session: Session, temporary: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # commands of other tests may have silenced all logs of the process
    logging.disable(logging.NOTSET)
    with pytest.raises(ZeroDivisionError), session:
        behind(session.start()).fail(SetupError("the disk is full"))
        raise ZeroDivisionError
    assert "the disk is full" in caplog.text and list(temporary.iterdir()) == []


def test_a_run_that_does_not_start_leaves_no_folder_and_no_run(
    session: Session, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(session._launcher()), "_launch", full)
    with pytest.raises(SetupError, match=r"the run does not start: .*No space left on device"):
        session.start()
    assert session.run is None and list(temporary.iterdir()) == []


def test_names_that_are_unknown_come_with_the_nearest_one(session: Session, temporary: Path) -> None:
    for settings, message in (
        ({"strategy": "chian"}, "unknown strategy chian; did you mean chain[?]"),
        ({"routing": "optimum"}, "unknown policy optimum; did you mean optimal[?]"),
        ({"keep": {"S": 1.0}}, "unknown stream S; did you mean s[?] known: s"),
        ({"orders": {"A": ["s"]}}, "unknown query A; did you mean a[?] known: a"),
    ):
        with pytest.raises(SetupError, match=message):
            session.start(**settings)
    run = session.start()
    with pytest.raises(SetupError, match=r"unknown query A; did you mean a\? known: a"):
        run.results("A")


def test_explain_is_what_the_command_prints(session: Session, tmp_path: Path) -> None:
    file = tmp_path / "script.sql"
    file.write_text(SCRIPT)
    assert f"{session.explain()}\n" == invoke("explain", file).stdout
    assert session.explain().to_json() == json.loads(invoke("explain", file, "--json").stdout)
    after = session.explain("lower")
    assert f"{after}\n" == invoke("explain", file, "--after", "lower").stdout
    with pytest.raises(
        SetupError, match="after = 'bnd' is wrong; write 'bind', 'optimize', 'lower' or 'sql'"
    ):
        session.explain("bnd")
    with pytest.raises(SetupError, match="nothing to explain: no CREATE QUERY was executed"):
        Session().explain()


def test_advise_is_what_the_command_computes(tmp_path: Path) -> None:
    text = SCRIPT.replace("QUERY a", "QUERY a WITH (latency = '5 ms')")
    session, file = Session().execute(text), tmp_path / "script.sql"
    file.write_text(text)
    with pytest.raises(SetupError, match=r"nothing has been measured; call session.profile\(\)"):
        session.advise()
    session.measured = Measured(dict.fromkeys(session.network().operators, Profile(2e-3, 0.5)), {"s": 100.0})
    file.with_suffix(".profile.json").write_text(session.measured.to_json())
    for settings, options in (
        ({}, []),
        ({"rates": {"s": 150}, "processors": 2}, ["--rate", "s=150", "--processors", "2"]),
        ({"tick": "100 ms", "percentile": 0.9}, ["--tick", "100ms", "--percentile", "0.9"]),
        ({"tick": 0, "strategy": "chain"}, ["--tick", "0s", "--strategy", "chain"]),
        ({"servers": "each"}, ["--servers", "each"]),
    ):
        ours, theirs = (
            session.advise(**settings),
            json.loads(invoke("advise", file, "--json", *options).stdout),
        )
        assert (ours.fits, ours.percentile) == (theirs["fits"], theirs["percentile"])
        assert ours.utilisation == pytest.approx(theirs["utilisation"])
        assert ours.queries["a"].largest_factor == pytest.approx(theirs["queries"]["a"]["largest_factor"])
    for wrong, message in (
        ({"rates": {"t": 1}}, "unknown stream t"),
        ({"strategy": "round-robin"}, "strategy round-robin has no fixed order"),
        ({"servers": "some"}, "servers takes pool or each, not some"),
        ({"percentile": 99}, "percentile = 99 is wrong"),
    ):
        with pytest.raises(HeadgateError, match=message):
            session.advise(**wrong)
    session.measured = Measured(session.measured.profiles)
    with pytest.raises(SetupError, match=r"no rate of stream s is known; write rates=\{'s': 1000\}"):
        session.advise()
    session.measured = Measured({})
    with pytest.raises(SetupError, match=r"operator a.* has not been measured"):
        session.advise()


def test_what_is_no_session_of_spark_is_refused_at_once() -> None:
    with pytest.raises(SetupError, match=r"spark is of type builtins\.str; pass a SparkSession"):
        Session("local[2]")  # type: ignore[arg-type]
    with pytest.raises(SetupError, match="master = 2 is wrong"):
        Session(master=2)  # type: ignore[arg-type]


def test_a_stopped_application_is_named_whatever_it_raises(
    session: Session, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session._spark.sparkContext._jsc = None

    def broken(*_: object) -> None:
        raise AttributeError("'NoneType' object has no attribute 'sc'")

    monkeypatch.setattr(type(session._launcher()), "_launch", broken)
    with pytest.raises(headgate.SparkError, match="the Spark application has been stopped"):
        session.start()


def test_a_refused_query_that_replaces_another_leaves_the_other(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = session.catalog.queries["a"]
    monkeypatch.setattr("headgate.declarations.check_admission", Mock(side_effect=Refused("too much")))
    session.measured = Measured({})
    with pytest.raises(Refused):
        session.execute("CREATE OR REPLACE QUERY a AS SELECT v FROM s; CREATE QUERY b AS SELECT v FROM s")
    assert session.catalog.queries == {"a": before}


def test_only_queries_that_a_text_leaves_behind_are_admitted(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = Mock()
    monkeypatch.setattr("headgate.declarations.check_admission", check)
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
        (lambda session: session.describe(None), "name = None is wrong; write a text such as 'packets'"),
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
    for text in ("SET seed = 1", "DROP QUERY a", "SHOW QUERIES; CREATE POOL x SLOTS 1"):
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

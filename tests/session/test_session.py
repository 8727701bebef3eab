"""A session declares all or nothing, plans once, and has one run at a time; none of this needs Spark."""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from tests.cli.support import invoke
from tests.fake_runs import behind, without_spark

import headgate
from headgate import HeadgateError, QueryError, Session, SetupError
from headgate.control.admission import Refused
from headgate.model.profile import Profile, TickCosts
from headgate.planning import lower
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


def test_a_query_that_cannot_be_meant_is_refused_and_leaves_its_name_free(session: Session) -> None:
    with pytest.raises(QueryError, match="unknown function od; did you mean odd"):
        session.execute("CREATE QUERY b AS SELECT v FROM s; CREATE QUERY c AS SELECT v FROM s WHERE od(v)")
    assert list(session.catalog.queries) == ["a"]
    session.execute("CREATE QUERY c AS SELECT v FROM s WHERE odd(v)")
    assert list(session.network().queries) == ["a", "c"]


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
        session.execute("CREATE QUERY b AS SELECT v FROM s; PLACE odd ON web; PLACE odd ON nowhere")
    session.execute("CREATE QUERY c AS SELECT v FROM s; PLACE odd ON web; CREATE POOL other SLOTS 1")
    assert list(session.network().queries) == ["a", "c"]


def test_a_placement_that_an_earlier_query_cannot_have_is_undone(session: Session) -> None:
    session.execute("CREATE QUERY b AS SELECT odd(v) AS o, COUNT(*) AS n FROM s [RANGE 1 s] GROUP BY v")
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
    import headgate.session.declarations

    counted = Mock(side_effect=headgate.session.declarations.bind)
    monkeypatch.setattr(headgate.session.declarations, "bind", counted)
    planned = Mock(side_effect=lower.bind)
    monkeypatch.setattr(lower, "bind", planned)
    for number in range(50):
        session.execute(f"CREATE QUERY q{number} AS SELECT v FROM s WHERE v > {number}")
    assert (counted.call_count, planned.call_count) == (50, 0)


def test_a_refused_text_declares_nothing(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    before = declared(session)

    def refuse(*_: object) -> None:
        raise Refused("too much")

    monkeypatch.setattr("headgate.session.declarations.check_admission", refuse)
    session.measured = Measured({})
    text = "CREATE STREAM t (v INT) FROM rate; CREATE QUERY b AS SELECT v FROM t WHERE v > 2"
    with pytest.raises(Refused):
        session.execute(text)
    assert declared(session) == before
    assert list(session.execute(text, force=True).network().queries) == ["a", "b"]


def test_admission_counts_the_processors_of_the_master_without_starting_spark() -> None:
    text = """CREATE STREAM s (v INT) FROM rate OPTIONS (rowsPerSecond '500');
      CREATE QUERY q WITH (latency = '2 s') AS SELECT v FROM s WHERE v > 1"""
    known = dict.fromkeys(Session().execute(text).network().operators, Profile(1e-3, 0.5))
    measured = Measured(known, {"s": 500.0}, TickCosts(0.5, 0.0, 0.5), processors=2)
    for master, is_admitted in (("local[2]", True), ("local[1]", False), ("spark://elsewhere:7077", True)):
        session = Session(master=master)
        session.measured = measured
        if is_admitted:
            assert session.execute(text).warnings == () and "_spark" not in vars(session)
            continue
        with pytest.raises(Refused, match="on 1 processor, query q: latency p99 would be"):
            session.execute(text)


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
        ("partition_callback", ("c", print)),
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
    lambda session: session.partition_callback("c", print),
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
    known = dict.fromkeys(session.network().operators, Profile(2e-3, 0.5))
    session.measured = Measured(known, {"s": 100.0}, TickCosts(0.2, 0.0, 0.5), processors=2)
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
    session.measured = Measured(known, {"s": 100.0})
    with pytest.raises(SetupError, match="the profile has no costs of ticks; measure them with"):
        session.advise()
    session.measured = Measured(known)
    with pytest.raises(SetupError, match=r"no rate of stream s is known; state it .*rates=\{'s': 1000\}"):
        session.advise()
    session.measured = Measured({})
    with pytest.raises(SetupError, match=r"no profile of operator a.*; measure it with session.profile\(\)"):
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


def test_what_a_run_has_measured_goes_before_what_was_known(
    session: Session, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, costs = session.start(), TickCosts(0.2, 0.0, 0.5)
    assert session._measured_in(run) == run.measured()
    session.measured = Measured({"a.project": Profile(1.0), "b.project": Profile(2.0)}, tick=costs)
    monkeypatch.setattr(run, "measured", lambda: Measured({"a.project": Profile(3.0)}, {"s": 7.0}))
    found = session._measured_in(run)
    assert {name: one.seconds_per_tuple for name, one in found.profiles.items()} == {
        "a.project": 3.0,
        "b.project": 2.0,
    }
    assert (found.tick, found.tuples_per_s) == (costs, {"s": 7.0})

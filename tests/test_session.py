"""A session plans its queries once for each state of its catalog; none of this needs Spark."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import Mock

import pytest

from headgate import Session
from headgate.control.admission import Refused
from headgate.errors import QueryError
from headgate.planning import lower
from headgate.statistics.profile_file import Measured

SCRIPT = """
CREATE STREAM s (ts BIGINT, v INT) FROM csv OPTIONS (path 's/', timestamp 'ts');
CREATE POOL web SLOTS 1;
CREATE FUNCTION odd AS 'operator:index' RETURNS boolean;
CREATE QUERY a AS SELECT v FROM s WHERE v > 1;
"""


@pytest.fixture
def session() -> Session:
    return Session().execute(SCRIPT)


@pytest.fixture
def binding(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Counts how often a query is bound."""
    counted = Mock(side_effect=lower.bind)
    monkeypatch.setattr(lower, "bind", counted)
    return counted


def test_queries_are_planned_once_for_all_who_ask(session: Session, binding: Mock) -> None:
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


def test_a_query_over_what_is_declared_later_is_checked_later(session: Session) -> None:
    session.execute("CREATE QUERY b AS SELECT w FROM t").execute("CREATE STREAM t (v INT) FROM rate")
    with pytest.raises(QueryError, match="unknown column w"):
        session.network()


def test_a_refused_query_is_not_in_the_plan(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    before = session.network()

    def refuse(*_: object) -> None:
        raise Refused("too much")

    monkeypatch.setattr("headgate.session.check_admission", refuse)
    monkeypatch.setattr("headgate.spark.application.cluster.processors", lambda spark: 1)
    session.__dict__["_spark"] = None
    session.measured = Measured({})
    with pytest.raises(Refused):
        session.execute("CREATE QUERY b AS SELECT v FROM s WHERE v > 2")
    assert list(session.network().queries) == list(before.queries) == ["a"]

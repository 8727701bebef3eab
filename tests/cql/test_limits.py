"""What is nested too deeply or has too many parts is refused in one line, and long texts are read in time."""

from __future__ import annotations

import pytest
from tests.planning.support import bound, catalog_of

from headgate.cql.parser import parse
from headgate.cql.tokens import Cursor
from headgate.errors import QueryError
from headgate.planning.lower import Stages, describe

VALUE = "(SELECT MAX(owner) FROM hosts)"
ROWS = "LATERAL VIEW explode(split(src, ',')) t{0} AS x{0}"


def nested_value(depth: int) -> str:
    text = VALUE
    for _ in range(1, depth):
        text = f"(SELECT MAX({text}) FROM hosts)"
    return f"SELECT {text} AS x FROM packets"


def nested_from(depth: int) -> str:
    return f"{'SELECT src FROM (' * depth}SELECT src FROM packets{') AS x' * depth}"


def values(number: int) -> str:
    return f"SELECT {', '.join(f'{VALUE} AS v{n}' for n in range(number))} FROM packets"


def rows(number: int) -> str:
    return f"SELECT x0 FROM packets {' '.join(ROWS.format(n) for n in range(number))}"


def chain(length: int) -> str:
    others = (f"a{n} AS (SELECT src FROM a{n - 1})" for n in range(1, length))
    return f"WITH {', '.join(['a0 AS (SELECT src FROM packets)', *others])} SELECT src FROM a{length - 1}"


def parenthesised(depth: int) -> str:
    return f"SELECT src FROM {'(' * depth}SELECT src FROM packets{')' * depth}"


def planned(select: str) -> str:
    return describe(Stages.of(catalog_of(f"CREATE QUERY q AS {select}")).lowered)


@pytest.mark.parametrize(
    "select", [nested_value(32), nested_from(32), values(63), rows(63), chain(64), parenthesised(32)]
)
def test_what_a_limit_allows_is_planned(select: str) -> None:
    assert planned(select)


@pytest.mark.parametrize(
    ("select", "reason"),
    [
        (nested_value(160), "brackets around SELECTs are more than 32 deep"),
        (nested_from(100), "brackets around SELECTs are more than 32 deep"),
        (parenthesised(700), "brackets around SELECTs are more than 32 deep"),
        (values(200), "a SELECT reads 64 sources at most"),
        (rows(200), "a SELECT reads 64 sources at most"),
        (chain(100), "this is the 65th SELECT that reads the next one"),
        (chain(300), "reads too many SELECTs one through the other"),
    ],
)
def test_what_is_beyond_a_limit_is_refused(select: str, reason: str) -> None:
    with pytest.raises(QueryError, match=reason):
        planned(select)


def test_a_chain_of_views_over_stored_relations_is_refused_where_it_is_too_long() -> None:
    views = (f"CREATE VIEW v{n} AS SELECT ip FROM v{n - 1};" for n in range(1, 400))
    text = f"CREATE VIEW v0 AS SELECT ip FROM hosts; {' '.join(views)}"
    with pytest.raises(QueryError, match="reads too many SELECTs one through the other"):
        bound(f"{text} CREATE QUERY q AS SELECT p.src FROM packets p JOIN v399 v ON p.src = v.ip")


def test_brackets_are_matched_once_however_many_filters_an_expression_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import headgate.cql.expressions as expressions

    seen, known = [0], expressions.partners

    def counted(tokens: object) -> dict[int, int]:
        seen[0] += len(tokens)  # type: ignore[arg-type]
        return known(tokens)  # type: ignore[arg-type]

    monkeypatch.setattr(expressions, "partners", counted)
    calls = " + ".join(["COUNT(*) FILTER (WHERE bytes > 1)"] * 100)
    parse(f"CREATE QUERY q AS SELECT {calls} AS n FROM packets")
    assert seen[0] < 10 * len(Cursor(calls, "case")._tokens)

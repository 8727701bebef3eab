"""SHOW, DESCRIBE, DROP and SET in a file; Spark is not started."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.support import CQL, invoke, script

from headgate.cli.script import Script
from headgate.session.run_options import RunOptions

pytestmark = pytest.mark.usefixtures("no_spark")

ASKING = f"""\
SHOW QUERIES;
{CQL}
SHOW QUERIES;
DROP QUERY none;
DESCRIBE high;
"""
SOURCES = "CREATE STREAM s (a INT) FROM rate; CREATE RELATION r FROM parquet OPTIONS (path 'r/');"


def the_error(*arguments: object) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    return str(result.stderr)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[RunOptions]:
    """The options of runs, as far as a file and the command line decide; the runs are not started."""
    found: list[RunOptions] = []

    def note(script: Script, master: str, profile: Any, options: RunOptions, *others: Any) -> None:
        found.append(script.executed(options).options)

    monkeypatch.setattr("headgate.cli.execution.execute", note)
    return found


def test_answers_stand_before_the_plans_in_the_order_of_their_statements(tmp_path: Path) -> None:
    out = invoke("explain", script(tmp_path, ASKING), "--after", "bind").stdout
    assert out.startswith(
        """\
-- SHOW QUERIES
no queries

-- SHOW QUERIES
query  reads     into    with
high   readings  memory  -
none   readings  memory  -

-- DESCRIBE high
query    high
columns  ts, sensor, value
reads    readings
calls    -
with     -
as       SELECT sensor, value FROM readings WHERE value > 10
into     memory
options  -

query high INTO memory"""
    )
    assert "query none INTO" not in out


def test_json_has_the_answers_beside_the_stages(tmp_path: Path) -> None:
    document = json.loads(invoke("explain", script(tmp_path, ASKING), "--json").stdout)
    assert list(document) == ["answers", "bind", "optimize", "lower"]
    assert [answer["statement"] for answer in document["answers"]] == [
        "SHOW QUERIES",
        "SHOW QUERIES",
        "DESCRIBE high",
    ]
    assert [row["query"] for row in document["answers"][1]["rows"]] == ["high", "none"]
    assert document["answers"][2]["columns"] == ["ts", "sensor", "value"]
    assert [plan["query"] for plan in document["bind"]] == ["high"]


def test_a_file_may_ask_without_a_query(tmp_path: Path) -> None:
    path = script(tmp_path, f"{SOURCES} SHOW STREAMS")
    assert invoke("explain", path).stdout == (
        "-- SHOW STREAMS\n"
        "stream  format  columns  timestamp  watermark  read by\n"
        "s       rate    1        -          -          -\n\n"
    )
    message = f"error: {path}: nothing to run; add a CREATE QUERY\n"
    assert the_error("run", path) == message
    assert the_error("simulate", path, "--rate", "s=1") == message


def test_a_file_whose_queries_are_all_dropped_has_nothing_to_run(tmp_path: Path) -> None:
    path = script(tmp_path, f"{SOURCES} CREATE QUERY q AS SELECT a FROM s; DROP QUERY q")
    assert the_error("run", path) == f"error: {path}: nothing to run; add a CREATE QUERY\n"


@pytest.mark.parametrize("command", ["run", "explain"])
@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("DROP STREAM readings", "stream readings is read by query high and query none; drop them first"),
        ("SET strategi = chain", "unknown setting strategi; did you mean strategy?"),
        ("SET strategy = chian", "unknown strategy chian; did you mean chain? known: chain, "),
        ("SET keep = 'nothing=1'", "keep: unknown stream nothing; known: readings"),
        ("SET keep = 'readings=0.5'", "keep: stream readings cannot be shed: query high reads it; write"),
        ("SET orders = 'high=a b'", "orders: the order a, b does not fit query high"),
        ("DESCRIBE hihg", "unknown name hihg; did you mean high?"),
    ],
)
def test_errors_of_statements_are_underlined_before_spark_starts(
    command: str, statement: str, error: str, tmp_path: Path
) -> None:
    path = script(tmp_path, f"{CQL}{statement};")
    line, source, marks = the_error(command, path).splitlines()
    assert line.startswith(f"error: {path}:5:")
    assert error in line
    assert source == f"{statement};"
    assert set(marks.strip()) == {"^"}


def test_a_run_has_the_options_of_its_file(tmp_path: Path, runs: list[RunOptions]) -> None:
    path = script(tmp_path, f"SET strategy = chain; SET for = 30s; SET tick_budget = 0.5 s; {CQL}")
    assert invoke("run", path).exit_code == 0
    values = [runs[0].value(name) for name in ("strategy", "for", "tick_budget", "until_done", "memory")]
    assert values == ["chain", 30.0, 0.5, False, None]


def test_an_option_of_the_command_line_goes_before_the_file(tmp_path: Path, runs: list[RunOptions]) -> None:
    set_here = "SET strategy = chain; SET until_done = true; SET balance_pools = true; SET memory = 1 KB;"
    path = script(tmp_path, f"{set_here} {CQL} SHOW SETTINGS")
    result = invoke("run", path, "--strategy", "greedy", "--for", "5s", "--no-balance-pools", "--seed", "3")
    assert result.exit_code == 0, result.stderr
    names = ("strategy", "for", "until_done", "balance_pools", "memory", "seed")
    assert [runs[0].value(name) for name in names] == ["greedy", 5.0, False, False, 1024, 3]


def test_wrong_names_on_the_command_line_are_found_before_spark_starts(tmp_path: Path) -> None:
    error = the_error("run", script(tmp_path), "--keep", "reedings=1")
    assert error == "error: --keep: unknown stream reedings; did you mean readings? known: readings\n"


@pytest.mark.parametrize(
    ("statements", "is_needed"),
    [
        ("CREATE QUERY q AS SELECT a FROM s", False),
        ("CREATE QUERY q AS SELECT a FROM s, r; DROP QUERY q; CREATE QUERY q AS SELECT a FROM s", False),
        ("CREATE OR REPLACE RELATION r (b INT) FROM csv; CREATE QUERY q AS SELECT a FROM s, r", False),
        ("CREATE QUERY q AS SELECT a FROM s; SHOW RELATIONS; DESCRIBE s", False),
        ("DESCRIBE R", True),
        ("CREATE QUERY q AS SELECT a FROM s, R; DESCRIBE Q; DROP QUERY q", True),
        ("CREATE QUERY q AS SELECT a FROM s, r", True),
        ("CREATE OR REPLACE STREAM s FROM kafka; CREATE QUERY q AS SELECT a FROM s", True),
    ],
)
def test_columns_are_looked_up_only_where_they_matter(statements: str, is_needed: bool) -> None:
    assert Script.parse(f"{SOURCES} {statements}", "x.sql").needs_lookup == is_needed

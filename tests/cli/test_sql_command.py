"""``headgate sql``: SELECT over what a run has kept."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.support import CQL, invoke, script

TEXT = f"""{CQL}
CREATE RELATION owners FROM parquet OPTIONS (path '{{root}}/owners.parquet');
CREATE QUERY written AS SELECT sensor, value, owner FROM readings JOIN owners USING (sensor)
  INTO csv OPTIONS (path '{{root}}/out', header 'true');
"""


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """The state of a run that is over."""
    owners = pa.table({"sensor": ["a", "b"], "owner": ["Ann", "Bob"]})
    pq.write_table(owners, tmp_path / "owners.parquet")
    text = TEXT.replace("{root}", str(tmp_path))
    result = invoke("run", script(tmp_path, text), "--until-done", "--checkpoint", tmp_path / "state")
    assert result.exit_code == 0, result.stderr
    return tmp_path / "state"


def rows(checkpoint: Path, text: str) -> list[dict[str, object]]:
    result = invoke("sql", text, "--checkpoint", checkpoint, "--json")
    assert result.exit_code == 0, result.stderr
    found: list[dict[str, object]] = json.loads(result.stdout)["rows"]
    return found


def the_error(text: str, checkpoint: Path) -> str:
    result = invoke("sql", text, "--checkpoint", checkpoint)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    return str(result.stderr)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_results_relations_and_dead_letters_are_tables(checkpoint: Path) -> None:
    assert rows(checkpoint, "SELECT sensor, value FROM high ORDER BY value") == [
        {"sensor": "c", "value": 12},
        {"sensor": "b", "value": 20},
        {"sensor": "a", "value": 30},
    ]
    joined = (
        "SELECT w.owner, SUM(h.value) AS v FROM written w JOIN high h USING (sensor) GROUP BY 1 ORDER BY 1"
    )
    assert rows(checkpoint, joined) == [{"owner": "Ann", "v": 60}, {"owner": "Bob", "v": 20}]
    assert rows(checkpoint, "SELECT owner FROM OWNERS WHERE sensor = 'b'") == [{"owner": "Bob"}]
    assert rows(checkpoint, "SELECT COUNT(*) AS n FROM none") == [{"n": 0}]
    twice = the_error("SELECT h.value, 2 * h.value AS value FROM high h", checkpoint)
    assert twice == "error: two columns are called value; give one of them another name with AS\n"
    assert rows(checkpoint, "WITH x AS (SELECT 1 FROM dead_letters) SELECT COUNT(*) AS n FROM x;") == [
        {"n": 2}
    ]
    shown = invoke("sql", "SELECT sensor FROM high ORDER BY value", "--checkpoint", checkpoint, "--limit", 2)
    assert [line.strip() for line in shown.stdout.splitlines() if line.strip()] == [
        "rows, the first 2 rows",
        "sensor",
        "────────",
        "c",
        "b",
    ]
    listed = invoke("sql", "SHOW TABLES", "--checkpoint", checkpoint).stdout
    assert [line.split()[:2] for line in listed.splitlines()[1:]] == [
        ["owners", "relation"],
        ["high", "query"],
        ["none", "query"],
        ["written", "query"],
        ["dead_letters", "dead"],
    ]
    described = invoke("sql", "DESCRIBE high", "--checkpoint", checkpoint, "--json")
    assert json.loads(described.stdout)["columns"] == {"ts": "BIGINT", "sensor": "STRING", "value": "INT"}
    for text in ("SELECT * FROM hihg", "DESCRIBE hihg"):
        unknown = "error: unknown table hihg; tables: dead_letters, high, none, owners, written\n"
        assert the_error(text, checkpoint) == unknown
    failing = the_error("SELECT 1 / (value - 30) FROM high", checkpoint)
    assert failing.startswith("error: Division by zero. Use `try_divide`")
    assert len(failing.splitlines()) == 1
    wrong = the_error("SELECT 1 +", checkpoint)
    assert wrong.startswith("error: Syntax error at or near end of input")
    assert len(wrong.splitlines()) == 1


@pytest.mark.usefixtures("no_spark")
def test_what_is_no_select_is_refused_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.spark.application.cluster.own_session", None)
    expected = "error: sql:1:1: expected SELECT, WITH, SHOW TABLES or DESCRIBE name, found 'DROP'"
    assert the_error("DROP TABLE high", tmp_path).splitlines()[0] == expected
    missing = the_error("SELECT 1", tmp_path / "nothing")
    assert missing == f"error: {tmp_path}/nothing is not a folder; pass the one given to --checkpoint\n"

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.support import invoke, script

from headgate.cli.script import Script

pytestmark = pytest.mark.usefixtures("no_spark")

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.sql"))


def test_all_stages_are_shown_in_order(tmp_path: Path) -> None:
    out = invoke("explain", script(tmp_path)).stdout
    headings = [line for line in out.splitlines() if line.startswith("--")]
    assert headings == ["-- after bind", "-- after optimize", "-- after lower"]


@pytest.mark.parametrize(
    ("stage", "line"),
    [
        ("bind", "      stream readings [UNBOUNDED] (ts, sensor, value)"),
        ("optimize", "      stream readings [UNBOUNDED] (sensor, value)"),
        ("lower", "    high.select_readings: select `readings__value` > 10"),
    ],
)
def test_one_stage_is_shown_alone(tmp_path: Path, stage: str, line: str) -> None:
    lines = invoke("explain", script(tmp_path), "--after", stage).stdout.splitlines()
    assert lines[0] == "query high INTO memory, overload backpressure"
    assert line in lines


def test_json_is_one_document_with_a_key_for_each_stage(tmp_path: Path) -> None:
    document = json.loads(invoke("explain", script(tmp_path), "--json").stdout)
    assert list(document) == ["bind", "optimize", "lower"]
    assert [query["query"] for query in document["lower"]["queries"]] == ["high", "none"]


def test_json_of_one_stage_has_that_key_alone(tmp_path: Path) -> None:
    document = json.loads(invoke("explain", script(tmp_path), "--json", "--after", "bind").stdout)
    assert list(document) == ["bind"]


def test_columns_are_looked_up_only_for_sources_that_a_query_reads() -> None:
    sources = "CREATE STREAM s (a INT) FROM rate; CREATE RELATION r FROM parquet OPTIONS (path 'r/');"
    unread = Script.parse(f"{sources} CREATE QUERY q AS SELECT a FROM s", "x.sql")
    read = Script.parse(f"{sources} CREATE QUERY q AS SELECT a FROM s, R", "x.sql")
    assert not unread.needs_lookup
    assert read.needs_lookup


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_can_be_explained(path: Path) -> None:
    result = invoke("explain", path)
    assert result.exit_code == 0, result.stderr


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
class TestSql:
    """The stage that Spark has to be started for."""

    @pytest.fixture
    def no_spark(self) -> None:
        """Spark may be started."""

    def test_there_is_a_heading_and_a_statement_for_every_query(self, tmp_path: Path) -> None:
        result = invoke("explain", script(tmp_path), "--after", "sql")
        assert result.exit_code == 0, result.stderr
        blocks = result.stdout.strip().split("\n\n")
        assert [block.split("\n")[0] for block in blocks] == ["-- query high", "-- query none"]
        assert all(block.split("\n")[1].startswith("SELECT `ts`, `sensor`") for block in blocks)
        assert "    WHERE (`readings__value` > 10)" in blocks[0].split("\n")

    def test_json_has_the_text_of_every_query_and_nothing_else(self, tmp_path: Path) -> None:
        document = json.loads(invoke("explain", script(tmp_path), "--after", "sql", "--json").stdout)
        assert list(document) == ["sql"]
        assert list(document["sql"]) == ["high", "none"]
        assert document["sql"]["high"].startswith("SELECT `ts`, `sensor`, `value`, `$ts`\nFROM (")

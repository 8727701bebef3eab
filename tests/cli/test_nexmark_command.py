"""``headgate nexmark``: data of the benchmark as files, without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.cli.support import invoke

from headgate.workload.nexmark import EventSequence, parse_rate

pytestmark = pytest.mark.usefixtures("no_spark")


def test_the_data_set_of_a_seed_is_written_and_described(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    result = invoke("nexmark", folder, "--events", 1000, "--seed", 5, "--rate", "2.5", "--files", 3, "--json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert document.pop("seconds") > 0
    sizes = {name: table.pop("bytes") for name, table in document["tables"].items()}
    assert all(size > 1000 for size in sizes.values())
    assert document == {
        "folder": str(folder),
        "events": 1000,
        "seed": 5,
        "rate": 2.5,
        "first_event": "2015-07-15T00:00:00+00:00",
        "last_event": "2015-07-15T00:06:39.600000+00:00",
        "tables": {
            "person": {"rows": 20, "files": 3},
            "auction": {"rows": 60, "files": 3},
            "bid": {"rows": 920, "files": 3},
            "side_input": {"rows": 10_000, "files": 1},
        },
    }
    bids = EventSequence(5, parse_rate("2.5")).table("bid", 0, 1000)
    assert pq.read_table(folder / "bid").combine_chunks() == bids.combine_chunks()


def test_a_start_moves_all_times(tmp_path: Path) -> None:
    result = invoke("nexmark", tmp_path, "--events", 1, "--start", "2020-02-29T08:00:00+02:00", "--json")
    assert json.loads(result.stdout)["first_event"] == "2020-02-29T06:00:00+00:00"


def test_without_json_it_prints_a_table_and_progress_apart(tmp_path: Path) -> None:
    result = invoke("nexmark", tmp_path / "data", "--events", 1000)
    assert result.exit_code == 0
    assert "920" in result.stdout
    assert "1,000 events from 2015-07-15 00:00:00 to 2015-07-15 00:00:00 UTC" in result.stdout
    assert result.stderr == "writing 1,000 events\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "Missing option '--events'"),
        (["--events", "0"], "Invalid value for '--events'"),
        (["--events", "1e6"], "Invalid value for '--events'"),
        (["--events", "5", "--seed", "-1"], "Invalid value for '--seed'"),
        (["--events", "5", "--files", "0"], "Invalid value for '--files'"),
        (["--events", "5", "--rate", "fast"], "--rate: 'fast' is not a rate; write events per second"),
        (["--events", "5", "--rate", "0"], "--rate: a rate of 0 is out of range; write 0.001 to 1000000"),
        (["--events", "5", "--rate", "0.00012"], "--rate: a rate of 0.00012 is out of range"),
        (
            ["--events", "5", "--start", "soon"],
            "--start: 'soon' is not a time; write one like 2026-01-31T",
        ),
        (["--events", "9" * 16, "--rate", "1"], f"{int('9' * 16):,} events at a rate of 1 would last beyond"),
    ],
)
def test_bad_options_are_one_line_each_and_write_nothing(
    options: list[str], message: str, tmp_path: Path
) -> None:
    result = invoke("nexmark", tmp_path / "data", *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: {message}")
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "data").exists()


def test_a_folder_with_other_content_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("")
    result = invoke("nexmark", tmp_path, "--events", 100, "--json")
    assert (result.exit_code, result.stdout) == (2, "")
    message = f"error: {tmp_path} has other content, such as notes; pass an empty or new folder\n"
    assert result.stderr == message

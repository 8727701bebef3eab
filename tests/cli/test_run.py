"""``run`` and ``demo`` on Spark; all of them in this process, so that they share one JVM."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.cli.support import CQL, invoke, script

from headgate.cli.progress import Progress
from headgate.model.event import Event, TickCommitted

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

ENDLESS = """\
CREATE STREAM packets (src STRING, bytes INT) FROM burst OPTIONS (rate '100', seed '1');
CREATE QUERY big AS SELECT src, bytes FROM packets WHERE bytes > 40;
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary checkpoints go."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def succeeded(*arguments: object) -> Any:
    result = invoke(*arguments)
    assert result.exit_code == 0, result.stderr
    return result


def test_results_counts_and_rows_set_aside_are_shown(tmp_path: Path, temporary: Path) -> None:
    result = succeeded("run", script(tmp_path), "--until-done")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert [line for line in lines if line[1:2] in (["b"], ["a"], ["c"])] == [
        ["2", "b", "20"],
        ["3", "a", "30"],
        ["4", "c", "12"],
    ]
    assert ["high", "3"] in [line[:2] for line in lines]
    assert ["none", "0", "-", "-", "-", "-"] in lines
    assert ["readings", "6", "1", "1", "0"] in lines
    [kept] = temporary.glob("headgate-*")
    assert (
        result.stderr.splitlines()[-1] == f"set aside: 1 late, 1 that did not parse; see {kept}/dead-letters"
    )
    assert [entry.name for entry in kept.iterdir()] == ["dead-letters"]


def test_json_is_the_only_thing_on_stdout_even_if_a_query_prints(tmp_path: Path, temporary: Path) -> None:
    text = f"{CQL}CREATE QUERY shown AS SELECT value FROM readings WHERE value > 10 INTO console;"
    result = succeeded("run", script(tmp_path, text, rows="1,a,11\n2,b,12\n"), "--until-done", "--json")
    document = json.loads(result.stdout)
    assert document["queries"]["shown"]["rows_out"] == 2
    assert document["streams"]["readings"] == {
        "rows_in": 2,
        "late": 0,
        "bad": 0,
        "shed": 0,
        "files_set_aside": 0,
    }
    assert "-- shown, batch" in result.stderr
    assert list(temporary.glob("headgate-*")) == []


def test_a_checkpoint_of_ones_own_is_kept_and_gone_on_from(tmp_path: Path) -> None:
    path, state = script(tmp_path), tmp_path / "state"
    first = succeeded("run", path, "--until-done", "--json", "--checkpoint", state)
    again = succeeded("run", path, "--until-done", "--json", "--checkpoint", state)
    assert json.loads(first.stdout)["queries"]["high"]["rows_out"] == 3
    assert json.loads(again.stdout)["queries"]["high"]["rows_out"] == 0


def test_a_file_says_how_it_runs_and_is_answered_before(tmp_path: Path, temporary: Path) -> None:
    state, asked = tmp_path / "state", "SHOW STREAMS; DROP QUERY none;"
    path = script(tmp_path, f"SET until_done = true; SET checkpoint = '{state}'; {CQL} {asked}")
    document = json.loads(succeeded("run", path, "--json").stdout)
    assert [answer["statement"] for answer in document["answers"]] == ["SHOW STREAMS"]
    assert {name: query["rows_out"] for name, query in document["queries"].items()} == {"high": 3}
    assert (state / "profiles.json").is_file()
    # an option of the command line goes before that of the file
    plain = succeeded("run", path, "--checkpoint", tmp_path / "other").stdout
    assert plain.startswith("-- SHOW STREAMS\nstream    format  columns")
    assert ["high", "3"] in [line.split()[:2] for line in plain.splitlines()]


def test_a_tuple_that_must_not_be_set_aside_ends_the_run_in_one_line(tmp_path: Path, temporary: Path) -> None:
    text = f"{CQL}CREATE QUERY odd WITH (on_error = 'stop') AS SELECT 100 / (value - 20) AS x FROM readings;"
    result = invoke("run", script(tmp_path, text), "--until-done")
    assert result.exit_code == 2
    assert result.stdout == ""
    last = result.stderr.splitlines()[-1]
    assert "query odd: 100 / (value - 20): Division by zero, for the tuple " in last


def test_an_endless_stream_cannot_be_run_until_done(tmp_path: Path) -> None:
    result = invoke("run", script(tmp_path, ENDLESS), "--until-done")
    assert result.exit_code == 2
    last = result.stderr.splitlines()[-1]
    assert last == "error: stream packets never ends; run it for a time instead of until done"


def test_a_run_for_a_time_comes_to_its_end(tmp_path: Path) -> None:
    result = succeeded("run", script(tmp_path, ENDLESS), "--for", "1s", "--json")
    assert json.loads(result.stdout)["queries"].keys() == {"big"}


def test_ctrl_c_finishes_the_tick_and_prints_the_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_in = Progress.__call__

    def interrupt_once_there_are_results(progress: Progress, event: Event) -> None:
        take_in(progress, event)
        if isinstance(event, TickCommitted) and event.queries["big"].rows_out:
            monkeypatch.undo()
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Progress, "__call__", interrupt_once_there_are_results)
    result = succeeded("run", script(tmp_path, ENDLESS))
    assert "big, the first 20 rows" in result.stdout
    assert "rows in" in result.stdout


def test_columns_that_are_not_declared_are_looked_up(tmp_path: Path) -> None:
    path = script(tmp_path, "CREATE STREAM b FROM burst;\nCREATE QUERY q AS SELECT protocol FROM b;\n")
    result = succeeded("explain", path, "--after", "bind")
    assert "stream b [UNBOUNDED] (ts, flow, src, dst, port, bytes, protocol)" in result.stdout


def test_the_demo_states_memory_and_latency_of_three_runs_and_draws_them(
    tmp_path: Path, temporary: Path
) -> None:
    result = succeeded("demo", "--seconds", 6, "--out", tmp_path / "out", "--json")
    document = json.loads(result.stdout)
    fifo, chosen, shedding = (document["runs"][name] for name in ("fifo", "chosen", "shedding"))
    assert Path(document["plot"]).read_bytes().startswith(b"\x89PNG")
    assert list(temporary.glob("headgate-*")) == []
    # ticks and strategies determine when results come, not which
    assert fifo["queries"]["fingerprints"]["rows_out"] == chosen["queries"]["fingerprints"]["rows_out"] > 0
    assert fifo["streams"] == chosen["streams"]
    assert fifo["streams"]["packets"]["shed"] == 0
    seen = shedding["queries"]["fingerprints"]
    assert seen["rows_in"] == fifo["queries"]["fingerprints"]["rows_in"]
    assert seen["shed"] == shedding["streams"]["packets"]["shed"]

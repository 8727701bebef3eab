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

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled")]

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
    # 3 before 1: two seconds behind
    warning = (
        "warning: stream readings: 1 of 6 rows (17 %) were late and set aside: they came up to 2 s behind, "
        "as rows of several writers or files out of order do; watermark '2 s' would have kept them"
    )
    assert result.stderr.splitlines().count(warning) == 1
    assert warning in result.stdout.splitlines()


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
        "max_lateness_s": 0.0,
    }
    assert "-- shown, batch" in result.stderr
    results = {name: query["results"] for name, query in document["queries"].items()}
    assert results["shown"] == {"into": "console", "path": None}
    first = [{"ts": 1, "sensor": "a", "value": 11}, {"ts": 2, "sensor": "b", "value": 12}]
    assert results["high"] == {"into": "memory", "path": None, "first_rows": first}
    assert results["none"]["first_rows"] == []
    assert document["dead_letters"] is None
    assert list(temporary.glob("headgate-*")) == []


def test_results_are_lines_of_json_while_the_queries_run(tmp_path: Path, temporary: Path) -> None:
    result = succeeded("run", script(tmp_path), "--until-done", "--rows-json")
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {"query": "high", "row": {"ts": ts, "sensor": sensor, "value": value}}
        for ts, sensor, value in ((2, "b", 20), (3, "a", 30), (4, "c", 12))
    ]
    assert "in (rows)" in result.stderr


def test_a_folder_that_cannot_be_written_to_is_refused_before_the_first_tick(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    below = tmp_path / "file" / "below"
    into = CQL.replace("value > 10;", f"value > 10 INTO parquet OPTIONS (path '{below}');")
    for text, what, *options in ((into, "query high:"), (CQL, "checkpoint", "--checkpoint", below)):
        result = invoke("run", script(tmp_path, text), "--until-done", *options)
        assert result.exit_code == 2
        last = result.stderr.splitlines()[-1]
        assert last == f"error: {what} {below} cannot be written to: Not a directory"


def test_a_checkpoint_of_ones_own_is_kept_and_gone_on_from(tmp_path: Path) -> None:
    path, state = script(tmp_path), tmp_path / "state"
    first = succeeded("run", path, "--until-done", "--json", "--checkpoint", state)
    again = succeeded("run", path, "--until-done", "--json", "--checkpoint", state)
    assert json.loads(first.stdout)["queries"]["high"]["rows_out"] == 3
    assert json.loads(first.stdout)["streams"]["readings"]["max_lateness_s"] == 2.0
    [warning] = json.loads(first.stdout)["warnings"]
    assert warning.startswith("stream readings: 1 of 6 rows (17 %) were late")
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


@pytest.mark.parametrize(("options", "code"), [((), 0), (("--for", "1h"), 130)])
def test_ctrl_c_finishes_the_tick_and_prints_the_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], code: int
) -> None:
    take_in = Progress.__call__

    def interrupt_once_there_are_results(progress: Progress, event: Event) -> None:
        take_in(progress, event)
        if isinstance(event, TickCommitted) and event.queries["big"].rows_out:
            monkeypatch.undo()
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Progress, "__call__", interrupt_once_there_are_results)
    result = invoke("run", script(tmp_path, ENDLESS), *options)
    assert result.exit_code == code, result.stderr
    assert "finishing the tick, Ctrl-C again to abort\n" in result.stderr
    assert "big, the first 20 rows" in result.stdout
    assert "in (rows)" in result.stdout


def test_columns_that_are_not_declared_are_looked_up(tmp_path: Path) -> None:
    path = script(tmp_path, "CREATE STREAM b FROM burst;\nCREATE QUERY q AS SELECT protocol FROM b;\n")
    result = succeeded("explain", path, "--after", "bind")
    assert "stream b [UNBOUNDED] (ts, flow, src, dst, port, bytes, protocol)" in result.stdout


@pytest.mark.long
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

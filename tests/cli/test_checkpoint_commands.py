"""``checkpoint verify`` and ``rollback`` on a local folder: no JVM is started."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.support import invoke
from tests.spark.ticks import State


@pytest.fixture(autouse=True)
def no_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("headgate.spark.application.cluster.own_session", refuse)


@pytest.fixture
def state(tmp_path: Path) -> State:
    """After eight ticks."""
    made = State(tmp_path / "state")
    for _ in range(8):
        made.tick()
    return made


def test_verify_lists_ticks_and_exits_with_1_if_the_newest_is_damaged(state: State) -> None:
    good = invoke("checkpoint", "verify", state.root)
    assert good.exit_code == 0
    assert [line.split()[0] for line in good.stdout.splitlines() if line.endswith("good  ")] == list("76543")
    state.part(7).unlink()
    damaged = invoke("checkpoint", "verify", state.root)
    assert damaged.exit_code == 1
    assert "blocks/000000007/q-in0/part-1.parquet is missing" in damaged.stdout


def test_verify_and_rollback_print_one_json_document(state: State) -> None:
    state.manifest_file(7).write_text("{")
    result = invoke("checkpoint", "verify", state.root, "--json")
    assert result.exit_code == 1
    ticks = json.loads(result.stdout)["ticks"]
    assert [(tick["tick"], tick["good"]) for tick in ticks] == [
        (7, False),
        *((t, True) for t in (6, 5, 4, 3)),
    ]
    assert ticks[1]["rows"] == 6
    result = invoke("checkpoint", "rollback", state.root, "--json")
    assert json.loads(result.stdout) == {
        "from_tick": 7,
        "to_tick": 6,
        "batches_again": [7],
        "restored_headgate_json": False,
        "repaired": [],
    }


def test_rollback_reports_what_it_repairs_and_removes(state: State) -> None:
    (state.root / "spark/commits/7").write_text("")
    state.note_spark("offsets", 8)
    (state.root / "spark/metadata").unlink()
    result = invoke("checkpoint", "rollback", state.root)
    assert result.stdout.splitlines() == [
        "repaired spark/metadata, spark/commits/7",
        "removed what was planned after tick 7; the next start plans it anew",
    ]
    assert invoke("checkpoint", "rollback", state.root).stdout == "tick 7 is good; nothing to do\n"


def test_commands_on_other_folders_are_refused_in_one_line(tmp_path: Path) -> None:
    for command in ("verify", "rollback"):
        result = invoke("checkpoint", command, tmp_path)
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
        assert result.stderr.startswith(f"error: {tmp_path} has no manifests: it is not a checkpoint")
        result = invoke("checkpoint", command, tmp_path / "x")
        assert result.stderr == f"error: {tmp_path}/x is not a folder; pass the one given to --checkpoint\n"

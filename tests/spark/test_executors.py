"""The same results with several executors, each a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.spark.child import child, differences, log_of, write_input

pytestmark = pytest.mark.spark

TIMEOUT_S = 300


def test_joins_and_aggregates_on_two_executors_give_what_the_brute_force_gives(tmp_path: Path) -> None:
    write_input(tmp_path)
    # a session with another master needs another process
    with child(tmp_path, wild_ticks=2, files_a_tick=6, master="local-cluster[2,1,1024]") as process:
        assert process.wait(TIMEOUT_S) == 0, log_of(tmp_path).read_text()[-2000:]
    assert not (wrong := differences(tmp_path)), "\n".join(wrong)

"""``headgate reproduce segments``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.support import invoke

from headgate.experiments.segments import SHAPES, STREAMS, self_similar, sixteen_queries


def test_sixteen_queries_have_116_operators_and_read_all_streams() -> None:
    assert len(SHAPES) == 16
    assert max(shape.joins for shape in SHAPES) == 4
    plan = sixteen_queries(self_similar())
    assert len(plan.network.operators) == 116
    assert set(plan.network.streams) == set(STREAMS)
    assert plan.work_s == pytest.approx(0.9 * plan.last_arrival_s)


@pytest.mark.slow
def test_every_check_holds_and_every_figure_is_drawn(tmp_path: Path) -> None:
    done = invoke("reproduce", "segments", "--out", tmp_path, "--json")
    document = json.loads(done.stdout)
    assert [check["name"] for check in document["checks"] if not check["ok"]] == []
    assert done.exit_code == 0
    drawn = {Path(figure).name for figure in document["figures"]}
    expected = {f"self-similar-{what}.png" for what in ("latency", "throughput", "memory")}
    assert drawn == {"worked-example.png", *expected}
    assert all(Path(figure).stat().st_size > 1000 for figure in document["figures"])

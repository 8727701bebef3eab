"""``headgate reproduce optimizer``: all checks hold, and the study is quick."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from tests.cli.support import invoke

from headgate.experiments import optimizer


@pytest.mark.slow
def test_every_check_holds_and_every_figure_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimizer, "QUERIES", 200)
    done = invoke("reproduce", "optimizer", "--out", tmp_path, "--json")
    document = json.loads(done.stdout)
    assert [check for check in document["checks"] if not check["ok"]] == []
    names = [check["name"] for check in document["checks"]]
    for part in ("example 1", "figure 6", "figure 7", "figure 8", "figure 9", "figure 10"):
        assert any(name.startswith(part) for name in names), part
    assert all(Path(figure).stat().st_size > 1000 for figure in document["figures"])
    assert done.exit_code == 0


@pytest.mark.slow
def test_a_thousand_queries_take_seconds() -> None:
    begin = time.perf_counter()
    gains, errors = optimizer.gains_and_errors(1000, seed=1)
    assert gains.shape == errors.shape == (12, 1000)
    assert time.perf_counter() - begin < 60

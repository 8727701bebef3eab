"""``headgate simulate``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.support import invoke

from headgate.scheduling import strategy_names

EXAMPLE = Path(__file__).parents[2] / "examples" / "two_operators.toml"


def document(*arguments: object) -> Any:
    result = invoke("simulate", *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_one_strategy_is_one_object() -> None:
    found = document(EXAMPLE, "--strategy", "fifo")
    assert set(found) == {"strategy", "backlog", "peak", "mean", "latency", "outputs"}
    assert found["strategy"] == "fifo"
    assert found["backlog"][:7] == [[0, 1.0], [1, 1.2], [2, 2.0], [3, 2.2], [4, 3.0], [5, 3.2], [6, 4.0]]
    assert found["backlog"][-1] == [14, 0]
    assert (found["peak"], found["mean"]) == (4.0, 2.1)
    assert found["latency"] == {"mean": 5.0, "p99": 7.94, "max": 8.0}
    assert found["outputs"][0] == [2, 0, 2]


def test_chain_is_the_default() -> None:
    assert document(EXAMPLE) == document(EXAMPLE, "--strategy", "chain")


def test_all_strategies_are_a_list() -> None:
    assert [found["strategy"] for found in document(EXAMPLE, "--strategy", "all")] == list(strategy_names())


def test_the_table_is_ranked_by_peak_backlog() -> None:
    result = invoke("simulate", EXAMPLE, "--strategy", "all")
    rows = [line.split() for line in result.stdout.splitlines() if line.strip()[:1].isdigit()]
    assert sorted(row[1] for row in rows) == sorted(strategy_names())
    peaks = [float(row[2]) for row in rows]
    assert peaks == sorted(peaks)
    assert peaks[0] < peaks[-1]


def test_an_own_strategy_is_named_by_its_file(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from headgate.model.view import Turn\n"
        "class Last:\n"
        "    name = 'last'\n"
        "    def prepare(self, network, profiles):\n"
        "        self.order = list(network.operators)\n"
        "    def choose(self, view):\n"
        "        ready = view.ready()\n"
        "        if not ready:\n"
        "            return None\n"
        "        last = max(ready, key=lambda queue: self.order.index(queue.operator))\n"
        "        return Turn((last.operator,), last.ready)\n"
    )
    assert document(EXAMPLE, "--strategy", f"{tmp_path / 'own.py'}:Last")["peak"] == 4.0


def test_a_plot_is_a_png(tmp_path: Path) -> None:
    path = tmp_path / "plots" / "b.png"
    assert invoke("simulate", EXAMPLE, "--plot", path).exit_code == 0
    assert path.read_bytes().startswith(b"\x89PNG")


def test_settings_of_strategies_come_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "w.toml"
    path.write_text(EXAMPLE.read_text() + "\n[strategies.mixed]\nleast_slope = 2\n")
    # above 1 the whole path is one segment, first in first out
    assert document(path, "--strategy", "mixed")["backlog"] == document(path, "--strategy", "fifo")["backlog"]


RANDOM = """
fate = "random"
[streams.s]
arrivals = { process = "poisson", rate = 10, until = 20 }
[operators.a]
input = "s"
seconds = 0.1
selectivity = 0.5
"""


def test_the_seed_decides_arrivals_and_fates(tmp_path: Path) -> None:
    path = tmp_path / "w.toml"
    path.write_text(RANDOM)
    one, again, other = (document(path, "--seed", seed) for seed in (1, 1, 2))
    assert one == again
    assert one != other


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.toml"], "error: no such file: nowhere.toml\n"),
        ([EXAMPLE, "--strategy", "chian"], "error: unknown strategy chian; known: chain, "),
        ([EXAMPLE, "--plot", "x.gif"], "error: --plot draws PNG; write x.png\n"),
        ([EXAMPLE, "--seed", "x"], "error: Invalid value for '--seed'"),
    ],
)
def test_errors_are_one_line_and_code_2(arguments: list[object], message: str) -> None:
    result = invoke("simulate", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(message)
    assert result.stderr.count("\n") == 1

"""``headgate simulate``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.support import headings_without_unit, invoke

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


def test_every_column_has_a_unit() -> None:
    assert headings_without_unit(invoke("simulate", EXAMPLE).stdout) == {"strategy"}


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


CQL = """
CREATE STREAM packets (ts TIMESTAMP, src STRING, bytes INT) FROM csv OPTIONS (path 'p', timestamp 'ts');
CREATE STREAM flows (ts TIMESTAMP, src STRING, flow INT) FROM csv OPTIONS (path 'f', timestamp 'ts');
CREATE QUERY heavy WITH (latency = '1 s') AS SELECT p.src, f.flow
  FROM packets [RANGE 2 SECONDS] AS p, flows [ROWS 1000] AS f WHERE p.src = f.src AND p.bytes > 1000;
"""
PROFILES = {
    "operators": {
        "heavy.select_p": {"seconds_per_tuple": 0.001, "selectivity": 0.1, "bytes_per_tuple": 100},
        "heavy.join": {"seconds_per_tuple": 0.002, "selectivity": 2, "bytes_per_tuple": 50},
        "heavy.project": {"seconds_per_tuple": 0.001},
    },
    "tuples_per_s": {"packets": 200.0},
}


def measured(folder: Path, profiles: Any = PROFILES) -> tuple[Path, Path]:
    (folder / "q.sql").write_text(CQL)
    (folder / "profiles.json").write_text(json.dumps(profiles))
    return folder / "q.sql", folder / "profiles.json"


@pytest.mark.usefixtures("no_spark")
def test_a_file_of_cql_runs_on_measured_profiles(tmp_path: Path) -> None:
    script, profile = measured(tmp_path)
    options = ("--rate", "flows=50", "--for", "5 s", "--strategy")
    fifo = document(script, "--profile", profile, *options, "fifo")
    # a folder is an earlier run's checkpoint
    assert fifo == document(script, "--profile", tmp_path, *options, "fifo")
    # everything of either stream goes through the join, in pages: 1000 packets and 250 flows, more or less
    assert 1100 < len(fifo["outputs"]) < 1400
    amounts = {round(amount, 9) for _, amount, _ in fifo["outputs"]}
    assert amounts == {0.2, 2.0}
    chain = document(script, "--profile", profile, *options, "chain")
    assert chain["peak"] <= fifo["peak"]


@pytest.mark.usefixtures("no_spark")
def test_a_stream_that_was_silent_stays_silent(tmp_path: Path) -> None:
    script, profile = measured(tmp_path, {**PROFILES, "tuples_per_s": {"packets": 10.0, "flows": 0}})
    assert {amount for _, amount, _ in document(script, "--profile", profile)["outputs"]} == {0.2}


@pytest.mark.usefixtures("no_spark")
def test_strategies_are_not_ranked_by_numbers_that_nothing_measured(tmp_path: Path) -> None:
    own: dict[str, Any] = dict(PROFILES["operators"])
    made_up = {"seconds_per_tuple": 1e-6, "selectivity": 1.0, "samples": 0}
    options = ("--rate", "flows=9", "--for", "1s", "--json")
    script, profile = measured(tmp_path, {**PROFILES, "operators": {**own, "heavy.join": made_up}})
    failed = invoke("simulate", script, "--profile", profile, "--strategy", "all", *options)
    assert failed.exit_code == 2 and failed.stdout == "" and failed.stderr.count("\n") == 1
    assert "has no profile of operator heavy.join (no tick measured it); measure it with" in failed.stderr
    # behind a join that finds nothing, a projection has nothing to do
    silent = {name: own[name] for name in ("heavy.select_p", "heavy.join")}
    silent["heavy.join"] = {**silent["heavy.join"], "selectivity": 0.0}
    script, profile = measured(tmp_path, {**PROFILES, "operators": silent})
    done = invoke("simulate", script, "--profile", profile, *options)
    assert done.exit_code == 0 and json.loads(done.stdout)["outputs"] == []
    assert done.stderr == "not measured, as no tuple reached it: heavy.project; it counts as idle\n"


@pytest.mark.usefixtures("no_spark")
def test_recorded_arrivals_take_the_place_of_a_rate(tmp_path: Path) -> None:
    script, profile = measured(tmp_path)
    (tmp_path / "t.csv").write_text("time_s\n0.5\n1.5\n")
    traces = [f"--trace={stream}={tmp_path / 't.csv'}" for stream in ("packets", "flows")]
    found = document(script, "--profile", profile, *traces)
    # both join sides, twice; the first of each pair waits until nothing older can come
    assert [round(t - latency, 9) for t, _, latency in found["outputs"]] == [0.5, 0.5, 1.5, 1.5]


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize(
    ("profiles", "options", "message"),
    [
        (PROFILES, [], "q.sql has no profile; measure one with: headgate profile"),
        (PROFILES, ["--profile", "{}/none.json"], "no such file: "),
        (PROFILES, ["--profile", "{}"], "no rate of stream flows is known; add --rate flows=1000"),
        (
            PROFILES,
            ["--profile", "{}", "--rate", "flow=3"],
            "--rate: no query reads a stream flow; did you mean flows? known: flows",
        ),
        (
            PROFILES,
            ["--profile", "{}", "--rate", "flows"],
            "--rate flows names no stream; write --rate STREAM=",
        ),
        (PROFILES, ["--profile", "{}", "--rate", "flows=fast"], "--rate flows=fast is not a number; write"),
        (PROFILES, ["--profile", "{}", "--for", "soon"], "--for: 'soon' is not a time"),
        ({"operators": {}}, ["--profile", "{}"], "profiles.json has no profile of operator heavy.select_p"),
        ([], ["--profile", "{}"], "profiles.json: [] is wrong; write {"),
        ({"operators": {"x": {}}}, ["--profile", "{}"], "operators.x.seconds_per_tuple is missing"),
        (
            {"operators": {"x": {"seconds_per_tuple": -1}}},
            ["--profile", "{}"],
            "seconds_per_tuple = -1 is out of range",
        ),
        ({"operators": {"x": {"cost": 1}}}, ["--profile", "{}"], "operators.x.cost is not a known key"),
    ],
)
def test_what_is_wrong_with_measured_profiles(
    tmp_path: Path, profiles: Any, options: list[str], message: str
) -> None:
    script, _ = measured(tmp_path, profiles)
    result = invoke("simulate", script, *(option.replace("{}", str(tmp_path)) for option in options))
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_options_of_cql_have_no_place_beside_a_workload() -> None:
    result = invoke("simulate", EXAMPLE, "--rate", "s=3")
    assert (result.exit_code, result.stderr.split(";")[0]) == (2, "error: --rate is for CQL files")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.toml"], "error: no such file: nowhere.toml\n"),
        (
            [EXAMPLE, "--strategy", "chian"],
            "error: unknown strategy chian; did you mean chain? ",
        ),
        ([EXAMPLE, "--plot", "x.gif"], "error: --plot draws PNG; write x.png\n"),
        ([EXAMPLE, "--plot", "/"], "error: --plot draws PNG; write FILE.png\n"),
        ([EXAMPLE, "--seed", "x"], "error: Invalid value for '--seed'"),
    ],
)
def test_errors_are_one_line_and_code_2(arguments: list[object], message: str) -> None:
    result = invoke("simulate", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(message)
    assert result.stderr.count("\n") == 1

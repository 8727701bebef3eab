"""``headgate route``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.support import headings_without_unit, invoke

EXAMPLE = Path(__file__).parents[2] / "examples" / "three_selections.toml"
S3 = EXAMPLE.read_text()

J3 = """
sources = { A = { rate = 20 }, B = { rate = 80 }, C = { rate = 20 } }
[operators]
op3 = { resource = 10, per_tuple = 0.2, selectivity = 0.8 }
op4 = { resource = 20, per_tuple = 0.2, selectivity = { A = 0.1, C = 0.4 } }
op5 = { resource = 40, per_tuple = 0.4, selectivity = 0.2 }
[plans]
a = { source = "A", paths = [["op4", "op5"]] }
b = { source = "B", paths = [["op3", "op5"], ["op5", "op3"]] }
c = { source = "C", paths = [["op4", "op3"]] }
"""


def document(*arguments: object) -> Any:
    result = invoke("route", *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def written(folder: Path, text: str) -> Path:
    path = folder / "n.toml"
    path.write_text(text)
    return path


def test_the_largest_rate() -> None:
    found = document(EXAMPLE, "--optimize", "mdr")
    assert found["mdr"] == pytest.approx(243.73, rel=1e-4)
    assert set(found["utilisation"]) == {"op1", "op2", "op3"}
    assert sum(found["weights"]["op0"].values()) == pytest.approx(1)
    assert {tuple(choice["done"]) for choice in found["by_history"]} >= {(), ("op1",), ("op2",)}


def test_the_least_response_time_at_a_rate() -> None:
    found = document(EXAMPLE, "--optimize", "art", "--rate", 220)
    assert (found["rate"], found["art"]) == (220, pytest.approx(0.2476, rel=1e-3))
    # the file's own rate
    assert document(EXAMPLE, "--optimize", "art")["art"] == pytest.approx(0.1355, rel=1e-3)


def test_selectivities_by_source_and_listed_paths(tmp_path: Path) -> None:
    path = written(tmp_path, J3)
    assert document(path, "--optimize", "mdr")["weights"]["B"]["op3"] == pytest.approx(0.236, abs=1e-3)
    found = document(path, "--optimize", "art")
    assert (found["rate"], found["weights"]["B"]) == (120, {"op5": pytest.approx(1.0)})


def test_a_shared_resource_is_divided(tmp_path: Path) -> None:
    lines = [line for line in S3.splitlines() if not line.startswith("resource")]
    path = written(tmp_path, "\n".join(["total_resource = 100", *lines]))
    found = document(path, "--optimize", "mdr")
    assert found["mdr"] == pytest.approx(588.2, rel=1e-4)
    assert sum(found["resources"].values()) == pytest.approx(100)


def test_given_weights_are_evaluated(tmp_path: Path) -> None:
    path = written(tmp_path, S3 + "[weights]\nop0 = { op2 = 1 }\nop2 = { op1 = 3, op3 = 1 }\n")
    found = document(path)
    assert found["mdr"] == pytest.approx(200 * 10000 / 10001)
    assert found["art"] is None
    assert found["weights"]["op2"] == {"op1": pytest.approx(0.75), "op3": pytest.approx(0.25)}


def test_people_get_tables() -> None:
    result = invoke("route", EXAMPLE, "--optimize", "mdr")
    assert result.exit_code == 0
    assert "243.726" in result.stdout and "op0" in result.stdout
    assert "weight: of the tuples that leave FROM" in result.stdout
    assert "resource (units/s)" in result.stdout
    assert headings_without_unit(result.stdout) == {"operator", "from", "to"}


WRONG = [
    ("", "sources is missing; write [sources.NAME] with rate = 200"),
    (S3 + "[operators.op4]\nresource = 1\nper_tuple = 1\n", "operators.op4 is in no plan"),
    (S3.replace("resource = 10\n", ""), "operators.op1.resource is missing"),
    (S3.replace("resource = 10\n", "resource = 0\n"), "operators.op1.resource = 0 is out of range"),
    (S3.replace("per_tuple = 0.5\n", ""), "operators.op3.per_tuple is missing"),
    (S3.replace("rate = 200", "rate = -200"), "sources.op0.rate = -200 is out of range"),
    (S3.replace("rate = 200", "rate = 0"), "the rates of the sources sum to 0"),
    (S3.replace('source = "op0"', 'source = "op9"'), "plans.s3.source = 'op9' is not a source; known: op0"),
    (S3.replace('["op1", "op2", "op3"]', '["op1", "op7"]'), "plans.s3 names the unknown operator 'op7'"),
    (S3.replace('["op1", "op2", "op3"]', "[]"), "plans.s3.any_order = [] is wrong"),
    (S3.replace('["op1", "op2", "op3"]', '["op1", "op1"]'), "names 'op1' twice"),
    (S3 + 'before = [["op1", "op2"], ["op2", "op1"]]\n', "plans.s3.before forms a cycle: op1 -> op2 -> op1"),
    (S3 + 'before = [["op1", "op9"]]\n', "plans.s3.before names 'op9', which is not in any_order"),
    (S3 + 'paths = [["op1"]]\n', "plans.s3.any_order and paths exclude each other"),
    (S3 + "[weights.op0]\nop1 = 0\nop2 = 0\n", "weights.op0 sum to 0"),
    (S3 + "[weights.op0]\nop1 = -1\n", "weights.op0.op1 = -1 is out of range"),
    (S3 + "[weights.op0]\nop8 = 1\n", "weights.op0.op8 is not an operator; known: op1, op2, op3"),
    (S3 + "[sources.op8]\nrate = 3\n", "sources.op8 feeds no plan"),
    (S3.replace("resource = 10\n", 'node = "n"\n'), "operators.op1.node = 'n' is not a node; known: none"),
    ("total_resource = 5\n" + S3, "total_resource is used by no operator"),
    (S3 + "speed = 3\n", "plans.s3.speed is not a known key"),
    (
        J3.replace("{ A = 0.1, C = 0.4 }", "{ A = 0.1 }"),
        "operators.op4.selectivity has no value for source C",
    ),
    (J3.replace("{ A = 0.1, C = 0.4 }", "{ A = 0.1, D = 1 }"), "operators.op4.selectivity.D is not a source"),
    (J3.replace('[["op4", "op3"]]', '[["op4"], ["op4", "op3"]]'), "is the beginning of"),
    ("max_queue = 0\n" + S3.replace("max_queue = 10000", ""), "max_queue = 0 is out of range"),
    ("this is no TOML", "is not valid TOML"),
]


@pytest.mark.parametrize(("text", "message"), WRONG, ids=[message[:40] for _, message in WRONG])
@pytest.mark.parametrize("command", [["route", "--optimize", "mdr"]], ids=["route"])
def test_bad_networks_are_one_line_and_code_2(
    tmp_path: Path, command: list[str], text: str, message: str
) -> None:
    path = written(tmp_path, text)
    result = invoke(command[0], path, *command[1:])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: {path}") and message in result.stderr
    assert result.stderr.count("\n") == 1 and result.stderr.count("n.toml") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.toml", "--optimize", "mdr"], "no such file: nowhere.toml"),
        ([EXAMPLE, "--optimize", "best"], "--optimize best is unknown; write art or mdr"),
        ([EXAMPLE, "--optimize", "art", "--rate", "-3"], "--rate -3 is out of range"),
        ([EXAMPLE, "--optimize", "art", "--rate", "300"], "no routing sustains 300 tuples per second"),
        ([EXAMPLE], "gives no weights; add --optimize art or --optimize mdr"),
    ],
)
def test_bad_arguments_are_one_line_and_code_2(arguments: list[object], message: str) -> None:
    result = invoke("route", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr and result.stderr.count("\n") == 1


def simulated(*arguments: object) -> Any:
    result = invoke("simulate", *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


SHORT = S3 + "[simulation]\nseconds = 20\n"


@pytest.mark.slow
def test_a_network_is_simulated_under_a_policy(tmp_path: Path) -> None:
    path = written(tmp_path, SHORT)
    found = simulated(path, "--policy", "q", "--rate", 100)
    assert (found["policy"], found["rate"], found["seconds"]) == ("q", 100, 20)
    assert 0 < found["art"] < 1 and found["delivered"] == pytest.approx(80, abs=30)
    # the default policy, at the rate of the file; the seed decides
    assert simulated(path)["policy"] == "wscq"
    assert simulated(path, "--seed", 1) != simulated(path, "--seed", 2)


@pytest.mark.slow
def test_all_policies_are_a_list(tmp_path: Path) -> None:
    found = simulated(written(tmp_path, SHORT), "--policy", "all")
    assert [result["policy"] for result in found] == ["t", "q", "sc", "wsc", "scq", "wscq", "optimal"]
    table = invoke("simulate", written(tmp_path, SHORT), "--policy", "all").stdout
    rows = [line.split() for line in table.splitlines() if line.strip()[:1].isdigit()]
    times = [float(row[2]) for row in rows]
    assert len(rows) == 7 and times == sorted(times)


@pytest.mark.slow
def test_nodes_links_and_sharing_come_from_the_file(tmp_path: Path) -> None:
    text = """
    [sources.s]
    rate = 20
    node = "n1"
    [nodes]
    n1 = { resource = 1 }
    n2 = { resource = 1 }
    [operators]
    a = { node = "n2", per_tuple = 0.001, selectivity = 0.5 }
    [plans.p]
    source = "s"
    any_order = ["a"]
    [simulation]
    seconds = 100
    warm_up = 10
    links = { bytes_per_second = 1e6, page_timer = 2 }
    sharing = { split_at = 50 }
    """
    found = simulated(written(tmp_path, text), "--policy", "scq")
    assert found["pages"] > 30 and 0.7 < found["art"] < 1.3


ROUTER = """
from headgate.routing.policies import StatisticsRouter

class Last(StatisticsRouter):
    name = "last"

    def route(self, done, eligible, view):
        return {eligible[-1]: 1.0}

class Undecided:
    name = "undecided"
"""


@pytest.mark.slow
def test_a_router_of_the_users_is_simulated(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(ROUTER)
    path = written(tmp_path, SHORT)
    found = simulated(path, "--policy", f"{tmp_path}/mine.py:Last", "--rate", 50)
    assert found["policy"] == "last"
    assert found["visits"]["op3"] > found["visits"]["op2"] > found["visits"]["op1"]
    result = invoke("simulate", path, "--policy", f"{tmp_path}/mine.py:Undecided")
    assert result.exit_code == 2
    assert "mine.py:Undecided does not create a router: Undecided has no method prepare" in result.stderr


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (SHORT, ["--policy", "best"], "unknown policy best; known: optimal, q, "),
        (SHORT, ["--rate", "op0=3"], "--rate op0=3 is not a number; write a number of tuples"),
        (SHORT, ["--rate", "0"], "--rate 0 is out of range"),
        (SHORT + "speed = 3\n", [], "simulation.speed is not a known key"),
        (SHORT + "warm_up = 30\n", [], "simulation.warm_up = 30 leaves nothing of 20 seconds"),
        (SHORT + "links = 3\n", [], "simulation.links = 3 is wrong; write links = { bytes_per_second"),
        (
            SHORT + "links = { bytes_per_second = [3, 2] }\n",
            [],
            "links.bytes_per_second = [3, 2] is wrong; write [least, most]",
        ),
        (SHORT + "sharing = { split_at = 0 }\n", [], "sharing.split_at = 0 is out of range"),
        (SHORT.replace("rate = 200", ""), [], "sources.op0.rate is missing; write it, or add --rate 200"),
        (SHORT.replace("resource = 10\n", "resource = 0\n"), ["--policy", "q"], "op1.resource = 0 is out of"),
        ("[streams.s]\narrivals = [1]\n", ["--policy", "q"], "streams is not a known key"),
    ],
)
def test_what_cannot_be_simulated_is_one_line(
    tmp_path: Path, text: str, arguments: list[str], message: str
) -> None:
    result = invoke("simulate", written(tmp_path, text), *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr and result.stderr.count("\n") == 1

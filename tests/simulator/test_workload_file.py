"""Workload files: what they say, and what is wrong with them, in one line that names the place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headgate.errors import SetupError
from headgate.model.operator import is_ordered
from headgate.simulator import OnePerOperator, Pool
from headgate.simulator.workload_file import WorkloadFile, is_workload, read_workload

GOOD = """
time_unit = 0.5
processors = 2
fate = "random"
[streams.s]
arrivals = [0, 1.5, 1.5]
bytes = 100
[streams.t]
arrivals = { process = "poisson", rate = 10, until = 20 }
[operators.a]
input = "s"
seconds = 1
selectivity = 0.2
size_ratio = 2
[operators.j]
inputs = ["a", "t"]
seconds = 0
ordered = true
service = "exponential"
[queries.q]
output = "j"
latency = 20
[queries.r]
output = ["a", "j"]
[strategies.mixed]
least_slope = 0.25
"""


def read(tmp_path: Path, text: str, seed: int = 0) -> WorkloadFile:
    path = tmp_path / "w.toml"
    path.write_text(text)
    return read_workload(path, seed)


def test_everything_is_read(tmp_path: Path) -> None:
    workload = read(tmp_path, GOOD)
    scenario = workload.scenario
    assert (scenario.time_unit_s, scenario.processors, scenario.fate) == (0.5, Pool(2), "random")
    assert scenario.arrivals_s["s"].tolist() == [0, 1.5, 1.5]
    assert scenario.behaviours["a"].selectivity == 0.2
    assert scenario.behaviours["j"].service == "exponential"
    assert is_ordered(scenario.network.operators["j"])
    assert scenario.network.queries["q"].latency_s == 20
    assert scenario.network.queries["r"].outputs == ("a", "j")
    assert scenario.profiles["a"].bytes_per_tuple == 100
    arrived = len(scenario.arrivals_s["t"])
    # 0.6 tuples of 200 bytes from a, and those of t with 64 bytes
    assert scenario.profiles["j"].bytes_per_tuple == pytest.approx(
        (0.6 * 200 + arrived * 64) / (0.6 + arrived)
    )
    assert workload.strategy_text("mixed+oldest") == "mixed:least_slope=0.25+oldest"
    assert workload.strategy_text("mixed:least_slope=1") == "mixed:least_slope=1"
    assert workload.strategy_text("chain") == "chain"


def test_a_seed_decides_random_arrivals_and_streams_differ(tmp_path: Path) -> None:
    text = """
    [streams.s]
    arrivals = { process = "poisson", rate = 10, until = 20 }
    [streams.t]
    arrivals = { process = "poisson", rate = 10, until = 20 }
    [operators.a]
    inputs = ["s", "t"]
    seconds = 1
    """
    one, again, other = (read(tmp_path, text, seed).scenario.arrivals_s for seed in (1, 1, 2))
    assert np.array_equal(one["s"], again["s"])
    assert not np.array_equal(one["s"], other["s"])
    assert not np.array_equal(one["s"], one["t"])


def test_without_queries_the_last_operators_are_outputs(tmp_path: Path) -> None:
    network = read(tmp_path, GOOD[: GOOD.index("[queries.q]")]).scenario.network
    assert [query.outputs for query in network.queries.values()] == [("j",)]


def test_servers_each_gives_every_operator_its_own(tmp_path: Path) -> None:
    text = GOOD.replace("processors = 2", 'servers = "each"')
    assert read(tmp_path, text).scenario.processors == OnePerOperator()


def test_traces_are_looked_for_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("time_ms\n1000\n2500\n")
    text = GOOD.replace("[0, 1.5, 1.5]", '{ process = "trace", file = "t.csv" }')
    assert read(tmp_path, text).scenario.arrivals_s["s"].tolist() == [1.0, 2.5]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "seconds = 1",
            "seconds = -1",
            "operators.a.seconds = -1 is out of range; write a number of 0 or more",
        ),
        ("seconds = 1", "seconds = nan", "operators.a.seconds = nan is not a number"),
        ("seconds = 1", 'seconds = "1"', 'operators.a.seconds = "1" is not a number'),
        ("seconds = 1", "seconds = true", "operators.a.seconds = true is not a number"),
        ("seconds = 1", "", "operators.a.seconds is missing; write a number of 0 or more"),
        ("selectivity = 0.2", "selectivity = -0.2", "operators.a.selectivity = -0.2 is out of range"),
        (
            "selectivity = 0.2",
            "selectivty = 0.2",
            "operators.a.selectivty is not a known key; known here: input",
        ),
        ("size_ratio = 2", "size_ratio = 0", "operators.a.size_ratio = 0 is out of range"),
        ("size_ratio = 2", "output_size_ratio = 0", "operators.a.output_size_ratio = 0 is out of range"),
        ("size_ratio = 2", "size_ratio = 2\noutput_size_ratio = 2", "operators.a.output_size_ratio and"),
        (
            'input = "s"',
            'input = "x"',
            'operators.a.input = "x" is not a stream or operator; known: a, j, s, t',
        ),
        ('input = "s"', "", "operators.a.input is missing; write the name of a stream or an operator"),
        ('input = "s"', "input = 3", "operators.a.input = 3 is wrong"),
        ('input = "s"', 'input = "s"\ninputs = ["s"]', "operators.a.input and inputs exclude each other"),
        ('input = "s"', "inputs = []", "operators.a.inputs = [] is wrong"),
        ('input = "s"', 'input = "j"', "operators form a cycle: "),
        ('input = "s"', 'input = "a"', "operators form a cycle: a -> a; break it"),
        ('input = "s"', 'input = "s"\nordered = true', "operators.a.ordered needs several inputs"),
        ("ordered = true", "ordered = 1", "operators.j.ordered = 1 is wrong; write true or false"),
        ('"exponential"', '"normal"', 'operators.j.service = "normal" is unknown; write "constant" or'),
        ('output = "j"', 'output = "s"', 'queries.q.output = "s" is not an operator; known: a, j'),
        ('output = "j"', "", "queries.q.output is missing"),
        ("latency = 20", "latency = 0", "queries.q.latency = 0 is out of range; write a number above 0"),
        ("latency = 20", "latencies = 0", "queries.q.latencies is not a known key"),
        ("[0, 1.5, 1.5]", "[0, 2, 1.5]", "streams.s.arrivals: the times are not sorted: 1.5 comes after 2"),
        ("[0, 1.5, 1.5]", "[-1, 2]", "streams.s.arrivals: the times begin at -1"),
        (
            "[0, 1.5, 1.5]",
            "[0, inf]",
            "streams.s.arrivals: the times contain a value that is not",
        ),
        ("[0, 1.5, 1.5]", '[0, "x"]', 'streams.s.arrivals[1] = "x" is not a number'),
        ("[0, 1.5, 1.5]", "3", "streams.s.arrivals = 3 is wrong; write a list of times"),
        ("arrivals = [0, 1.5, 1.5]", "", "streams.s.arrivals is missing; write a list of times"),
        ("rate = 10", "rate = 0", "streams.t.arrivals: process poisson: rate = 0 is out of range"),
        ("rate = 10,", "", "streams.t.arrivals: process poisson needs rate"),
        ("rate = 10", "rates = 10", "streams.t.arrivals: process poisson has no setting rates"),
        ('"poisson"', '"posson"', "streams.t.arrivals: unknown process posson; known: list"),
        ('process = "poisson", ', "", "streams.t.arrivals name no process; known: list"),
        ("bytes = 100", "bytes = 0", "streams.s.bytes = 0 is out of range"),
        ("bytes = 100", "width = 100", "streams.s.width is not a known key; known here: arrivals, bytes"),
        ("[operators.a]", "[operators.s]", "operators.s has the name of a stream; choose another"),
        ("time_unit = 0.5", "time_unit = 0", "time_unit = 0 is out of range; write a number above 0"),
        ("time_unit = 0.5", "timeunit = 0.5", "timeunit is not a known key; known here: fate, operators"),
        ("processors = 2", "processors = 0", "processors = 0 is wrong; write a whole number of 1 or more"),
        ("processors = 2", "processors = 1.5", "processors = 1.5 is wrong"),
        ("processors = 2", 'processors = 2\nservers = "each"', "processors has no meaning with servers"),
        ('"random"', '"odd"', 'fate = "odd" is unknown; write "page" or "random"'),
        (
            "[strategies.mixed]",
            "[strategies.mixd]",
            "strategies.mixd: unknown strategy mixd; did you mean mixed?",
        ),
        (
            "least_slope",
            "slope",
            "strategies.mixed: strategy mixed has no setting 'slope'; it has least_slope",
        ),
        ("least_slope = 0.25", 'least_slope = "x"', 'strategies.mixed.least_slope = "x" is not a number'),
        ("[streams.s]", "[streams.s", "is not valid TOML: "),
        ("time_unit = 0.5", "time_unit = 1e-9", "a time unit of 1e-09 s cuts the run "),
        ("selectivity = 0.2", "selectivity = 1e9", "about 3e+09 entries to serve are too many"),
        ("seconds = 1", "seconds = 1e308", "seconds and selectivities multiply to more than can be counted"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(SetupError) as raised:
        read(tmp_path, GOOD.replace(old, new, 1))
    separator = " " if message.startswith("is not valid") else ": "
    assert str(raised.value).startswith(f"{tmp_path / 'w.toml'}{separator}{message}")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "streams is missing; write [streams.NAME] with arrivals"),
        ("streams = 3", "streams is not a table"),
        ("streams.s = 3", "streams.s is not a table"),
        ("[streams]", "streams is empty"),
        ("[streams.s]\narrivals = []", "operators is missing; write [operators.NAME] with input"),
    ],
)
def test_a_file_without_streams_or_operators_is_no_workload(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SetupError, match=r"w\.toml: ") as raised:
        read(tmp_path, text)
    assert message in str(raised.value)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="no such file: "):
        read_workload(tmp_path / "w.toml")
    with pytest.raises(SetupError, match="is a folder; pass a workload file"):
        read_workload(tmp_path)
    (tmp_path / "w.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(SetupError, match="is not valid UTF-8"):
        read_workload(tmp_path / "w.toml")


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("w.toml", "CREATE", True),
        ("q.sql", "[streams.s]", False),
        ("q.cql", "", False),
        ("w.txt", "[streams.s]", True),
        ("q.txt", "-- a query\nCREATE STREAM s", False),
    ],
)
def test_a_workload_is_told_from_cql(tmp_path: Path, name: str, text: str, expected: bool) -> None:
    (tmp_path / name).write_text(text)
    assert is_workload(tmp_path / name) == expected

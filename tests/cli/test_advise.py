"""``headgate advise``."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.support import headings_without_unit, invoke

from headgate.queueing import MG1, md1

CQL = """
CREATE STREAM readings (ts TIMESTAMP, sensor STRING, value INT) FROM csv OPTIONS (path 'r', timestamp 'ts');
CREATE STREAM alarms (ts TIMESTAMP, sensor STRING) FROM csv OPTIONS (path 'a', timestamp 'ts');
CREATE QUERY high WITH (latency = '{latency}', memory = '{memory}') AS
  SELECT sensor, value FROM readings WHERE value > 10;
"""
JOIN = """
CREATE QUERY both WITH (latency = '1 s') AS
  SELECT r.value FROM readings [RANGE 2 SECONDS] AS r, alarms [RANGE 4 SECONDS] AS a
  WHERE r.sensor = a.sensor;
"""
OPERATORS = {
    "high.select_readings": {"seconds_per_tuple": 0.002, "selectivity": 0.0, "bytes_per_tuple": 100},
    "high.project": {"seconds_per_tuple": 0.001, "selectivity": 1.0, "bytes_per_tuple": 50},
}
JOINED = {
    "both.join": {"seconds_per_tuple": 1e-4, "selectivity": 5.0, "bytes_per_tuple": 20},
    "both.project": {"seconds_per_tuple": 1e-4, "selectivity": 1.0, "bytes_per_tuple": 20},
}

TICK = {"overhead_s": 0.2, "intake_s": 1e-4, "work_s": 0.5}
# one queue, without the ticks of Spark
QUEUE = ("--tick", "0s", "--processors", 1)

pytestmark = pytest.mark.usefixtures("no_spark")


def written(
    folder: Path, text: str = CQL, latency: str = "1 s", memory: str = "1 MB", **document: Any
) -> Path:
    """A script beside its profile."""
    path = folder / "script.sql"
    path.write_text(text.replace("{latency}", latency).replace("{memory}", memory))
    known = {"operators": OPERATORS | JOINED, "tuples_per_s": {"readings": 200, "alarms": 50}}
    path.with_suffix(".profile.json").write_text(json.dumps(known | document))
    return path


def document(*arguments: object, code: int = 0) -> Any:
    result = invoke("advise", *arguments, "--json")
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def test_one_selection_is_an_md1_queue(tmp_path: Path) -> None:
    found = document(written(tmp_path), *QUEUE)
    queue = md1(200, 0.002)
    assert found["fits"] is True and found["model"] == {"name": "OnServer", "processors": 1}
    assert found["utilisation"] == pytest.approx(0.4) and found["rates"] == {"readings": 200}
    select = found["operators"]["high.select_readings"]
    assert select["queue_tuples"] == pytest.approx(queue.mean_in_system)
    assert select["queue_bytes"] == pytest.approx(100 * queue.mean_in_system)
    high = found["queries"]["high"]
    assert high["bounds"] == {"latency_s": 1.0, "memory_bytes": 1_048_576}
    # nothing gets to the projection, but a result would take it too
    assert high["latency_s"]["p99"] == pytest.approx(queue.time_in_system_percentile(0.99) + 0.001)
    assert [path["operators"] for path in high["paths"]] == [["high.select_readings", "high.project"]]
    assert high["broken"] == [] and high["would_fit"] is None
    assert high["largest_factor"] == pytest.approx(2.49, rel=0.01)
    assert found["largest_rates"]["readings"] == pytest.approx(200 * found["largest_factor"])


def test_what_does_not_fit_is_told_with_what_would(tmp_path: Path) -> None:
    script = written(tmp_path, latency="10 ms")
    found = document(script, *QUEUE, "--rate", "readings=450", code=1)
    high = found["queries"]["high"]
    [broken] = high["broken"]
    assert broken["bound"] == "latency" and broken["limit"] == 0.01
    latency_s = md1(450, 0.002).time_in_system_percentile(0.99) + 0.001
    assert broken["predicted"] == pytest.approx(latency_s)
    assert broken["times"] == pytest.approx(latency_s / 0.01)
    assert high["would_fit"]["processors"] == 2 and high["would_fit"]["window_factor"] is None
    shed = high["would_fit"]["shed_share"]
    assert shed == pytest.approx(1 - high["largest_factor"], abs=0.001)
    kept = document(script, *QUEUE, "--rate", f"readings={450 * (1 - shed) * 0.999}")
    assert kept["fits"] is True
    assert document(script, "--tick", "0s", "--rate", "readings=450", "--processors", 2)["fits"] is True
    memory = document(written(tmp_path, memory="500 bytes"), *QUEUE, "--rate", "readings=450", code=1)
    assert memory["queries"]["high"]["broken"][0]["bound"] == "memory"


def test_an_overloaded_plan_has_no_figures(tmp_path: Path) -> None:
    found = document(written(tmp_path), *QUEUE, "--rate", "readings=600", code=1)
    assert found["utilisation"] == pytest.approx(1.2)
    assert found["operators"] is None and found["queries"]["high"]["latency_s"] is None
    assert found["queries"]["high"]["broken"][0]["bound"] == "capacity"
    table = invoke("advise", written(tmp_path), *QUEUE, "--rate", "readings=600")
    assert table.exit_code == 1
    assert "high does not fit: utilisation would be 1.2, and has to stay below 1" in table.stdout
    assert "it would fit with 2 processors, or shedding" in table.stdout


def test_the_table_has_queries_paths_and_operators(tmp_path: Path) -> None:
    result = invoke("advise", written(tmp_path, CQL + JOIN), *QUEUE)
    assert result.exit_code == 0, result.output
    for text in (
        "high",
        "both.join > both.project",
        "high.select_readings",
        "all queries fit up to",
        "Poisson",
    ):
        assert text in result.stdout


def test_joins_have_state_and_wait_for_order(tmp_path: Path) -> None:
    found = document(written(tmp_path, CQL + JOIN), *QUEUE)
    both = found["queries"]["both"]
    assert both["state_bytes"] == pytest.approx((200 * 2 + 50 * 4) * 20)
    # a reading waits for the next alarm, 50 a second
    assert both["latency_s"]["mean"] > 0.02 > found["queries"]["high"]["latency_s"]["mean"]


def test_ticks_are_taken_from_the_profile_or_as_asked(tmp_path: Path) -> None:
    script = written(tmp_path, tick=TICK)
    found = document(script)
    assert found["model"]["name"] == "InTicks" and found["model"]["processors"] == 2
    tick_s = 0.2 / (1 - 200 * 1e-4 - 0.5 * 0.4)
    # the work of the tuple itself adds a little
    assert found["queries"]["high"]["latency_s"]["p50"] == pytest.approx(1.5 * tick_s, rel=0.02)
    assert document(script, "--tick", "0s")["model"]["name"] == "OnServer"
    asked = document(script, "--tick", "100 ms", "--processors", 4)
    assert asked["model"] | {"overhead_s": 0.1, "processors": 4} == asked["model"]


def test_no_result_is_promised_earlier_than_a_tick(tmp_path: Path) -> None:
    script = written(tmp_path)
    failed = invoke("advise", script)
    assert failed.exit_code == 2 and failed.stdout == ""
    assert failed.stderr == (
        f"error: {script.with_suffix('.profile.json')} has no costs of ticks; measure them with headgate "
        f"profile {script}, or state one (--tick 200ms, or tick='200 ms'; 0 for an engine without ticks)\n"
    )
    # the reason that the profile gives is passed on
    lacking = written(tmp_path, not_measured={"ticks": "only 3 of 6 did any work"})
    assert "has no costs of ticks (only 3 of 6 did any work)" in invoke("advise", lacking).stderr
    ticked = document(script, "--tick", "200ms", "--processors", 1)
    assert ticked["queries"]["high"]["latency_s"]["p50"] >= 0.3


def test_the_verdict_comes_first_and_then_what_it_rests_on(tmp_path: Path) -> None:
    lines = invoke("advise", written(tmp_path, tick=TICK, processors=2)).stdout.splitlines()
    assert lines[:2] == [
        "fits: every query keeps its bounds, at p99",
        "model: ticks as profiled, of 0.2 s or more; processors: 2; percentile: p99",
    ]
    unbounded = CQL.replace(" WITH (latency = '{latency}', memory = '{memory}')", "")
    assert invoke("advise", written(tmp_path, unbounded, tick=TICK)).stdout.splitlines()[0] == (
        "fits: processors keep up with all queries, which have no bounds"
    )
    refused = invoke("advise", written(tmp_path, latency="100 ms", tick=TICK), "--percentile", "0.9")
    assert refused.exit_code == 1
    lines = refused.stdout.splitlines()
    assert lines[0] == "does not fit: 1 of 1 queries, at p90"
    assert lines[1].startswith("high does not fit: latency p90 would be 0.488 s, 4.88 times its bound")
    assert lines[2].endswith("processors: 2; percentile: p90")
    for arguments, model in (
        (["--tick", "300ms", "--processors", 3], "ticks as given, of 0.3 s or more"),
        (["--tick", "0s", "--processors", 3], "one queue without ticks, which Spark has"),
        (
            ["--tick", "0s", "--processors", 3, "--strategy", "chain"],
            "priorities of chain without ticks, which Spark has",
        ),
    ):
        found = invoke("advise", written(tmp_path), *arguments).stdout.splitlines()
        assert found[1] == f"model: {model}; processors: 3; percentile: p99"
    each = invoke("advise", written(tmp_path), "--servers", "each").stdout
    assert "a server for each operator, which Spark has not; processors: 1 for each operator;" in each


def test_processors_are_those_of_the_profile_else_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 7)
    assert document(written(tmp_path, tick=TICK, processors=3))["model"]["processors"] == 3
    # as many as explain how long work took
    assert document(written(tmp_path, tick=TICK))["model"]["processors"] == 2
    assert document(written(tmp_path, processors=3), "--tick", "0s")["model"]["processors"] == 3
    assert document(written(tmp_path), "--tick", "0s")["model"]["processors"] == 7


def test_an_answer_says_how_sure_it_is(tmp_path: Path) -> None:
    measured = {name: own | {"samples": 9} for name, own in OPERATORS.items()}

    def lines(latency: str, **tick: float) -> list[str]:
        script = written(tmp_path, latency=latency, operators=measured, tick=TICK | tick, processors=2)
        return invoke("advise", script).stdout.splitlines()

    # ticks of 0.256 s: 0.51 s at p99, and twice 5 % more or less
    error = {"spread": 0.05, "samples": 3}
    assert lines("1 s", **error)[1] == "sure within twice the standard error of the profile (10.0%)"
    doubt = "not sure for high: within twice the standard error of the profile (10.0%) the answer may be"
    assert lines("0.55 s", **error)[0].startswith("fits") and lines("0.55 s", **error)[1].startswith(doubt)
    unfit = lines("0.5 s", **error)
    assert unfit[0].startswith("does not fit") and unfit[2].startswith(doubt)
    assert lines("0.3 s", **error)[2].startswith("sure within")
    # that ticks differ is part of the percentile itself
    even, uneven = (
        document(written(tmp_path, latency="2 s", tick=TICK | {"spread": spread}))["queries"]["high"][
            "latency_s"
        ]
        for spread in (0.0, 0.5)
    )
    assert uneven["p99"] > 1.5 * even["p99"] and uneven["p50"] == pytest.approx(even["p50"], rel=0.1)
    # costs of operators that are hardly known leave the largest rate open
    vague = document(written(tmp_path, tick=TICK | {"work_error": 1.0}))
    assert vague["sure_factor"] < 0.5 * vague["largest_factor"]
    exact = document(written(tmp_path, tick=TICK))
    assert exact["sure_factor"] == pytest.approx(exact["largest_factor"])


def test_a_query_that_sheds_fits_if_shedding_helps(tmp_path: Path) -> None:
    text = CQL.replace("memory = '{memory}'", "overload = 'shed'")
    script = written(tmp_path, text, latency="1 s", tick=TICK, processors=2)
    found = document(script, "--rate", "readings=1200")
    high = found["queries"]["high"]
    assert high["fits"] is True and high["broken"] and 0 < high["sheds"] < 1
    table = invoke("advise", script, "--rate", "readings=1200").stdout
    assert f"high fits by shedding {high['sheds']:.1%} of its input" in table
    # not even an empty tick is as short as that
    hopeless = written(tmp_path, text, latency="10 ms", tick=TICK, processors=2)
    assert document(hopeless, code=1)["queries"]["high"]["sheds"] is None


def test_what_was_not_measured_is_refused_or_marked(tmp_path: Path) -> None:
    select, project = OPERATORS
    made_up = {"seconds_per_tuple": 1e-6, "selectivity": 1.0, "samples": 0}
    failed = invoke("advise", written(tmp_path, operators={**OPERATORS, select: made_up}, tick=TICK))
    assert failed.exit_code == 2 and failed.stderr.count("\n") == 1
    assert f"has no profile of operator {select} (no tick measured it)" in failed.stderr
    # nothing passes the selection, so the projection is idle
    idle = written(
        tmp_path,
        operators={select: OPERATORS[select]},
        not_measured={project: "no tuple reached it"},
        tick=TICK,
    )
    assert document(idle)["idle"] == [project]
    said = invoke("advise", idle).stdout
    assert f"not measured, as no tuple reached it, and counted as idle: {project}" in said
    bound = written(tmp_path, tick=TICK, machine_bound={"readings": 120.0})
    assert "readings: the profiled machine took 120 tuples/s, not 200" in invoke("advise", bound).stdout
    # which does not matter where it took enough
    assert "machine_bound" not in document(bound, "--rate", "readings=110")
    unpaced = written(tmp_path, tick=TICK, tuples_per_s={}, machine_bound={"readings": 45_000.0})
    assert invoke("advise", unpaced).stderr == (
        "error: no rate of stream readings is known, only that the profiled machine reads 45,000 tuples/s "
        "of it; state it (--rate readings=1000, or rates={'readings': 1000})\n"
    )


def test_no_mean_is_above_the_largest_percentile_shown(tmp_path: Path) -> None:
    # few tuples wait; at the rate of 3, one in a hundred, for half as long as its service
    passing = {k: v | {"selectivity": 1.0} for k, v in OPERATORS.items()}
    script = written(tmp_path, operators=passing)
    shown = set()
    for rate, model in product(
        (0.1, 3, 3.2), (QUEUE, ("--servers", "each"), (*QUEUE, "--strategy", "chain"))
    ):
        arguments = (*model, "--rate", f"readings={rate}")
        for path in document(script, *arguments)["queries"]["high"]["paths"]:
            shown |= path["latency_s"].keys()
            mean_s, *percentiles = (float(f"{value:.3g}") for value in path["latency_s"].values())
            assert mean_s <= max(percentiles)
        table = invoke("advise", script, *arguments).stdout
        [row] = [line for line in table.splitlines() if "high.select_readings > high.project" in line]
        mean_s, *percentiles = map(float, row.split()[3:])
        assert mean_s <= max(percentiles)
    # where 99 of 100 are too few to be above the mean, more are shown
    assert "p99.9" in shown


def test_every_column_of_every_table_has_a_unit(tmp_path: Path) -> None:
    script = written(tmp_path, CQL + JOIN, tick=TICK)
    trace = tmp_path / "times.csv"
    trace.write_text("at_s\n" + "\n".join(f"{0.01 * n:.2f}" for n in range(500)))
    printed = invoke("advise", script, "--trace", f"readings={trace}").stdout
    assert headings_without_unit(printed) == {"query", "fits", "path", "operator"}


def test_strategies_and_servers(tmp_path: Path) -> None:
    script = written(tmp_path, CQL + JOIN)
    assert document(script, *QUEUE, "--strategy", "chain")["model"]["name"] == "ByPriority"
    assert document(script, "--servers", "each")["model"]["name"] == "OwnServers"


@pytest.mark.slow
def test_recorded_arrivals_stand_beside_the_formula(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    bursts = np.cumsum(generator.exponential(0.5, 200))
    times_s = np.sort((bursts[:, None] + generator.uniform(0, 0.05, (200, 100))).ravel())
    trace = tmp_path / "times.csv"
    trace.write_text("at_s\n" + "\n".join(f"{t:.6f}" for t in times_s))
    script = written(tmp_path)
    found = document(script, *QUEUE, "--trace", f"readings={trace}")
    recorded = found["recorded"]
    rate = (len(times_s) - 1) / (times_s[-1] - times_s[0])
    assert found["rates"]["readings"] == pytest.approx(rate)
    # 100 tuples come together, about
    assert max(scale["index"] for scale in recorded["dispersion"]["readings"]) > 30
    formula_s = MG1(rate, [(1.0, 0.002)]).time_in_system_percentile(0.99)
    # nothing passes the selection, so no result was seen
    assert recorded["latency_s"]["high"] is None
    passing = {"operators": {k: v | {"selectivity": 1.0} for k, v in OPERATORS.items()}}
    traced = ("--trace", f"readings={trace}", "--rate", "readings=100")
    seen = document(written(tmp_path, **passing), *QUEUE, *traced)
    assert seen["rates"]["readings"] == 100
    assert seen["recorded"]["latency_s"]["high"]["p99"] > 3 * formula_s
    assert seen["recorded"]["latency_s"]["high"]["p99"] > seen["queries"]["high"]["latency_s"]["p99"]
    table = invoke("advise", script, *QUEUE, "--trace", f"readings={trace}")
    assert "index of dispersion" in table.stdout and "use the recorded latencies" in table.stdout
    ticks = document(script, "--trace", f"readings={trace}", "--tick", "100ms")
    assert ticks["recorded"]["latency_s"]["high"]["p50"] > 0.1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rate", "readings=-5"], "error: --rate readings=-5 is out of range; write a number"),
        (["--rate", "readings=many"], "error: --rate readings=many is not a number; write"),
        (["--rate", "nothing=5"], "error: --rate: no query reads a stream nothing; known: readings"),
        (["--rate", "readings"], "error: --rate readings names no stream"),
        (["--profile", "nowhere.json"], "error: no such file: nowhere.json"),
        (["--strategy", "round-robin"], "error: strategy round-robin has no fixed order"),
        (["--strategy", "x"], "error: unknown strategy x"),
        (["--servers", "none"], "error: servers takes pool or each, not none"),
        (["--percentile", "99"], "error: --percentile 99 is out of range; write a number from 0 to"),
        (["--tick", "soon"], "error: --tick: "),
        (["--trace", "readings=nowhere.csv"], "error: there is no file nowhere.csv"),
        (["--processors", "0"], "error: "),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, arguments: list[str], message: str) -> None:
    failed = invoke("advise", written(tmp_path, tick=TICK), *arguments)
    assert failed.exit_code == 2
    assert failed.stderr.startswith(message) and failed.stderr.count("\n") == 1


def test_a_missing_profile_says_how_to_make_one(tmp_path: Path) -> None:
    script = written(tmp_path)
    script.with_suffix(".profile.json").unlink()
    failed = invoke("advise", script)
    assert failed.exit_code == 2 and failed.stderr.count("\n") == 1
    assert f"headgate profile {script}" in failed.stderr
    other = written(tmp_path, operators={})
    failed = invoke("advise", other)
    assert failed.exit_code == 2 and "has no profile of operator high." in failed.stderr
    assert f"headgate profile {script}" in failed.stderr
    norate = written(tmp_path, tuples_per_s={})
    assert (
        "no rate of stream readings is known; state it (--rate readings=1000, or"
        in invoke("advise", norate).stderr
    )


def test_negative_figures_of_a_profile_are_refused(tmp_path: Path) -> None:
    wrong = OPERATORS | {"high.project": {"seconds_per_tuple": -1}}
    failed = invoke("advise", written(tmp_path, operators=wrong))
    assert failed.exit_code == 2 and "seconds_per_tuple = -1 is out of range" in failed.stderr


def test_the_example_of_the_help_is_there() -> None:
    assert "Example: headgate advise" in invoke("advise", "--help").stdout

"""Every named arrival process: sorted, seeded, replayable, with its settings checked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from headgate.errors import SetupError
from headgate.workload.processes import _BY_NAME, ParetoFlows, process_named

EXAMPLES: dict[str, dict[str, object]] = {
    "list": {"times": [0, 0, 1.5, 7]},
    "poisson": {"rate": 10, "until": 100},
    "phases": {"rates": [5, 10, 40], "seconds": 50},
    "pareto-flows": {"until": 500, "rate": 3},
    "on-off": {"rate": [50, 100], "until": 120, "flows": 128},
}


@pytest.fixture
def examples(tmp_path: Path) -> dict[str, dict[str, object]]:
    file = tmp_path / "trace.parquet"
    parquet.write_table(pa.table({"arrival_us": [0, 500_000, 500_000, 3_000_000]}), file)
    return {**EXAMPLES, "trace": {"file": str(file)}}


def test_every_process_has_an_example_here(examples: dict[str, dict[str, object]]) -> None:
    assert set(examples) == set(_BY_NAME)


@pytest.mark.parametrize("name", _BY_NAME)
def test_times_are_sorted_and_the_same_for_a_seed(name: str, examples: dict[str, dict[str, object]]) -> None:
    process = process_named(name, examples[name])
    times = process.times_s(seed=3)
    assert len(times) > 3 and times[0] >= 0 and np.all(np.diff(times) >= 0)
    assert np.array_equal(times, process_named(name, examples[name]).times_s(seed=3))
    if name not in ("list", "trace"):
        assert not np.array_equal(times, process.times_s(seed=4))


def test_poisson_has_its_rate_and_exponential_gaps() -> None:
    gaps = np.diff(process_named("poisson", {"rate": 50, "until": 2000}).times_s(1))
    # 100,000 gaps: five standard errors of the mean, and of the standard deviation
    assert gaps.mean() == pytest.approx(0.02, rel=0.016)
    assert gaps.std() == pytest.approx(0.02, rel=0.023)


def test_phases_have_their_rates_in_turn() -> None:
    times = process_named("phases", {"rates": [10, 100, 1000], "seconds": 100}).times_s(1)
    counts = np.histogram(times, [0, 100, 200, 300])[0]
    for count, expected in zip(counts, [1_000, 10_000, 100_000], strict=True):
        assert abs(count - expected) < 5 * expected**0.5
    unequal = process_named("phases", {"rates": [100, 1000], "seconds": [300, 10]}).times_s(1)
    assert np.histogram(unequal, [0, 300, 310])[0] == pytest.approx([30_000, 10_000], rel=0.05)


def test_flows_send_their_mean_rate_in_bursts() -> None:
    flows = ParetoFlows(until=20_000, rate=2.0, longest=100.0)
    times = flows.times_s(1)[:]
    later = times[times > 200]
    rate = len(later) / (20_000 - 200)
    # one flow per second
    mean_rate = 2.0 * flows.durations.mean
    # the last tuple of a flow may fall beyond its end: half a gap a flow on average
    assert mean_rate <= rate * 1.05 and rate <= (mean_rate + 1.0) * 1.05
    counts = np.histogram(later, np.arange(200, 20_000, 10.0))[0]
    assert counts.var() > 3 * counts.mean()


def test_a_trace_is_read_from_csv_too_and_can_be_cut_and_sped_up(tmp_path: Path) -> None:
    file = tmp_path / "times.csv"
    file.write_text("id,seen_ms\n1,0\n2,1000\n3,2500\n4,9000\n")
    settings = {"file": str(file), "column": "seen_ms", "begin": 1, "until": 9, "speed": 2}
    assert process_named("trace", settings).times_s(0).tolist() == [0.0, 0.75]


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("fractal", {}, "is no process; known: list, on-off, pareto-flows, phases, poisson, trace"),
        ("poisson", {"rate": 1}, "process poisson: until is missing; write a number of seconds"),
        (
            "poisson",
            {"rate": 1, "until": 5, "untl": 5},
            "process poisson: untl is not a known key; did you mean until? known here: process, rate, until",
        ),
        ("poisson", {"rate": -1, "until": 5}, "process poisson: rate = -1 is out of range"),
        (
            "poisson",
            {"rate": "fast", "until": 5},
            'process poisson: rate = "fast" is wrong; write a number of tuples per second',
        ),
        ("poisson", {"rate": 1e9, "until": 5}, "are too many"),
        ("phases", {"rates": [], "seconds": 5}, "rates = [] is wrong"),
        ("phases", {"rates": [3, 4, 5], "seconds": [5, 6]}, "2 seconds for 3 rates; write one for each"),
        ("phases", {"rates": [3, 0], "seconds": 5}, "rates = [3, 0] is wrong"),
        (
            "on-off",
            {"rate": 3, "until": 5, "flows": 0},
            "flows = 0 is out of range; write a whole number of flows from 1 to 1024",
        ),
        ("on-off", {"rate": 3, "until": 5, "flows": 1.5}, "write a whole number"),
        ("list", {"times": [1, 0.5]}, "times are not sorted: 0.5 comes after 1; sort them"),
        ("list", {"times": [-1]}, "times[0] = -1 is out of range"),
        ("list", {"times": [float("nan")]}, "times[0] = nan is out of range"),
        ("trace", {"file": "nowhere.parquet"}, "there is no file nowhere.parquet"),
        ("trace", {"file": "n" * 1000}, "there is no file nnn"),
        ("trace", {"file": "x", "unit": "weeks"}, 'unit = "weeks" is wrong'),
    ],
)
def test_impossible_settings_are_one_line(name: str, settings: dict[str, object], message: str) -> None:
    with pytest.raises(SetupError) as error:
        process_named(name, settings).times_s(0)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_a_file_that_holds_no_times_is_refused(tmp_path: Path) -> None:
    text, other = tmp_path / "words.csv", tmp_path / "other.parquet"
    text.write_text("when\nyesterday\n")
    other.write_text("no parquet")
    with pytest.raises(SetupError, match=r"column when of .* is not all numbers"):
        process_named("trace", {"file": str(text)}).times_s(0)
    with pytest.raises(SetupError, match="has no column at; it has when"):
        process_named("trace", {"file": str(text), "column": "at"}).times_s(0)
    with pytest.raises(SetupError, match="neither Parquet nor"):
        process_named("trace", {"file": str(other)}).times_s(0)

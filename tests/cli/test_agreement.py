"""``headgate advise`` and admission, which ``headgate run`` asks, give one verdict on one profile."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cli.support import invoke

from headgate.cli.script import Script
from headgate.control.admission import Refused, bounded_queries, check_admission
from headgate.model.network import Network
from headgate.model.profile import Profile, TickCosts
from headgate.planning.lower import Stages
from headgate.statistics.profile_file import Measured, beside

STREAMS = """\
CREATE STREAM r (ts TIMESTAMP, k INT, v INT) FROM parquet OPTIONS (path 'r/', timestamp 'ts');
CREATE STREAM s (ts TIMESTAMP, k INT) FROM parquet OPTIONS (path 's/', timestamp 'ts');
"""
QUERIES = {
    "high": "SELECT v FROM r WHERE v > 10",
    "both": "SELECT r.v FROM r [RANGE 2 SECONDS], s [RANGE 4 SECONDS] WHERE r.k = s.k AND r.v > 7",
    "sums": "SELECT k, SUM(v) AS v FROM r [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY k",
}


@st.composite
def scripts(draw: st.DrawFn) -> str:
    """Queries with some of the bounds there are, at least one of them."""
    text = STREAMS
    for name in draw(st.lists(st.sampled_from(sorted(QUERIES)), min_size=1, unique=True)):
        latency_ms = draw(st.sampled_from([None, 300, 1000, 5000]))
        settings = [] if latency_ms is None else [f"latency = '{latency_ms} ms'"]
        settings += draw(st.sampled_from([[], ["memory = '40 KB'"], ["overload = 'shed'"]]))
        declared = f" WITH ({', '.join(settings)})" if settings else ""
        text += f"CREATE QUERY {name}{declared} AS {QUERIES[name]};\n"
    return text


def chosen(draw: st.DrawFn, low: float, high: float) -> float:
    return draw(st.floats(low, high, allow_subnormal=False))


@st.composite
def profiles(draw: st.DrawFn, text: str) -> dict[str, Any]:
    network = Stages.of(Script.parse(text, "q.sql").catalog()).lowered
    operators = {
        name: {
            "seconds_per_tuple": chosen(draw, 1e-6, 1e-3),
            "selectivity": draw(st.sampled_from([0.0, 0.01, 0.5, 1.0, 3.0])),
            "bytes_per_tuple": 50,
            "seconds_per_tuple_error": 1e-6,
            "samples": draw(st.sampled_from([0, 5, 9, 9, 9, 9])),
        }
        for name in network.operators
    }
    document: dict[str, Any] = {"operators": operators}
    document["tuples_per_s"] = {stream: chosen(draw, 10, 3000) for stream in network.streams}
    if draw(st.integers(0, 9)):
        document["tick"] = {
            "overhead_s": chosen(draw, 0.05, 1.0),
            "intake_s": chosen(draw, 0.0, 1e-4),
            "work_s": chosen(draw, 0.3, 1.0),
            "spread": chosen(draw, 0.0, 0.5),
            "samples": draw(st.integers(6, 90)),
        }
    if draw(st.booleans()):
        document["processors"] = draw(st.integers(1, 4))
    return document


RATES = """\
CREATE STREAM r (v INT) FROM rate OPTIONS (rowsPerSecond '{per_s}');
CREATE QUERY q WITH (latency = '2 s') AS SELECT v FROM r WHERE v > 10;
"""


@pytest.mark.usefixtures("no_spark")
def test_both_follow_the_rate_that_a_stream_declares_and_the_processors_there_are(tmp_path: Path) -> None:
    script = tmp_path / "q.sql"

    def verdicts(per_s: float, processors: int) -> tuple[bool, str]:
        """Whether ``advise`` says that the query fits, and why a run on so many processors is refused."""
        script.write_text(RATES.format(per_s=per_s))
        network = Stages.of(Script.parse(script.read_text(), "q.sql").catalog()).lowered
        cost = {"seconds_per_tuple": 1e-3, "selectivity": 0.5}
        document = {
            "operators": dict.fromkeys(network.operators, cost),
            "tuples_per_s": {"r": 100},
            "tick": {"overhead_s": 0.5, "intake_s": 0.0, "work_s": 0.5},
            "processors": 2,
        }
        beside(script).write_text(json.dumps(document))
        advised = invoke("advise", script, "--processors", processors)
        try:
            check_admission(network, ["q"], Measured.read(beside(script)), processors)
        except Refused as refused:
            return advised.exit_code == 0, str(refused)
        return advised.exit_code == 0, ""

    assert verdicts(100, 2) == (True, "")
    fits, refusal = verdicts(1000, 2)
    assert not fits and refusal.startswith("query q: latency p99 would be ")
    assert verdicts(500, 2) == (True, "")
    fits, refusal = verdicts(500, 1)
    assert not fits and refusal.startswith("on 1 processor, query q: latency p99 would be ")


@pytest.mark.usefixtures("no_spark")
def test_a_query_that_has_changed_is_judged_by_an_estimate_that_is_marked(tmp_path: Path) -> None:
    script = tmp_path / "q.sql"
    script.write_text(RATES.format(per_s=100))

    def network() -> Network:
        return Stages.of(Script.parse(script.read_text(), "q.sql").catalog()).lowered

    definitions = {name: network().definition(name) for name in network().operators}
    profiles = dict.fromkeys(definitions, Profile(1e-3, 0.5, samples=9))
    measured = Measured(profiles, {"r": 100.0}, TickCosts(0.5, 0.0, 0.5), definitions=definitions)
    beside(script).write_text(measured.to_json())
    assert invoke("advise", script).exit_code == 0 and check_admission(network(), ["q"], measured) == ()
    # blanks and bounds are no part of what an operator does, a condition is
    script.write_text(script.read_text().replace("v > 10", "v  >  10").replace("2 s", "3 s"))
    assert invoke("advise", script).exit_code == 0
    script.write_text(script.read_text().replace("v  >  10", "sha2(CAST(v AS STRING), 256) > '4'"))
    lacks = "has no profile of operator q.select_r (it has changed since it was measured)"
    refused = invoke("advise", script)
    assert refused.exit_code == 2 and lacks in refused.stderr
    [warning] = check_admission(network(), ["q"], measured)
    estimates = "operator q.select_r (as before it changed)"
    assert warning == f"bounds of q are checked by estimates of {estimates}"


@pytest.mark.slow
@pytest.mark.usefixtures("no_spark")
@settings(max_examples=25)
@given(st.data())
def test_advise_and_run_give_the_same_verdict(data: st.DataObject) -> None:
    text = data.draw(scripts())
    document = data.draw(profiles(text))
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "q.sql"
        script.write_text(text)
        beside(script).write_text(json.dumps(document))
        advised = invoke("advise", script, "--json")
        measured = Measured.read(beside(script))
    network = Stages.of(Script.parse(text, "q.sql").catalog()).lowered
    bounded = bounded_queries(network)
    refusal, warnings = "", ()
    try:
        warnings = check_admission(network, list(network.queries), measured)
    except Refused as refused:
        refusal = str(refused)
    if advised.exit_code == 2:
        # there is no promise by what was measured alone
        marks = ("are not checked: the profile has no ", "are checked by estimates of operator ")
        said = [text for text in (refusal, *warnings) if any(mark in text for mark in marks)]
        assert len(said) == bool(bounded)
        return
    found = json.loads(advised.stdout)
    unfit = {name for name, own in found["queries"].items() if not own["fits"]}
    assert advised.exit_code == bool(unfit)
    assert bool(refusal) == bool(unfit & bounded)
    said = refusal or "\n".join(warnings)
    assert {name for name in network.queries if f"query {name}: " in said} == unfit
    for name in unfit:
        for broken in found["queries"][name]["broken"]:
            size = 1e6 if broken["bound"] == "memory" else 1.0
            assert f" would be {broken['predicted'] / size:.3g}" in said
    if not refusal:
        doubtful = {name for name in bounded if not found["queries"][name]["sure"]}
        assert {name for name in bounded if f"query {name} keeps its bounds by a margin" in said} == doubtful

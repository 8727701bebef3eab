from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import headgate
from headgate.formats.plain_json import finite, json_text
from headgate.model.event import SettingsChanged, StreamCounts
from headgate.model.profile import Profile
from headgate.model.shedding import TickSettings
from headgate.model.status import Latency, QueryStatus, RunStatus
from headgate.planning.plan_tree import Tree
from headgate.statistics.profile_file import Measured

SOURCE = Path(headgate.__file__).parent
# state of our own, which only Headgate reads: infinite bounds must come back as they were
STATE = {
    "spark/lock.py",
    "spark/sealed_document.py",
    "spark/eddies/eddy_jobs.py",
    "spark/arrival/dead_letters.py",
    "spark/stored_tables.py",
    "spark/streaming_logs.py",
}

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def refuse(word: str) -> None:
    raise AssertionError(f"{word} is no JSON")


def strictly_read(text: str) -> Any:
    return json.loads(text, parse_constant=refuse)


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, float) and not math.isfinite(theirs):
        return ours is None
    if isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(same(ours[key], theirs[key]) for key in theirs)
    if isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return bool(ours == theirs)


@given(values)
def test_strict_readers_accept_every_text_and_find_the_value_but_for_null(value: Any) -> None:
    assert same(strictly_read(json_text(value)), value)
    assert same(finite(value), value)


def test_documents_of_results_have_null_for_what_is_not_finite() -> None:
    nan, inf = math.nan, math.inf
    change = SettingsChanged(1.0, 1, "", TickSettings(), TickSettings(), {"rate": inf, "load": nan, "n": 1.0})
    status = RunStatus(
        queries={"q": QueryStatus(1, Latency(nan, 0.5, inf, -inf), keep_ratio=nan)},
        streams={"s": StreamCounts(1)},
        peak_backlog_tuples=0,
        peak_backlog_bytes=0,
        backlog_tuples=0,
        ticks=1,
        seconds=nan,
        changes=(change,),
    )
    found = strictly_read(json.dumps(status.to_json(), allow_nan=False))
    assert found["queries"]["q"]["latency_s"] == {"mean": None, "p50": 0.5, "p99": None, "max": None}
    assert found["seconds"] is None and found["queries"]["q"]["keep_ratio"] is None
    assert found["changes"][0]["statistics"] == {"rate": None, "load": None, "n": 1.0}
    assert Tree("join", values={"rate": inf}).to_json()["rate"] is None


def test_a_profile_with_unknown_numbers_is_written_as_null_and_read_as_not_known() -> None:
    written = Measured(
        {"a": Profile(1e-6, 0.5, selectivity_error=math.nan)}, {"s": math.inf, "t": 5.0}
    ).to_json()
    assert strictly_read(written)["operators"]["a"]["selectivity_error"] is None
    read = Measured.from_json(written, "profile")
    assert read.profiles == {"a": Profile(1e-6, 0.5)} and read.tuples_per_s == {"t": 5.0}


def test_all_documents_for_users_are_written_by_the_one_function() -> None:
    writing = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if re.search(r"\bjson\.dumps?\(", path.read_text())
    }
    assert writing == STATE | {"formats/plain_json.py"}

"""Profile files: what was measured, written and read again."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from headgate.errors import SetupError
from headgate.model.profile import Profile, TickCosts
from headgate.statistics.profile_file import Measured, beside


def test_a_profile_survives_being_written() -> None:
    ticks = TickCosts(0.2, 1e-6, 0.5)
    measured = Measured({"a": Profile(2e-6, 0.25, 33.0, 12, 1e-7, 0.004)}, {"s": 100.0}, ticks)
    assert Measured.from_json(measured.to_json(), "p") == measured


PROFILE = {"seconds_per_tuple": 1e-6, "selectivity": 0.5}
WRONG: list[tuple[Any, str]] = [
    ([], '[] is wrong; write {"operators": {"NAME": {"seconds_per_tuple"'),
    ({}, 'operators is missing; write {"NAME": {"seconds_per_tuple": 2e-6, '),
    ({"operators": 3}, 'operators = 3 is wrong; write {"NAME": {'),
    ({"operators": {"a": 3}}, 'operators.a = 3 is wrong; write {"seconds_per_tuple": 2e-6, '),
    ({"operators": {"a": {}}}, "operators.a.seconds_per_tuple is missing; write a number of seconds"),
    (
        {"operators": {"a": PROFILE | {"seconds_per_tuple": math.nan}}},
        "operators.a.seconds_per_tuple = nan is out of range; write a number of seconds from 0 to 1e6",
    ),
    ({"operators": {"a": PROFILE | {"selectivity": -1}}}, "operators.a.selectivity = -1 is out of range"),
    ({"operators": {"a": PROFILE | {"selectivity": "x"}}}, 'operators.a.selectivity = "x" is wrong'),
    ({"operators": {"a": PROFILE | {"samples": 1.5}}}, "operators.a.samples = 1.5 is out of range"),
    ({"operators": {"a": PROFILE | {"selectvity": 1}}}, "operators.a.selectvity is not a known key; did you"),
    ({"operators": {}, "tuples_per_s": 7}, 'tuples_per_s = 7 is wrong; write {"STREAM": 1000}'),
    ({"operators": {}, "tuples_per_s": {"s": math.inf}}, "tuples_per_s.s = inf is out of range"),
    ({"operators": {}, "predicates": {"a": 1}}, "predicates.a = 1 is wrong"),
    ({"operators": {}, "predicates": {"a": {"x > 1": 1}}}, 'predicates.a."x > 1" = 1 is wrong'),
    ({"operators": {}, "tick": {"overhead_s": 1}}, "tick.intake_s is missing; write a number of seconds"),
    ({"operators": {}, "tick": 3}, 'tick = 3 is wrong; write {"overhead_s": 0.2'),
]


@pytest.mark.parametrize(("document", "message"), WRONG, ids=[message[:40] for _, message in WRONG])
def test_errors_name_the_path_of_the_value_and_what_is_right(document: Any, message: str) -> None:
    with pytest.raises(SetupError) as refusal:
        Measured.from_json(json.dumps(document), "p.json")
    assert str(refusal.value).startswith(f"p.json: {message}")


@pytest.mark.parametrize("script", ["q.sql", "folder/q.cql", "q"])
def test_a_profile_lies_beside_its_script(script: str) -> None:
    assert beside(Path(script)) == Path(script).parent / "q.profile.json"

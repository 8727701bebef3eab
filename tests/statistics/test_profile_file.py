"""Profile files: what was measured, written and read again."""

from __future__ import annotations

import json
import math
from dataclasses import replace
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
    # stated, not measured
    stated = Measured({"a": Profile(2e-6, 0.25)}, {"s": 100.0})
    assert Measured.from_json(stated.to_json(), "p") == stated
    bound = replace(
        measured,
        tick=replace(ticks, spread=0.2, samples=9, work_error=0.1),
        not_measured={"b": "no tuple reached it"},
        machine_bound={"s": 40.0},
        processors=2,
        definitions={"a": "0123456789abcdef"},
    )
    assert Measured.from_json(bound.to_json(), "p") == bound


def test_an_operator_without_a_single_sample_was_not_measured() -> None:
    made_up = {"seconds_per_tuple": 1e-6, "selectivity": 1.0, "samples": 0}
    found = Measured.from_json(
        json.dumps({"operators": {"q.a": made_up, "q.b": made_up | {"samples": 3}}}), "p"
    )
    assert found.profiles.keys() == {"q.b"}
    assert found.not_measured == {"q.a": "no tick measured it"}


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "processors",
            0,
            "p: processors = 0 is out of range; write a whole number of processors from 1 to 4096",
        ),
        (
            "processors",
            2.5,
            "p: processors = 2.5 is out of range; write a whole number of processors from 1 to 4096",
        ),
        ("not_measured", ["a"], 'p: not_measured = ["a"] is wrong; write {"OPERATOR": "TEXT"}'),
        ("definitions", {"a": 3}, "p: definitions.a = 3 is wrong; write a text"),
        ("machine_bound", 7, 'p: machine_bound = 7 is wrong; write {"STREAM": 1000}'),
        (
            "machine_bound",
            {"s": "x"},
            'p: machine_bound.s = "x" is wrong; write a number of tuples per second from 0 to 1e9',
        ),
    ],
)
def test_wrong_values_are_refused_in_one_line(key: str, value: object, message: str) -> None:
    with pytest.raises(SetupError) as refused:
        Measured.from_json(json.dumps({"operators": {}, key: value}), "p")
    assert str(refused.value) == message


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

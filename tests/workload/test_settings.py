"""Options of a synthetic stream."""

from __future__ import annotations

import pytest

from headgate.errors import SetupError
from headgate.workload.rates import RatePhases
from headgate.workload.settings import BurstSettings


def test_defaults_are_an_endless_stream_in_real_time() -> None:
    burst = BurstSettings.parse({})
    assert (burst.process.seed, burst.process.flows, burst.process.rate) == (7, 64, RatePhases.constant(1000))
    assert (burst.speed, burst.partitions, burst.max_rows, burst.start_us) == (1.0, 2, None, None)
    assert not burst.is_finite


def test_option_names_are_read_in_any_case() -> None:
    burst = BurstSettings.parse({"RATE": "5", "maxrowspertrigger": "9", "Duration": "2 s", "onShape": "1.9"})
    assert (burst.process.rate.highest, burst.max_rows, burst.duration_us) == (5, 9, 2_000_000)
    assert burst.process.on_shape == 1.9
    assert burst.is_finite


def test_rows_per_trigger_is_another_name_for_the_cap() -> None:
    assert BurstSettings.parse({"rowsPerTrigger": "9"}).max_rows == 9


@pytest.mark.parametrize(
    ("text", "start_us"),
    [
        ("now", None),
        ("1970-01-01T00:00:01Z", 1_000_000),
        ("1970-01-01T01:00:00.000001+01:00", 1),
        ("1970-01-02", 86_400_000_000),
    ],
)
def test_start_is_now_or_an_iso_time_in_utc(text: str, start_us: int | None) -> None:
    assert BurstSettings.parse({"start": text}).start_us == start_us


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rte": "5"}, "no option 'rte'; it has .*rate"),
        ({"rate": "many"}, "option rate: 'many' is no rate"),
        ({"flows": "1.5"}, "option flows: '1.5' is no value"),
        ({"duration": "0 s"}, "option duration: '0 s' is too little"),
        ({"partitions": "0"}, "option partitions: '0' is too little"),
        ({"maxRowsPerTrigger": "-4"}, "too little"),
        ({"speed": "0"}, "option speed: '0' is no speed"),
        ({"speed": "warp"}, "option speed"),
        ({"speed": "max"}, "add option duration"),
        ({"start": "yesterday"}, "option start: 'yesterday' is no value"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(options: dict[str, str], message: str) -> None:
    with pytest.raises(SetupError, match=message):
        BurstSettings.parse(options)

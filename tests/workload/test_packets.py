"""PacketValues and options of synthetic packets."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from headgate.errors import SetupError
from headgate.workload.onoff import OnOff
from headgate.workload.packets import BurstSettings, PacketValues
from headgate.workload.traffic import RatePhases

PACKET = pa.schema(
    [
        ("ts", pa.timestamp("us", tz="UTC")),
        ("flow", pa.int32()),
        ("src", pa.string()),
        ("dst", pa.string()),
        ("port", pa.int32()),
        ("bytes", pa.int32()),
        ("protocol", pa.string()),
    ]
)
ARRIVALS = OnOff(7, RatePhases.constant(20_000)).arrivals(0, 2_000_000)


def test_values_do_not_depend_on_how_tuples_are_grouped() -> None:
    values = PacketValues(7)
    whole = values.batch(ARRIVALS, 0, PACKET)
    parts = [values.batch(ARRIVALS.between(*cut), 0, PACKET) for cut in ((0, 333), (333, 10**7))]
    assert pa.Table.from_batches(parts).combine_chunks().to_batches()[0].equals(whole)


def test_event_time_is_the_start_plus_traffic_time() -> None:
    batch = PacketValues(7).batch(ARRIVALS, 1_700_000_000_000_000, PACKET)
    assert (
        batch["ts"].cast(pa.int64()).to_numpy().tolist()
        == (ARRIVALS.time_us + 1_700_000_000_000_000).tolist()
    )


def test_bytes_are_heavy_tailed_between_40_and_1500() -> None:
    size = PacketValues(7).batch(ARRIVALS, 0, PACKET)["bytes"].to_numpy()
    assert size.min() == 40 and 1400 < size.max() <= 1500
    assert np.mean(size) > 1.5 * np.median(size)


def test_skew_makes_first_addresses_frequent_and_zero_makes_all_equal() -> None:
    def top_share(skew: float) -> float:
        counts = PacketValues(7, keys=100, skew=skew).batch(ARRIVALS, 0, PACKET)["src"].value_counts()
        assert len(counts) == 100
        return float(max(counts.field("counts").to_pylist()) / len(ARRIVALS))

    assert top_share(0) < 0.02
    assert top_share(1) == pytest.approx(np.log(2) / np.log(101), rel=0.1)
    assert top_share(1.5) > 0.25


def test_streams_of_different_seeds_share_their_addresses_but_not_their_draws() -> None:
    one, other = (PacketValues(seed, keys=50).batch(ARRIVALS, 0, PACKET)["src"] for seed in (1, 2))
    assert set(one.to_pylist()) == set(other.to_pylist())
    assert not one.equals(other)


def test_source_and_destination_are_drawn_apart() -> None:
    batch = PacketValues(7, keys=50, skew=0).batch(ARRIVALS, 0, PACKET)
    same = np.mean(np.asarray(batch["src"].to_pylist()) == np.asarray(batch["dst"].to_pylist()))
    assert same == pytest.approx(0.02, abs=0.005)


def test_declared_columns_are_filled_by_name_and_others_uniformly() -> None:
    schema = pa.schema(
        [
            ("weight", pa.float64()),
            ("Bytes", pa.int64()),
            ("k", pa.int32()),
            ("n", pa.int64()),
            ("s", pa.string()),
        ]
    )
    batch = PacketValues(7, keys=10).batch(ARRIVALS, 0, schema)
    assert batch.schema.equals(schema)
    assert batch["Bytes"].equals(PacketValues(7).batch(ARRIVALS, 0, PACKET)["bytes"].cast(pa.int64()))
    assert set(batch["k"].to_pylist()) == set(range(10))
    assert set(batch["s"].to_pylist()) == {f"v{number}" for number in range(10)}
    weight = batch["weight"].to_numpy()
    assert weight.min() >= 0 and weight.max() < 1 and weight.mean() == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (
            pa.field("x", pa.timestamp("us")),
            "column x: no values can be made up for TIMESTAMP_NTZ; declare INT",
        ),
        (pa.field("ts", pa.string()), "column ts cannot be STRING; declare it TIMESTAMP"),
        (pa.field("src", pa.int32()), "column src cannot be INT; declare it STRING"),
    ],
)
def test_columns_that_cannot_be_filled_are_refused_by_name(column: pa.Field, message: str) -> None:
    with pytest.raises(SetupError, match=message):
        PacketValues(7).check(pa.schema([column]))


@pytest.mark.parametrize("options", [{"keys": 0}, {"keys": 1 << 25}, {"skew": -1.0}])
def test_values_out_of_range_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(SetupError):
        PacketValues(7, **options)  # type: ignore[arg-type]


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
        ({"rte": "5"}, "no option 'rte'; did you mean rate. it has .*rate"),
        ({"rate": "many"}, "option rate: 'many' is not a rate"),
        ({"flows": "1.5"}, "option flows: 1.5 is not a whole number; write a whole number of flows"),
        ({"duration": "0 s"}, "option duration: '0 s' is too short"),
        (
            {"partitions": "0"},
            "option partitions: 0 is out of range; write a whole number of partitions from 1",
        ),
        ({"maxRowsPerTrigger": "-4"}, "out of range"),
        ({"speed": "0"}, "option speed: 0 is out of range"),
        ({"speed": "warp"}, "option speed"),
        ({"speed": "max"}, "add option duration"),
        ({"start": "yesterday"}, "option start: 'yesterday' is not a time; write one like .*, or 'now'"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(options: dict[str, str], message: str) -> None:
    with pytest.raises(SetupError, match=message):
        BurstSettings.parse(options)

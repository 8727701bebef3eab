"""Streams of synthetic network packets: their options, and their values as Arrow columns.

A value depends on the seed, the column and the tuple's identity only, so partitions and replays agree.
Addresses depend on their rank alone: two streams with different seeds draw from the same addresses, and can
be joined on them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.errors import SetupError, known_names, nearest
from headgate.model.uniform_hash import mix
from headgate.quantity import FLOWS, SEED, SHAPE, Quantity
from headgate.workload.onoff import AlwaysOn, OnOff
from headgate.workload.traffic import Arrivals, RatePhases, TruncatedPareto, traffic_time_us

PORTS = (443, 80, 53, 22, 25, 123, 993, 3306, 5432, 8080)
PORT_SHARES = (0.5, 0.18, 0.12, 0.05, 0.04, 0.03, 0.03, 0.02, 0.02, 0.01)
PROTOCOLS = ("tcp", "udp", "icmp")
PROTOCOL_SHARES = (0.8, 0.18, 0.02)
PACKET_BYTES = TruncatedPareto(shape=1.1, shortest=40, longest=1501)
_KEYS = Quantity("keys", 1, 1 << 24, is_whole=True)
_SKEW = Quantity("", 0, 10)
_SPEED = Quantity("traffic seconds per second", 1e-6, 1e6)
_PARTITIONS = Quantity("partitions", 1, 1000, is_whole=True)
_ROWS = Quantity("rows", 1, 1e12, is_whole=True)
SQL_NAMES = {
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.timestamp("us", tz="UTC"): "TIMESTAMP",
    pa.timestamp("us"): "TIMESTAMP_NTZ",
}
"""The types that a column may have."""


@dataclass(frozen=True)
class Values:
    """Settings of the values: ``keys`` addresses, the k-th drawn in proportion to ``k ** -skew``."""

    seed: int
    keys: int = 1000
    skew: float = 1.0

    def __post_init__(self) -> None:
        _KEYS.check(self.keys, f"a number of {self.keys} keys")
        _SKEW.check(self.skew, f"a skew of {self.skew:g}")

    def check(self, schema: pa.Schema) -> None:
        """Raise if a column cannot be filled."""
        for column in schema:
            _filler(column)

    def batch(self, arrivals: Arrivals, start_us: int, schema: pa.Schema) -> pa.RecordBatch:
        """Fill the columns of ``schema``; ``start_us`` is the event time of traffic time 0."""
        tuples = _Tuples(self, arrivals, start_us)
        columns = [_filler(column)(tuples, column.name.lower()).cast(column.type) for column in schema]
        return pa.RecordBatch.from_arrays(columns, schema=schema)


@dataclass(frozen=True)
class _Tuples:
    values: Values
    arrivals: Arrivals
    start_us: int

    def uniform(self, column: str) -> NDArray[np.float64]:
        """Numbers in ``[0, 1)``: 53 bits of a hash of the identity."""
        salt = (zlib.crc32(column.encode()) << 32 ^ self.values.seed) & (1 << 64) - 1
        # the same arithmetic on an array as on a number
        identities: Any = self.arrivals.id.view(np.uint64)
        return np.asarray((mix(mix(identities) ^ mix(salt)) >> 11) * 2.0**-53, np.float64)

    def rank(self, column: str) -> NDArray[np.int64]:
        """Numbers from 0 to keys - 1, of which the first are drawn most often."""
        return _zipf(self.uniform(column), self.values.keys, self.values.skew)

    def below_keys(self, column: str) -> NDArray[np.int64]:
        return (self.uniform(column) * self.values.keys).astype(np.int64)

    def pick(self, column: str, values: pa.Array, shares: tuple[float, ...]) -> pa.Array:
        """One of the values for each tuple, in proportion to its share."""
        return values.take(np.searchsorted(np.cumsum(shares)[:-1], self.uniform(column), side="right"))


def _zipf(uniform: NDArray[np.float64], keys: int, skew: float) -> NDArray[np.int64]:
    """The whole part of a continuous power law on ``[1, keys + 1)``: no table, however many keys."""
    power = 1 - skew
    if abs(power) < 1e-9:
        rank = np.exp(uniform * np.log1p(keys))
    else:
        rank = (1 + uniform * ((keys + 1) ** power - 1)) ** (1 / power)
    return np.asarray(np.minimum(rank.astype(np.int64), keys) - 1)


def _texts(numbers: NDArray[np.int64], text_of: Callable[[int], str]) -> pa.Array:
    """Format each distinct number once: the Python loop is over keys, not over tuples."""
    encoded = pa.array(numbers).dictionary_encode()
    texts = [text_of(number) for number in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(encoded.indices)


def _dotted(rank: int) -> str:
    return f"10.{rank >> 16}.{rank >> 8 & 255}.{rank & 255}"


_Filler = Callable[[_Tuples, str], pa.Array]
_TIMES = (pa.timestamp("us", tz="UTC"), pa.timestamp("us"))
_NUMBERS = (pa.int32(), pa.int64(), pa.float64())
_TEXTS = (pa.string(),)
_PACKET: dict[str, tuple[_Filler, tuple[pa.DataType, ...]]] = {
    "ts": (lambda t, _: pa.array(t.arrivals.time_us + t.start_us).view(_TIMES[0]), _TIMES),
    "flow": (lambda t, _: pa.array(t.arrivals.flow), _NUMBERS),
    "src": (lambda t, column: _texts(t.rank(column), _dotted), _TEXTS),
    "dst": (lambda t, column: _texts(t.rank(column), _dotted), _TEXTS),
    "port": (lambda t, column: t.pick(column, pa.array(PORTS, pa.int32()), PORT_SHARES), _NUMBERS),
    "bytes": (lambda t, column: pa.array(PACKET_BYTES.at(t.uniform(column)).astype(np.int32)), _NUMBERS),
    "protocol": (lambda t, column: t.pick(column, pa.array(PROTOCOLS), PROTOCOL_SHARES), _TEXTS),
}
_OTHER: dict[pa.DataType, _Filler] = {
    pa.int32(): lambda t, column: pa.array(t.below_keys(column)),
    pa.int64(): lambda t, column: pa.array(t.below_keys(column)),
    pa.float64(): lambda t, column: pa.array(t.uniform(column)),
    pa.string(): lambda t, column: _texts(t.below_keys(column), lambda number: f"v{number}"),
}


def _filler(column: pa.Field) -> _Filler:
    if column.name.lower() in _PACKET:
        filler, types = _PACKET[column.name.lower()]
        if column.type not in types:
            wanted = " or ".join(SQL_NAMES[type_] for type_ in types)
            raise SetupError(f"column {column.name} cannot be {SQL_NAMES[column.type]}; declare it {wanted}")
        return filler
    if column.type not in _OTHER:
        raise SetupError(no_values_for(column.name, SQL_NAMES[column.type]))
    return _OTHER[column.type]


def no_values_for(column: str, type_name: str) -> str:
    return (
        f"column {column}: no values can be made up for {type_name}; "
        f"declare INT, BIGINT, DOUBLE or STRING, or one of the columns {', '.join(_PACKET)}"
    )


_PROCESSES: dict[str, type[OnOff]] = {"onoff": OnOff, "poisson": AlwaysOn}


def _process(text: str) -> type[OnOff]:
    found = _PROCESSES.get(text.strip().lower())
    if found is None:
        raise SetupError(f"'{text}' is not an arrival process; known: {known_names(tuple(_PROCESSES))}")
    return found


def _duration_us(text: str) -> int:
    duration_us = traffic_time_us(text)
    if duration_us < 1:
        raise SetupError(f"'{text}' is too short; write 1 us or more")
    return duration_us


def _speed(text: str) -> float | None:
    return None if text.strip().lower() == "max" else _SPEED.read(text)


def _start_us(text: str) -> int | None:
    if text.strip().lower() == "now":
        return None
    # Python 3.10 does not read the letter for UTC
    moment = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    utc = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    # whole numbers: a float would round
    return (utc - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1)


# how each option is read, and what holds without it
_OPTIONS: Mapping[str, tuple[Callable[[str], Any], Any]] = {
    "rate": (RatePhases.parse, RatePhases.constant(1000)),
    "process": (_process, OnOff),
    "flows": (FLOWS.read, 64),
    "seed": (SEED.read, 7),
    "onShape": (SHAPE.read, 1.4),
    "offShape": (SHAPE.read, 1.2),
    "start": (_start_us, None),
    "duration": (_duration_us, None),
    "speed": (_speed, 1.0),
    "partitions": (_PARTITIONS.read, 2),
    "keys": (_KEYS.read, 1000),
    "skew": (_SKEW.read, 1.0),
    "maxRowsPerTrigger": (_ROWS.read, None),
}


@dataclass(frozen=True)
class BurstSettings:
    """A synthetic stream: when its tuples arrive, what they contain, how fast they are emitted."""

    process: OnOff
    values: Values
    start_us: int | None
    """Event time of traffic time 0, in microseconds since 1970; None for the moment the stream starts."""
    duration_us: int | None
    """Traffic time after which the stream ends; None for never."""
    speed: float | None
    """Traffic seconds per second; None for as fast as they are read."""
    partitions: int
    max_rows: int | None

    def __post_init__(self) -> None:
        if self.speed is None and self.duration_us is None and self.max_rows is None:
            raise SetupError("speed 'max' would emit an endless stream at once; add option duration")

    @staticmethod
    def parse(options: Mapping[str, str]) -> BurstSettings:
        """Read options, whose names may be in any case; raise on an unknown name or a bad value."""
        # short for the same cap
        names = {**{name.lower(): name for name in _OPTIONS}, "rowspertrigger": "maxRowsPerTrigger"}
        settings = {name: default for name, (_, default) in _OPTIONS.items()}
        for written, text in options.items():
            name = names.get(written.lower())
            if name is None:
                known = f"{nearest(written, _OPTIONS)}it has {known_names(_OPTIONS)}"
                raise SetupError(f"burst has no option '{written}'; {known}")
            try:
                settings[name] = _OPTIONS[name][0](text)
            except SetupError as error:
                raise SetupError(f"option {name}: {error}") from None
            # of a time
            except (ValueError, OverflowError):
                right = "write an ISO time, as in 2026-01-31T12:00:00Z, or now"
                raise SetupError(f"option {name}: '{text}' is not a time; {right}") from None
        process = settings["process"](
            seed=settings["seed"],
            rate=settings["rate"],
            flows=settings["flows"],
            on_shape=settings["onShape"],
            off_shape=settings["offShape"],
        )
        return BurstSettings(
            process=process,
            values=Values(process.seed, settings["keys"], settings["skew"]),
            start_us=settings["start"],
            duration_us=settings["duration"],
            speed=settings["speed"],
            partitions=settings["partitions"],
            max_rows=settings["maxRowsPerTrigger"],
        )

    @property
    def is_finite(self) -> bool:
        return self.duration_us is not None

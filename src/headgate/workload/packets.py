"""Streams of synthetic network packets: their options, and their values as Arrow columns.

A value depends on the seed, the column and the tuple's identity only, so partitions and replays agree.
Addresses depend on their rank alone: two streams with different seeds draw from the same addresses, and can
be joined on them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.errors import SetupError, known_names
from headgate.formats.quantity import FLOWS, SEED, SHAPE, Quantity
from headgate.model.uniform_hash import mix
from headgate.workload.generated_stream import (
    COMMON_OPTIONS,
    SQL_NAMES,
    DeclaredColumn,
    GeneratedStream,
    Option,
    iso_time_us,
    read_options,
)
from headgate.workload.onoff import AlwaysOn, OnOff
from headgate.workload.traffic import Arrivals, RatePhases, TruncatedPareto, traffic_time_us

PORTS = (443, 80, 53, 22, 25, 123, 993, 3306, 5432, 8080)
PORT_SHARES = (0.5, 0.18, 0.12, 0.05, 0.04, 0.03, 0.03, 0.02, 0.02, 0.01)
PROTOCOLS = ("tcp", "udp", "icmp")
PROTOCOL_SHARES = (0.8, 0.18, 0.02)
PACKET_BYTES = TruncatedPareto(shape=1.1, shortest=40, longest=1501)
_KEYS = Quantity("keys", 1, 1 << 24, is_whole=True)
_SKEW = Quantity("", 0, 10)
PACKETS = pa.schema(
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


@dataclass(frozen=True)
class PacketValues:
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
    values: PacketValues
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


def _start_us(text: str) -> int | None:
    if text.strip().lower() == "now":
        return None
    try:
        return iso_time_us(text)
    except SetupError as error:
        raise SetupError(f"{error}, or 'now'") from None


_OPTIONS: Mapping[str, Option] = {
    "rate": (RatePhases.parse, RatePhases.constant(1000)),
    "process": (_process, OnOff),
    "flows": (FLOWS.read, 64),
    "seed": (SEED.read, 7),
    "onShape": (SHAPE.read, 1.4),
    "offShape": (SHAPE.read, 1.2),
    "start": (_start_us, None),
    "duration": (_duration_us, None),
    "keys": (_KEYS.read, 1000),
    "skew": (_SKEW.read, 1.0),
}


@dataclass(frozen=True, kw_only=True)
class BurstSettings(GeneratedStream):
    """A synthetic stream: when its tuples arrive, what they contain, how fast they are emitted."""

    format = "burst"
    length_option = "duration, as in '60 s'"
    least_options = MappingProxyType({"duration": "1 s"})

    process: OnOff
    values: PacketValues

    @staticmethod
    def option_names() -> tuple[str, ...]:
        return (*_OPTIONS, *COMMON_OPTIONS)

    @staticmethod
    def parse(options: Mapping[str, str]) -> BurstSettings:
        settings = read_options("burst", options, _OPTIONS)
        process = settings["process"](
            seed=settings["seed"],
            rate=settings["rate"],
            flows=settings["flows"],
            on_shape=settings["onShape"],
            off_shape=settings["offShape"],
        )
        return BurstSettings(
            process=process,
            values=PacketValues(process.seed, settings["keys"], settings["skew"]),
            start_us=settings["start"],
            duration_us=settings["duration"],
            speed=settings["speed"],
            partitions=settings["partitions"],
            max_rows=settings["maxRowsPerTrigger"],
        )

    @property
    def schema(self) -> pa.Schema:
        return PACKETS

    def columns(self, declared: Sequence[DeclaredColumn]) -> pa.Schema:
        types = {name: type_ for type_, name in SQL_NAMES.items()}
        for column in declared:
            if column.type not in types:
                raise SetupError(no_values_for(column.name, column.type))
        schema = pa.schema([pa.field(c.name, types[c.type], c.is_nullable) for c in declared])
        self.values.check(schema)
        return schema

    @property
    def tuples_per_second(self) -> tuple[float, ...]:
        return self.process.rate.tuples_per_second

    def expected_rows(self, begin_us: int, end_us: int) -> float:
        return self.process.rate.expected(begin_us, end_us)

    def cuts(self, begin_us: int, end_us: int, parts: int) -> list[int]:
        return self.process.cuts(begin_us, end_us, parts)

    def advance(self, begin_us: int, end_us: int, max_rows: int) -> int:
        return self.process.advance(begin_us, end_us, max_rows)

    def batches(
        self, begin_us: int, end_us: int, start_us: int, columns: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        for block in self.process.blocks(begin_us, end_us):
            if len(block):
                yield self.values.batch(block, start_us, columns)

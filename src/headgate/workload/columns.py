"""Values of synthetic network packets, as Arrow columns.

A value depends on the seed, the column and the tuple's identity only, so partitions and replays agree.
Addresses depend on their rank alone: two streams with different seeds draw from the same addresses, and can
be joined on them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.errors import SetupError
from headgate.workload.arrivals import Arrivals
from headgate.workload.pareto import TruncatedPareto

PORTS = (443, 80, 53, 22, 25, 123, 993, 3306, 5432, 8080)
PORT_SHARES = (0.5, 0.18, 0.12, 0.05, 0.04, 0.03, 0.03, 0.02, 0.02, 0.01)
PROTOCOLS = ("tcp", "udp", "icmp")
PROTOCOL_SHARES = (0.8, 0.18, 0.02)
PACKET_BYTES = TruncatedPareto(shape=1.1, shortest=40, longest=1501)
MOST_KEYS = 1 << 24
SQL_NAMES = {
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.timestamp("us", tz="UTC"): "TIMESTAMP",
    pa.timestamp("us"): "TIMESTAMP_NTZ",
}
"""The types a column may have at all."""


@dataclass(frozen=True)
class Values:
    """Settings of the values: ``keys`` addresses, the k-th drawn in proportion to ``k ** -skew``."""

    seed: int
    keys: int = 1000
    skew: float = 1.0

    def __post_init__(self) -> None:
        if not 1 <= self.keys <= MOST_KEYS:
            raise SetupError(f"{self.keys} keys are out of range; write 1 to {MOST_KEYS}")
        if not 0 <= self.skew <= 10:
            raise SetupError(f"a skew of {self.skew:g} is out of range; write 0 (uniform) to 10")

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
        salt = np.uint64((zlib.crc32(column.encode()) << 32 ^ self.values.seed) & (1 << 64) - 1)
        hashed = _mixed(_mixed(self.arrivals.id.view(np.uint64)) ^ _mixed(np.asarray([salt])))
        return np.asarray((hashed >> np.uint64(11)) * 2.0**-53, np.float64)

    def rank(self, column: str) -> NDArray[np.int64]:
        """Numbers from 0 to keys - 1, of which the first are drawn most often."""
        return _zipf(self.uniform(column), self.values.keys, self.values.skew)

    def below_keys(self, column: str) -> NDArray[np.int64]:
        """Numbers from 0 to keys - 1, all equally often."""
        return (self.uniform(column) * self.values.keys).astype(np.int64)


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finisher of SplitMix64: every bit of the input changes half the bits of the output."""
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits ^= bits >> np.uint64(30)
    bits *= np.uint64(0xBF58476D1CE4E5B9)
    bits ^= bits >> np.uint64(27)
    bits *= np.uint64(0x94D049BB133111EB)
    bits ^= bits >> np.uint64(31)
    return bits


def _zipf(uniform: NDArray[np.float64], keys: int, skew: float) -> NDArray[np.int64]:
    """The whole part of a continuous power law on ``[1, keys + 1)``: no table, however many keys."""
    power = 1 - skew
    if abs(power) < 1e-9:
        rank = np.exp(uniform * np.log1p(keys))
    else:
        rank = (1 + uniform * ((keys + 1) ** power - 1)) ** (1 / power)
    return np.asarray(np.minimum(rank.astype(np.int64), keys) - 1)


def _picked(uniform: NDArray[np.float64], shares: tuple[float, ...]) -> NDArray[np.int64]:
    return np.asarray(np.searchsorted(np.cumsum(shares)[:-1], uniform, side="right"))


def _time(tuples: _Tuples, _: str) -> pa.Array:
    return pa.array(tuples.arrivals.time_us + tuples.start_us).view(pa.timestamp("us", tz="UTC"))


def _flow(tuples: _Tuples, _: str) -> pa.Array:
    return pa.array(tuples.arrivals.flow)


def _address(tuples: _Tuples, column: str) -> pa.Array:
    return _texts(tuples.rank(column), _dotted)


def _port(tuples: _Tuples, column: str) -> pa.Array:
    return pa.array(np.asarray(PORTS, np.int32)[_picked(tuples.uniform(column), PORT_SHARES)])


def _bytes(tuples: _Tuples, column: str) -> pa.Array:
    return pa.array(PACKET_BYTES.at(tuples.uniform(column)).astype(np.int32))


def _protocol(tuples: _Tuples, column: str) -> pa.Array:
    return pa.array(PROTOCOLS).take(pa.array(_picked(tuples.uniform(column), PROTOCOL_SHARES)))


def _any_integer(tuples: _Tuples, column: str) -> pa.Array:
    return pa.array(tuples.below_keys(column))


def _any_double(tuples: _Tuples, column: str) -> pa.Array:
    return pa.array(tuples.uniform(column))


def _any_string(tuples: _Tuples, column: str) -> pa.Array:
    return _texts(tuples.below_keys(column), lambda number: f"v{number}")


def _texts(numbers: NDArray[np.int64], spell: Callable[[int], str]) -> pa.Array:
    """Spell each distinct number once: the Python loop is over keys, not over tuples."""
    encoded = pa.array(numbers).dictionary_encode()
    spelled = [spell(number) for number in encoded.dictionary.to_pylist()]
    return pa.array(spelled, pa.string()).take(encoded.indices)


def _dotted(rank: int) -> str:
    return f"10.{rank >> 16}.{rank >> 8 & 255}.{rank & 255}"


_Filler = Callable[[_Tuples, str], pa.Array]
_NUMBERS = (pa.int32(), pa.int64(), pa.float64())
_PACKET: dict[str, tuple[_Filler, tuple[pa.DataType, ...]]] = {
    "ts": (_time, (pa.timestamp("us", tz="UTC"), pa.timestamp("us"))),
    "flow": (_flow, _NUMBERS),
    "src": (_address, (pa.string(),)),
    "dst": (_address, (pa.string(),)),
    "port": (_port, _NUMBERS),
    "bytes": (_bytes, _NUMBERS),
    "protocol": (_protocol, (pa.string(),)),
}
_OTHER: dict[pa.DataType, _Filler] = {
    pa.int32(): _any_integer,
    pa.int64(): _any_integer,
    pa.float64(): _any_double,
    pa.string(): _any_string,
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
    """What to say about a column of a type that cannot be filled."""
    return (
        f"column {column}: no values can be made up for {type_name}; "
        f"declare INT, BIGINT, DOUBLE or STRING, or one of the columns {', '.join(_PACKET)}"
    )

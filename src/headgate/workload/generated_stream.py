"""What all generated streams have in common: how their options are read, and what their readers call.

A stream is divided by *traffic time*: microseconds since its first tuple could arrive.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from headgate.errors import SetupError, known_names, nearest
from headgate.formats.quantity import Quantity

SQL_NAMES = {
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.timestamp("us", tz="UTC"): "TIMESTAMP",
    pa.timestamp("us"): "TIMESTAMP_NTZ",
}
"""The types that a column may have."""
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
# how an option is read, and what holds without it
Option = tuple[Callable[[str], Any], Any]


class DeclaredColumn(NamedTuple):
    """A column as the user declares it; ``type`` is Spark's name of its type, in upper case."""

    name: str
    type: str
    is_nullable: bool


@dataclass(frozen=True, kw_only=True)
class GeneratedStream(ABC):
    """A stream that can be generated from any point of its traffic time on, any number of times."""

    format: ClassVar[str]
    """The name of such streams in CQL and in Spark."""
    length_option: ClassVar[str]
    """The option that ends a stream, for error messages."""
    least_options: ClassVar[Mapping[str, str]]
    """Options without which others have no meaning, as an example."""

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
            problem = "speed 'max' would emit an endless stream at once"
            raise SetupError(f"{problem}; add option {self.length_option}")

    @staticmethod
    @abstractmethod
    def option_names() -> tuple[str, ...]:
        """The options that such a stream may have."""

    @staticmethod
    @abstractmethod
    def parse(options: Mapping[str, str]) -> GeneratedStream:
        """Read options, whose names may be in any case; raise on an unknown name or a bad value."""

    @property
    def is_finite(self) -> bool:
        return self.duration_us is not None

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns of a stream that is declared without any."""

    @abstractmethod
    def columns(self, declared: Sequence[DeclaredColumn]) -> pa.Schema:
        """The declared columns; raise if one cannot be filled."""

    @property
    @abstractmethod
    def tuples_per_second(self) -> tuple[float, ...]:
        """Mean rates by traffic time, one for each phase."""

    @abstractmethod
    def expected_rows(self, begin_us: int, end_us: int) -> float:
        """The mean number of rows in an interval of traffic time."""

    @abstractmethod
    def cuts(self, begin_us: int, end_us: int, parts: int) -> list[int]:
        """Boundaries of up to ``parts`` intervals of traffic time."""

    @abstractmethod
    def advance(self, begin_us: int, end_us: int, max_rows: int) -> int:
        """The latest time up to ``end_us`` before which at most ``max_rows`` arrive, but after the begin."""

    @abstractmethod
    def batches(
        self, begin_us: int, end_us: int, start_us: int, columns: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """The rows of ``[begin_us, end_us)``; ``start_us`` is the event time of traffic time 0."""


_SPEED = Quantity("traffic seconds per second", 1e-6, 1e6)
_PARTITIONS = Quantity("partitions", 1, 1000, is_whole=True)
_ROWS = Quantity("rows", 1, 1e12, is_whole=True)


def _speed(text: str) -> float | None:
    if text.strip().lower() == "max":
        return None
    try:
        speed: float = _SPEED.read(text)
        return speed
    except SetupError as error:
        raise SetupError(f"{error}, or 'max'") from None


def iso_time_us(text: str) -> int:
    """Microseconds since 1970 of an ISO time, which is in UTC unless it says otherwise."""
    try:
        # Python 3.10 does not read the letter for UTC
        moment = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
        utc = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
        # whole numbers: a float would round
        return (utc - EPOCH) // timedelta(microseconds=1)
    # an hour before the year 1 has no place in another time zone
    except (ValueError, OverflowError):
        raise SetupError(f"'{text}' is not a time; write one like 2026-01-31T12:00:00Z") from None


# short for the same cap
_SHORT = {"rowsPerTrigger": "maxRowsPerTrigger"}
_COMMON: Mapping[str, Option] = {
    "speed": (_speed, 1.0),
    "partitions": (_PARTITIONS.read, 2),
    "maxRowsPerTrigger": (_ROWS.read, None),
}
COMMON_OPTIONS = (*_COMMON, *_SHORT)
"""The names of options that all generated streams have."""


def read_options(source: str, options: Mapping[str, str], own: Mapping[str, Option]) -> dict[str, Any]:
    """The values of a source's own options and of those that all have; names may be in any case.

    Raises on an unknown name or a bad value.
    """
    known = {**own, **_COMMON}
    names = {name.lower(): _SHORT.get(name, name) for name in (*known, *_SHORT)}
    settings = {name: default for name, (_, default) in known.items()}
    for written, text in options.items():
        name = names.get(written.lower())
        if name is None:
            meant = nearest(written, known)
            raise SetupError(f"{source} has no option '{written}'; {meant}it has {known_names(known)}")
        try:
            settings[name] = known[name][0](text)
        except SetupError as error:
            raise SetupError(f"option {name}: {error}") from None
    return settings

"""Streams of NEXMark events: their options, and how their traffic time is divided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import pyarrow as pa

from headgate.errors import SetupError, known_names, nearest, unknown_name
from headgate.formats.quantity import SEED, Quantity
from headgate.workload.generated_stream import (
    COMMON_OPTIONS,
    SQL_NAMES,
    DeclaredColumn,
    GeneratedStream,
    Option,
    iso_time_us,
    read_options,
)
from headgate.workload.nexmark import (
    DEFAULT_RATE,
    DEFAULT_SEED,
    DEFAULT_START_US,
    EVENT_TABLES,
    EVENTS_PER_ROUND,
    EventSequence,
    EventTable,
    parse_rate,
)


def _table(text: str) -> str:
    name = text.strip().lower()
    if name not in EVENT_TABLES:
        raise SetupError(unknown_name("table", text, EVENT_TABLES))
    return name


_EVENTS = Quantity("events", 1, 1e15, is_whole=True)
_OPTIONS: Mapping[str, Option] = {
    "table": (_table, None),
    "events": (_EVENTS.read, None),
    "rate": (parse_rate, DEFAULT_RATE),
    "seed": (SEED.read, DEFAULT_SEED),
    "start": (iso_time_us, DEFAULT_START_US),
}


@dataclass(frozen=True, kw_only=True)
class NexmarkSettings(GeneratedStream):
    """The rows of one table, in the order and at the times of the whole sequence of events."""

    format = "nexmark"
    length_option = "events, as in '1000000'"
    least_options = MappingProxyType({"table": "bid", "events": "1"})

    sequence: EventSequence
    table: str

    @staticmethod
    def option_names() -> tuple[str, ...]:
        return (*_OPTIONS, *COMMON_OPTIONS)

    @staticmethod
    def parse(options: Mapping[str, str]) -> NexmarkSettings:
        settings = read_options("nexmark", options, _OPTIONS)
        if settings["table"] is None:
            raise SetupError(f"nexmark needs the option table: one of {known_names(EVENT_TABLES)}")
        sequence = EventSequence(settings["seed"], settings["rate"], settings["start"])
        events = settings["events"]
        return NexmarkSettings(
            sequence=sequence,
            table=settings["table"],
            start_us=sequence.start_us,
            duration_us=None if events is None else sequence.length_us(events),
            speed=settings["speed"],
            partitions=settings["partitions"],
            max_rows=settings["maxRowsPerTrigger"],
        )

    @property
    def kind(self) -> EventTable:
        return EVENT_TABLES[self.table]

    @property
    def schema(self) -> pa.Schema:
        return self.kind.schema

    def columns(self, declared: Sequence[DeclaredColumn]) -> pa.Schema:
        fields = []
        for column in declared:
            type_ = self.schema.field(self._name_of(column.name)).type
            if column.type != SQL_NAMES[type_]:
                problem = f"column {column.name} cannot be {column.type}"
                raise SetupError(f"{problem}; declare it {SQL_NAMES[type_]}")
            fields.append(pa.field(column.name, type_, column.is_nullable))
        return pa.schema(fields)

    @property
    def tuples_per_second(self) -> tuple[float, ...]:
        return (float(self.sequence.rate * self.kind.rows_per_round / EVENTS_PER_ROUND),)

    def expected_rows(self, begin_us: int, end_us: int) -> int:
        return self._row_at(end_us) - self._row_at(begin_us)

    def cuts(self, begin_us: int, end_us: int, parts: int) -> list[int]:
        return sorted({begin_us + (end_us - begin_us) * part // parts for part in range(parts + 1)})

    def advance(self, begin_us: int, end_us: int, max_rows: int) -> int:
        next_event = self.kind.event_of(self._row_at(begin_us) + max_rows)
        return min(end_us, self.sequence.offset_us(next_event))

    def batches(
        self, begin_us: int, end_us: int, start_us: int, columns: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        first, last = map(self.sequence.events_before, (begin_us, end_us))
        sequence = replace(self.sequence, start_us=start_us)
        names = [self._name_of(column) for column in columns.names]
        for batch in sequence.batches(self.kind, first, last, names):
            yield pa.RecordBatch.from_arrays(batch.columns, schema=columns)

    def _name_of(self, column: str) -> str:
        """A column's name as the benchmark writes it."""
        for name in self.kind.fillers:
            if name.lower() == column.lower():
                return name
        problem = f"table {self.table} of nexmark has no column {column}"
        names = self.kind.fillers
        raise SetupError(f"{problem}; {nearest(column, names)}it has {', '.join(names)}")

    def _row_at(self, time_us: int) -> int:
        """How many rows there are before a time."""
        return self.kind.rows_before(self.sequence.events_before(time_us))

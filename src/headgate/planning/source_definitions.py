"""Definitions of streams and relations, from the statements that create them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from sqlglot import exp

from headgate.cql import statement as cql
from headgate.cql.measure import parse_duration_us
from headgate.cql.statement import Setting
from headgate.errors import QueryError, Span
from headgate.model import kafka, network
from headgate.model.expression import Expression
from headgate.model.network import ComputedColumn, RelationDefinition, StreamDefinition
from headgate.model.sql_tree import column_tree
from headgate.planning.options import check_generated, relation_options, stream_options
from headgate.planning.setting_values import format_of, measured, pairs, positive, reported_at
from headgate.planning.type_check import Functions, TypeCheck

# the first words of the types of timestamps: times, and seconds as whole or decimal numbers
_TIME_WORDS = (
    "TIMESTAMP TIMESTAMP_NTZ TIMESTAMP_LTZ DATE TINYINT BYTE SMALLINT SHORT INT INTEGER BIGINT LONG "
    "FLOAT REAL DOUBLE DECIMAL DEC NUMERIC"
)

_TIMES = frozenset(_TIME_WORDS.split())

# options of streams that need a timestamp, and the settings that they are
_DELAYS = {"watermark": "watermark_delay_us", "idle_after": "idle_after_us", "max_ahead": "max_ahead_us"}


def stream_of(
    statement: cql.CreateStream, known_formats: Collection[str] | None, event_times: Mapping[str, str]
) -> StreamDefinition:
    source_format = format_of(statement.format, known_formats, "source")
    options = stream_options(source_format).spelt(statement.options)
    timestamp, old_name = options.pop("timestamp", None), options.pop("slack", None)
    if old_name and options.setdefault("watermark", old_name) is not old_name:
        raise QueryError("slack is the old name of watermark; keep one of them", old_name.span)
    delays = {field: options.pop(key) for key, field in _DELAYS.items() if key in options}
    column = timestamp.value if timestamp else event_times.get(source_format)
    for delay in delays.values():
        if column is None:
            raise QueryError(f"{delay.key.text.lower()} needs timestamp '<column>'", delay.span)
    durations = {field: measured(delay, parse_duration_us) for field, delay in delays.items()}
    _refuse_own_bad_rows(options)
    check_generated(source_format, options)
    stream = StreamDefinition(
        statement.name.text,
        source_format,
        _schema_of(statement),
        pairs(options),
        column,
        **durations,
        computed=tuple(_computed(statement)),
        primary_key=tuple(key.text for key in statement.primary_key),
    )
    # without brokers a stream can be planned, but not opened
    if source_format == kafka.KAFKA and kafka.servers(stream):
        with reported_at(statement.name.span):
            kafka.check_stream(stream)
    check_timestamp(stream, timestamp.span if timestamp else statement.name.span)
    return stream


def _computed(statement: cql.CreateStream) -> Iterator[ComputedColumn]:
    """Computed columns as written."""
    for column in statement.columns:
        if (written := column.computed) is not None:
            value = Expression.parse(written.text, written.span)
            yield ComputedColumn(column.name.text, column.type, value)


def resolved(stream: StreamDefinition, functions: Functions) -> StreamDefinition:
    """The stream with computed columns in their types, over columns that the source brings."""
    if stream.schema is None:
        return stream
    known: dict[str, exp.Expr] = {name.lower(): column_tree(name) for name in stream.schema.names}
    computed: list[ComputedColumn] = []
    for column in stream.computed:
        value = column.value
        for name in value.columns:
            if name.lower() not in known:
                names = [*stream.schema.names, *(one.name for one in computed)]
                raise QueryError(f"unknown column {name}; columns: {', '.join(names)}", value.span)
        TypeCheck(functions, {}, value.span, is_in_place=False).type_of(value.tree)
        given = value.over({name: known[name.lower()] for name in value.columns})
        text = f"CAST(({given.text}) AS {column.type})"
        computed.append(replace(column, value=Expression.parse(text, value.span)))
        known[column.name.lower()] = computed[-1].value.tree
    return replace(stream, computed=tuple(computed))


def _refuse_own_bad_rows(options: dict[str, Setting]) -> None:
    """Rows of a stream that do not parse are the engine's business."""
    mode, column = options.get("mode"), options.get("columnNameOfCorruptRecord")
    found = column if mode is None or mode.value.upper() == "PERMISSIVE" else mode
    if found is not None:
        written = f"{found.key.text} {found.value}"
        message = f"{written} is not supported; remove it: bad rows go to the dead-letter table"
        raise QueryError(message, found.span)


def relation_of(statement: cql.CreateRelation, known_formats: Collection[str] | None) -> RelationDefinition:
    source_format = format_of(statement.format, known_formats, "source")
    options = relation_options(source_format).spelt(statement.options)
    refresh = options.pop("refresh", None)
    return RelationDefinition(
        statement.name.text,
        source_format,
        _schema_of(statement),
        pairs(options),
        positive(refresh, parse_duration_us) if refresh else None,
    )


def _schema_of(statement: cql.Source) -> network.Schema | None:
    brought = [column for column in statement.columns if column.computed is None]
    columns = tuple(network.Column(column.name.text, column.type) for column in brought)
    return network.Schema(columns) if columns else None


def check_timestamp(stream: StreamDefinition, span: Span | None) -> None:
    """Reject a timestamp column that does not exist or carries no time, if columns are known."""
    if stream.timestamp is None or stream.schema is None:
        return
    column = stream.schema.find(stream.timestamp)
    if column is None:
        is_computed = stream.timestamp.lower() in {one.name.lower() for one in stream.computed}
        of_other = "is computed, and must come with the tuple"
        problem = (
            f"timestamp {stream.timestamp} {of_other if is_computed else f'is not a column of {stream.name}'}"
        )
        raise QueryError(f"{problem}; columns: {', '.join(stream.schema.names)}", span)
    word = re.match(r"\w*", column.type.strip().upper())
    if word is None or word[0] not in _TIMES:
        raise QueryError(f"timestamp column {column.name} is {column.type}; declare it TIMESTAMP", span)

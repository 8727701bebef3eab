"""CREATE STREAM and CREATE RELATION as definitions; which options are ours and which are Spark's."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from headgate.cql.duration import parse_duration_us
from headgate.cql.statement import ColumnDefinition, CreateRelation, CreateStream, Name, Setting
from headgate.errors import QueryError, Span, known_names
from headgate.model.network import RelationDefinition, StreamDefinition
from headgate.model.schema import Column, Schema

_TIMES = frozenset({"TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "DATE"})
_INTEGERS = frozenset({"TINYINT", "BYTE", "SMALLINT", "SHORT", "INT", "INTEGER", "BIGINT", "LONG"})
_FRACTIONS = frozenset({"FLOAT", "REAL", "DOUBLE", "DECIMAL", "DEC", "NUMERIC"})


def stream_of(statement: CreateStream, known_sources: Collection[str] | None = None) -> StreamDefinition:
    """The stream that the statement creates."""
    options = settings_by_key(statement.options)
    timestamp = options.pop("timestamp", None)
    watermark, slack = options.pop("watermark", None), options.pop("slack", None)
    if watermark and slack:
        raise QueryError("slack is the old name of watermark: give one of them", slack.span)
    slack = watermark or slack
    idle_after = options.pop("idle_after", None)
    max_ahead = options.pop("max_ahead", None)
    _check_mode(options.get("mode"))
    for late in (slack, idle_after, max_ahead):
        if late is not None and timestamp is None:
            raise QueryError(f"{late.key.text.lower()} needs timestamp '<column>'", late.span)
    stream = StreamDefinition(
        name=statement.name.text,
        format=format_of(statement.format, known_sources, "source"),
        schema=_schema(statement.columns),
        options=pairs(options.values()),
        timestamp=timestamp.value if timestamp else None,
        slack_us=duration_us(slack) if slack else StreamDefinition.slack_us,
        idle_after_us=duration_us(idle_after) if idle_after else StreamDefinition.idle_after_us,
        max_ahead_us=duration_us(max_ahead) if max_ahead else StreamDefinition.max_ahead_us,
    )
    check_timestamp(stream, timestamp.span if timestamp else None)
    return stream


def relation_of(
    statement: CreateRelation, known_sources: Collection[str] | None = None
) -> RelationDefinition:
    """The stored relation that the statement creates."""
    return RelationDefinition(
        name=statement.name.text,
        format=format_of(statement.format, known_sources, "source"),
        schema=_schema(statement.columns),
        options=pairs(settings_by_key(statement.options).values()),
    )


def check_timestamp(stream: StreamDefinition, span: Span | None) -> None:
    """Refuse a timestamp column that is not there, or carries no time; says nothing without columns."""
    if stream.timestamp is None or stream.schema is None:
        return
    column = stream.schema.find(stream.timestamp)
    if column is None:
        columns = ", ".join(stream.schema.names)
        raise QueryError(
            f"timestamp {stream.timestamp} is no column of {stream.name}; columns: {columns}", span
        )
    word = re.match(r"\w*", column.type.strip().upper())
    if word is None or word[0] not in _TIMES | _INTEGERS | _FRACTIONS:
        raise QueryError(f"timestamp column {column.name} is {column.type}; declare it TIMESTAMP", span)


def settings_by_key(settings: Sequence[Setting]) -> dict[str, Setting]:
    """Settings by their key in lower case, in the order they were written; the parser refuses doubles."""
    return {setting.key.text.lower(): setting for setting in settings}


def pairs(settings: Collection[Setting]) -> tuple[tuple[str, str], ...]:
    """Options for Spark, spelled as written."""
    return tuple((setting.key.text, setting.value) for setting in settings)


def duration_us(setting: Setting) -> int:
    """The setting's value as a duration."""
    try:
        return parse_duration_us(setting.value)
    except ValueError as error:
        raise QueryError(f"{setting.key.text}: {error}", setting.span) from None


def format_of(written: Name, known: Collection[str] | None, role: str) -> str:
    """The format's name; short names have no case, names of classes do."""
    if known is not None and written.text.lower() not in {name.lower() for name in known}:
        message = f"unknown {role} format {written.text}; known: {known_names(list(known))}"
        raise QueryError(message, written.span)
    return written.text if "." in written.text else written.text.lower()


def _check_mode(mode: Setting | None) -> None:
    if mode is not None and mode.value.upper() != "PERMISSIVE":
        message = f"mode {mode.value} is not supported; leave it out, bad rows go to the dead-letter table"
        raise QueryError(message, mode.span)


def _schema(columns: Sequence[ColumnDefinition]) -> Schema | None:
    return Schema(tuple(Column(c.name.text, c.type) for c in columns)) if columns else None

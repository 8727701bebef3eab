"""WITH and INTO: a query's quality of service and its sink."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from headgate.cql.size import parse_bytes
from headgate.cql.statement import Setting, SinkClause
from headgate.errors import QueryError, known_names
from headgate.model.network import SinkDefinition
from headgate.planning.declaration import duration_us, format_of, pairs, settings_by_key

_KNOWN = ("latency", "memory", "overload", "quality", "utility")
_OVERLOAD = ("backpressure", "shed")
_FILES = ("parquet", "json", "csv", "orc", "text")


@dataclass(frozen=True)
class Service:
    """What a query asks for."""

    latency_s: float | None = None
    memory_bytes: int | None = None
    overload: str = "backpressure"
    quality: bool = False
    utility: Setting | None = None


def service_of(settings: tuple[Setting, ...]) -> Service:
    """The settings of WITH."""
    by_key = settings_by_key(settings)
    for key, setting in by_key.items():
        if key not in _KNOWN:
            message = f"unknown setting {setting.key.text}; known: {known_names(_KNOWN)}"
            raise QueryError(message, setting.key.span)
    quality, utility = by_key.get("quality"), by_key.get("utility")
    latency, memory, overload = by_key.get("latency"), by_key.get("memory"), by_key.get("overload")
    if utility is not None:
        _check_utility(utility, overload, quality)
    return Service(
        latency_s=_positive(latency, duration_us(latency)) / 1e6 if latency else None,
        memory_bytes=_positive(memory, _bytes(memory)) if memory else None,
        overload=_one_of(overload, _OVERLOAD) if overload else Service.overload,
        quality=quality is not None and _one_of(quality, ("true", "false")) == "true",
        utility=utility,
    )


def _check_utility(utility: Setting, overload: Setting | None, quality: Setting | None) -> None:
    if overload is None or overload.value.lower() != "shed":
        raise QueryError(
            "utility says what to keep when tuples are shed; write overload = 'shed' too", utility.span
        )
    if quality is not None and quality.value.lower() == "true":
        message = "quality = true does not go with utility: nothing is known of the tuples that matter less"
        raise QueryError(f"{message}; leave one out", quality.span)


def sink_of(clause: SinkClause | None, known_sinks: Collection[str] | None = None) -> SinkDefinition:
    """Where results go; kept in memory if the query does not say."""
    if clause is None:
        return SinkDefinition("memory")
    sink_format = format_of(clause.format, known_sinks, "sink")
    options = settings_by_key(clause.options)
    if sink_format in _FILES and "path" not in options:
        raise QueryError(f"{sink_format} needs a path; write OPTIONS (path 'out/')", clause.span)
    return SinkDefinition(sink_format, pairs(options.values()))


def _one_of(setting: Setting, values: tuple[str, ...]) -> str:
    if setting.value.lower() not in values:
        choice = " or ".join(f"'{value}'" for value in values)
        raise QueryError(f"{setting.key.text} is {choice}, not '{setting.value}'", setting.span)
    return setting.value.lower()


def _bytes(setting: Setting) -> int:
    try:
        return parse_bytes(setting.value)
    except ValueError as error:
        raise QueryError(f"{setting.key.text}: {error}", setting.span) from None


def _positive(setting: Setting, value: int) -> int:
    if value <= 0:
        raise QueryError(f"{setting.key.text} must be more than 0", setting.span)
    return value

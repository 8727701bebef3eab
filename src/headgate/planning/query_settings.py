"""What a query promises and where its results go: WITH (...) and INTO."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from sqlglot import exp

from headgate.cql import statement as cql
from headgate.cql.measure import parse_bytes, parse_duration_us
from headgate.cql.statement import Setting
from headgate.errors import QueryError, known_names, suggestion
from headgate.model import kafka, network
from headgate.model.expression import Expression
from headgate.model.productivity import PRODUCTIVITY
from headgate.model.shedding import Utility
from headgate.planning.logical import LogicalPlan, StreamScan, scans
from headgate.planning.options import sink_options
from headgate.planning.retention import with_retention
from headgate.planning.setting_values import by_key, format_of, one_of, pairs, positive, reported_at
from headgate.planning.type_check import Functions, TypeCheck

QUERY_SETTINGS = ("latency", "memory", "overload", "quality", "utility", "on_error", "retention", "start")

# settings that leave results as they are
ALTERABLE_SETTINGS = ("latency", "memory", "overload", "utility", "on_error")

_FILES = ("parquet", "json", "csv", "orc", "text")


def with_service(plan: LogicalPlan, settings: tuple[Setting, ...], known: Functions) -> LogicalPlan:
    """The plan with the settings of WITH; ``known`` are the functions that an expression may call."""
    given = by_key(settings)
    for key, setting in given.items():
        if key not in QUERY_SETTINGS:
            hint = suggestion(key, QUERY_SETTINGS, f"known: {known_names(QUERY_SETTINGS)}")
            raise QueryError(f"unknown setting {setting.key.text}; {hint}", setting.key.span)
    latency, memory, overload, quality, utility, on_error, retention, start = map(given.get, QUERY_SETTINGS)
    if utility and (overload is None or overload.value.lower() != "shed"):
        raise QueryError("utility requires overload = 'shed'; add it", utility.span)
    if utility and quality and quality.value.lower() == "true":
        message = "quality = true cannot be combined with utility: nothing is known about the dropped tuples"
        raise QueryError(f"{message}; leave one out", quality.span)
    query = replace(
        plan.query,
        latency_s=positive(latency, parse_duration_us) / 1e6 if latency else None,
        memory_bytes=positive(memory, parse_bytes) if memory else None,
        overload=one_of(overload, ("backpressure", "shed")) if overload else plan.query.overload,
        utility=_utility_of(utility, plan, known) if utility else None,
        on_error=one_of(on_error, ("set aside", "stop")) if on_error else plan.query.on_error,
        start=one_of(start, ("now", "log")) if start else plan.query.start,
    )
    has_quality = quality is not None and one_of(quality, ("true", "false")) == "true"
    plan = replace(plan, query=query, quality=has_quality)
    if retention is None:
        return plan
    return with_retention(plan, positive(retention, parse_duration_us), retention.span)


def sink_of(clause: cql.SinkClause | None, known_sinks: Collection[str] | None) -> network.SinkDefinition:
    """Where results go; memory if the query does not state it."""
    if clause is None:
        return network.SinkDefinition("memory")
    sink_format = format_of(clause.format, known_sinks, "sink")
    options = sink_options(sink_format).spelt(clause.options)
    if sink_format in _FILES and "path" not in options:
        raise QueryError(f"{sink_format} needs a path; write OPTIONS (path 'out/')", clause.span)
    mode = options.get("mode")
    if mode is not None and mode.value.strip().lower() not in network.SINK_MODES:
        message = f"mode {mode.value!r} is not known; write 'append' for all results"
        hint = "'latest' for one row of each key, or 'changes' for every change of these"
        raise QueryError(f"{message}, {hint}", mode.span)
    sink = network.SinkDefinition(sink_format, pairs(options))
    if sink_format == "jdbc":
        if sink.is_latest:
            message = "INTO jdbc, key is enough to keep the last result of each key; leave mode out"
            raise QueryError(message, mode.span if mode else clause.span)
        if not {"url", "dbtable"} <= options.keys():
            message = "jdbc needs a database and a table; write OPTIONS (url 'jdbc:...', dbtable 'name')"
            raise QueryError(message, clause.span)
    elif sink_format == kafka.KAFKA:
        if sink.is_latest:
            raise QueryError("INTO kafka appends; leave mode out", mode.span if mode else clause.span)
        with reported_at(clause.span):
            kafka.check_sink(sink)
    elif "key" in options and sink.mode == "append":
        message = "a key is for mode 'latest' or 'changes'; write one of them, or leave key out"
        raise QueryError(message, options["key"].span)
    if "partitionBy" in options and sink.is_latest:
        message = "the latest rows are one file, which is replaced; leave partitionBy out"
        raise QueryError(message, options["partitionBy"].span)
    return sink


def _utility_of(setting: Setting, plan: LogicalPlan, known: Functions) -> Utility:
    """Productivity, or an expression over one stream: the only one, or that of the one alias in it."""
    if setting.value.replace(" ", "").lower() == PRODUCTIVITY:
        return Utility("", PRODUCTIVITY)
    own = [scan for branch in plan.branches for scan in scans(branch) if isinstance(scan, StreamScan)]
    streams = {scan.name for scan in own}
    named = {scan.alias.lower(): scan for scan in own}
    used: set[str] = set()

    def change(node: exp.Expr) -> exp.Expr | None:
        is_field = isinstance(node, exp.Dot) and isinstance(node.this, exp.Column)
        scan = named.get(node.this.name.lower()) if is_field else None
        if scan is None:
            return None
        used.add(scan.name)
        return exp.Column(this=node.expression.copy())

    written = Expression.parse(setting.value, setting.span)
    TypeCheck(known, {}, setting.span, is_in_place=False).type_of(written.tree)
    text = written.replace(change).text
    chosen = used or (streams if len(streams) == 1 else set())
    if len(chosen) != 1:
        aliases = known_names(sorted(named))
        message = f"utility is an expression over columns of one stream; write alias.column, of {aliases}"
        raise QueryError(message, setting.span)
    stream = chosen.pop()
    if stream in {plan.query.name for plan in plan.derived}:
        message = f"tuples are dropped as they arrive, and {stream} is a derived stream"
        raise QueryError(f"{message}; leave utility out", setting.span)
    return Utility(stream, text)

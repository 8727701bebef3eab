"""Records of Kafka as rows: the declared columns of a value, metadata, and the place in a partition."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from math import inf
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession

from headgate.errors import SetupError, SparkError, known_names
from headgate.formats.plain_json import json_text
from headgate.model.kafka import (
    KAFKA,
    client_options,
    of_record,
    parser_options,
    servers,
    topics,
    value_columns,
    value_format,
)
from headgate.model.network import Column, StreamDefinition
from headgate.spark import sql

_LOG = logging.getLogger(__name__)

BAD_ROW = "_headgate_bad_row"
"""The text of a row that does not parse."""
PARTITION, OFFSET = "$partition", "$offset"
"""Topic and partition of a record, as one name, and its offset."""
# bits of an offset within the place of a record in all of its stream
_OFFSET_BITS = 43
PLACE_IN_STREAM = (
    f"(shiftleft(CAST(substring_index({sql.name(PARTITION)}, '-', -1) AS BIGINT), {_OFFSET_BITS}) + "
    f"{sql.name(OFFSET)})"
)

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"
NO_CONNECTOR = (
    f"Spark runs without its connector for Kafka; start it with --packages {CONNECTOR}:VERSION, or with "
    "--jars and the files of it"
)
_CLASS = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
_VALUE = "$value"
# Spark reads a bad value of Avro as a record of NULLs, like a good one that has nothing else: the default of
# a field that no writer knows is there in good ones alone
_PARSED = "_headgate_parsed"
_PARSED_FIELD = {"name": _PARSED, "type": "boolean", "default": True}
# an answer that takes longer than this is none
_ANSWER_WITHIN_S = 20
# in the messages of jobs that could not read from Kafka
_SIGNS = ("org.apache.kafka", "sql.kafka010")
_SAME_FAILURE_S = 600.0
# a broker that is away is waited for: see ``Outage`` for what is reported and what ends the waiting
_PATIENCE = {"fetchOffset.numRetries": "1000000", "fetchOffset.retryIntervalMs": "1000"}


def patient(options: Mapping[str, str]) -> dict[str, str]:
    """The options of a reader that outlasts a broker which is away."""
    given = {key.lower() for key in options}
    return {**{k: v for k, v in _PATIENCE.items() if k.lower() not in given}, **options}


def parsed(records: DataFrame, stream: StreamDefinition) -> DataFrame:
    """Records as rows: declared columns, the text of a value that does not parse, the record's place."""
    kind, apart = value_format(stream), of_record(stream)
    place = [
        f"concat(topic, '-', `partition`) AS {sql.name(PARTITION)}",
        f"`offset` AS {sql.name(OFFSET)}",
    ]
    if stream.schema is None:
        own = [name for name in records.columns if name != "timestampType"]
        return records.selectExpr(*map(sql.name, own), *place)
    if kind == "raw":
        items = [_cast(column.name, column.name, column.type) for column in stream.schema.columns]
        return records.selectExpr(*items, *place)
    text, value = _decoded(kind, stream)
    items = [
        _cast(column.name.lower(), column.name, column.type)
        if column.name.lower() in apart
        else f"{_typed_field(column) if kind == 'avro' else _field(column.name)} AS {sql.name(column.name)}"
        for column in stream.schema.columns
    ]
    is_bad = _is_bad_avro(stream) if kind == "avro" else f"{sql.name(_VALUE)} IS NULL"
    own_bad = "CAST(NULL AS STRING)" if kind == "avro" else _field(BAD_ROW)
    bad = f"CASE WHEN {is_bad} THEN coalesce({text}, 'null') ELSE {own_bad} END"
    with_value = records.selectExpr("*", f"{value} AS {sql.name(_VALUE)}")
    return with_value.selectExpr(*items, f"{bad} AS {BAD_ROW}", *place)


def _cast(source: str, name: str, type_: str) -> str:
    return f"CAST({sql.name(source)} AS {type_}) AS {sql.name(name)}"


def _field(name: str) -> str:
    """SQL for a field of the value."""
    return f"{sql.name(_VALUE)}.{sql.name(name)}"


def _typed_field(column: Column) -> str:
    """The same in the type of its column, NULL if it does not fit."""
    return f"try_cast({_field(column.name)} AS {column.type})"


def _decoded(kind: str, stream: StreamDefinition) -> tuple[str, str]:
    """SQL for the text of a value, and for the value as a struct of its columns."""
    options = {**parser_options(stream), "mode": "PERMISSIVE"}
    if kind == "avro":
        written = avro_schema(stream)
        read = {**written, "fields": [*written["fields"], _PARSED_FIELD]}
        options["avroSchema"] = json_text(read, indent=None)
        schema = sql.text(json_text(written, indent=None))
        return "base64(value)", f"from_avro(value, {schema}, {_sql_map(options)})"
    text = "CAST(value AS STRING)"
    options["columnNameOfCorruptRecord"] = BAD_ROW
    fields = [f"{sql.name(column.name)} {column.type}" for column in value_columns(stream)]
    schema = ", ".join([*fields, f"{BAD_ROW} STRING"])
    # an empty text would count as a value without fields
    return text, f"from_{kind}(nullif({text}, ''), {sql.text(schema)}, {_sql_map(options)})"


def _sql_map(options: Mapping[str, str]) -> str:
    return f"map({', '.join(f'{sql.text(key)}, {sql.text(given)}' for key, given in options.items())})"


def _is_bad_avro(stream: StreamDefinition) -> str:
    """SQL for whether a value does not parse, or a field does not fit the type of its column."""
    does_not_fit = (
        f"({_field(column.name)} IS NOT NULL AND {_typed_field(column)} IS NULL)"
        for column in value_columns(stream)
    )
    return " OR ".join([f"{_field(_PARSED)} IS NULL", *does_not_fit])


def avro_schema(stream: StreamDefinition) -> dict[str, Any]:
    """The schema of values; raises if it is not one of records with all declared columns."""
    given = dict(stream.options)["schema"].strip()
    if not given.startswith(("{", "[", '"')):
        given = _text_of(given)
    try:
        schema = json.loads(given)
    except ValueError as error:
        raise SetupError(f"stream {stream.name}: schema is not JSON: {error}") from None
    if not isinstance(schema, dict) or not isinstance(schema.get("fields"), list):
        raise SetupError(
            f'stream {stream.name}: schema is not one of records; write {{"type": "record", ...}}'
        )
    fields = [str(field.get("name")) for field in schema["fields"] if isinstance(field, dict)]
    known = {name.lower() for name in fields}
    if missing := [column.name for column in value_columns(stream) if column.name.lower() not in known]:
        raise SetupError(
            f"stream {stream.name}: schema has no field {missing[0]}; it has {known_names(fields)}"
        )
    return schema


def _text_of(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not valid UTF-8"
        raise SetupError(f"schema {file} cannot be read: {reason}") from None


def has_connector(spark: SparkSession) -> bool:
    """Whether this application can read and write Kafka."""
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        loader.loadClass(_CLASS)
    except Py4JJavaError:
        return False
    return True


def partitions_of(offset: str | None) -> dict[str, int]:
    """The offsets of all partitions, by topic and partition, from Spark's log of offsets."""
    by_topic = {} if offset is None else json.loads(offset)
    return {f"{topic}-{number}": at for topic, own in by_topic.items() for number, at in own.items()}


def check_topics(spark: SparkSession, stream: StreamDefinition) -> None:
    """Raise if no broker answers, or if a topic that a stream names does not exist."""
    problem = problem_of(spark, client_options(stream), topics(stream))
    if problem is not None:
        raise SetupError(f"stream {stream.name}: {problem}")


def problem_of(spark: SparkSession, options: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    """Why topics cannot be used; None if they can."""
    try:
        missing = missing_topics(spark, options, names)
    except Py4JJavaError as error:
        where = options["bootstrap.servers"]
        problem = f"no broker of Kafka answers at {where} ({_reason(error)})"
        return f"{problem}; start it, or correct the option servers"
    if missing:
        return f"topic {missing[0]} does not exist at {options['bootstrap.servers']}; create it first"
    return None


def missing_topics(spark: SparkSession, options: Mapping[str, str], names: tuple[str, ...]) -> list[str]:
    """Those of some topics that do not exist; raises the error of Java if no broker answers."""
    jvm: Any = spark._jvm
    settings = jvm.java.util.Properties()
    limits = {"request.timeout.ms": "5000", "default.api.timeout.ms": f"{_ANSWER_WITHIN_S * 1000}"}
    for key, value in {**limits, **options}.items():
        settings.setProperty(key, value)
    with closing(jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)) as admin:
        found = set(admin.listTopics().names().get())
    return [name for name in names if name not in found]


def _reason(error: Py4JJavaError) -> str:
    return root_cause(error.java_exception)


def root_cause(error: Any) -> str:
    """The message of the first cause of an error of Java, in one line."""
    cause = error
    while cause.getCause() is not None:
        cause = cause.getCause()
    return str(cause.getMessage() or cause.getClass().getSimpleName()).split("\n")[0]


class Outage:
    """What is reported while no broker of a stream answers, and what ends the waiting.

    Spark itself asks for new offsets again and again, without a word and without an end: a topic that was
    deleted would be waited for like a broker that is started again.
    """

    def __init__(self, spark: SparkSession, streams: Iterable[StreamDefinition]) -> None:
        self._spark = spark
        self._streams = tuple(stream for stream in streams if stream.format == KAFKA)
        self._is_said = False
        self._outlasted_s = -inf

    def outlast(self, error: Exception) -> bool:
        """Wait until Kafka answers again, if that is what made a job fail; raises if it never can."""
        if not self._streams or not any(sign in str(error) for sign in _SIGNS):
            return False
        began_s = time.monotonic()
        self.look()
        while self._is_said:
            time.sleep(1)
            self.look()
        # one that fails again, soon after and without an outage, fails for another reason
        has_waited = time.monotonic() - began_s > _ANSWER_WITHIN_S
        is_new = began_s - self._outlasted_s > _SAME_FAILURE_S
        self._outlasted_s = time.monotonic()
        return has_waited or is_new

    def look(self) -> None:
        """Find out why no micro-batch comes; raises if that cannot change by itself."""
        for stream in self._streams:
            try:
                missing = missing_topics(self._spark, client_options(stream), topics(stream))
            except Py4JJavaError as error:
                if not self._is_said:
                    where = f"stream {stream.name}: no broker of Kafka answers at {servers(stream)}"
                    _LOG.warning("%s (%s); waiting for it", where, _reason(error))
                self._is_said = True
                return
            if missing:
                raise SparkError(
                    f"stream {stream.name}: topic {missing[0]} no longer exists; to continue with a new "
                    "one, start with a new checkpoint"
                )
        if self._is_said:
            _LOG.warning("Kafka answers again")
        self._is_said = False

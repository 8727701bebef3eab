"""Kafka as CQL declares it: which columns of a stream come from the record, and which from its value."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.errors import SetupError, known_names
from headgate.model.network import Column, SinkDefinition, StreamDefinition

KAFKA = "kafka"
VALUE_FORMATS = ("json", "csv", "avro", "raw")
METADATA = ("key", "topic", "partition", "offset", "timestamp", "headers")
"""Columns of a record beside its value."""

# a field of a value may well be called timestamp: that of the record has to be requested
_BY_DEFAULT = tuple(name for name in METADATA if name != "timestamp")
_SERVERS, _TOPIC = "kafka.bootstrap.servers", "subscribe"
_SPARK_NAMES = {"servers": _SERVERS, "topic": _TOPIC}
# options of streams that do not reach Spark's reader of Kafka
_OWN = ("format", "metadata", "schema")
_SPARK = (
    "assign subscribe subscribePattern startingOffsets startingTimestamp startingOffsetsByTimestamp "
    "startingOffsetsByTimestampStrategy failOnDataLoss maxOffsetsPerTrigger minOffsetsPerTrigger "
    "maxTriggerDelay minPartitions maxRecordsPerPartition groupIdPrefix includeHeaders "
    "kafkaConsumer.pollTimeoutMs fetchOffset.numRetries fetchOffset.retryIntervalMs"
)
OPTIONS_OF_SPARK = frozenset(_SPARK.lower().split())
"""Options of Spark's reader, in lower case; all others are for the parser of values."""


def is_partitioned(stream: StreamDefinition) -> bool:
    """Whether each partition of a stream has its own progress in event time."""
    return stream.format == KAFKA and stream.timestamp is not None


def value_format(stream: StreamDefinition) -> str:
    """How a row is encoded: the format of a stream, or that of a record's value."""
    return _given(stream).get("format", "raw").strip().lower() if stream.format == KAFKA else stream.format


def of_record(stream: StreamDefinition) -> tuple[str, ...]:
    """The names of declared columns that come from the record rather than its value, in lower case."""
    given = _given(stream).get("metadata")
    if given is not None:
        return tuple(name.strip().lower() for name in given.split(",") if name.strip())
    return METADATA if value_format(stream) == "raw" else _BY_DEFAULT


def value_columns(stream: StreamDefinition) -> tuple[Column, ...]:
    """The declared columns that are parsed from the value."""
    apart = of_record(stream) if stream.format == KAFKA else ()
    return tuple(c for c in (stream.schema.columns if stream.schema else ()) if c.name.lower() not in apart)


def reader_options(stream: StreamDefinition) -> dict[str, str]:
    """The options of Spark's reader of Kafka."""
    options = {}
    for key, value in stream.options:
        spelt = _SPARK_NAMES.get(key, key)
        if spelt.lower() in OPTIONS_OF_SPARK or spelt.lower().startswith("kafka."):
            options[spelt] = value
    names = {column.name.lower() for column in stream.schema.columns} if stream.schema else set()
    if "headers" in names & set(of_record(stream)):
        options["includeHeaders"] = "true"
    return options


def parser_options(stream: StreamDefinition) -> dict[str, str]:
    """The options of the parser of values; of files, all options of the stream."""
    if stream.format != KAFKA:
        return dict(stream.options)
    ours = reader_options(stream).keys() | _SPARK_NAMES.keys() | set(_OWN)
    return {key: value for key, value in stream.options if key not in ours}


def servers(given: StreamDefinition | SinkDefinition) -> str:
    """The brokers to ask first."""
    found = _given(given)
    return found.get("servers", found.get(_SERVERS, ""))


def client_options(given: StreamDefinition | SinkDefinition) -> dict[str, str]:
    """Settings for a client of Kafka itself, such as those of authentication."""
    own = {k[len(KAFKA) + 1 :]: v for k, v in given.options if k.lower().startswith(f"{KAFKA}.")}
    return {**own, "bootstrap.servers": servers(given)}


def topics(stream: StreamDefinition) -> tuple[str, ...]:
    """The topics that a stream names; none if it has a pattern or a list of partitions."""
    found = _given(stream)
    named = found.get("topic", found.get(_TOPIC, ""))
    return tuple(topic.strip() for topic in named.split(",") if topic.strip())


def check_stream(stream: StreamDefinition) -> None:
    """Raise if a declared stream cannot be read from Kafka."""
    options = _given(stream)
    if not servers(stream):
        raise SetupError("kafka requires its brokers; write OPTIONS (servers 'host:9092', topic 'name')")
    ways = [key for key in ("topic", _TOPIC, "subscribepattern", "assign") if key in options]
    if len(ways) != 1:
        problem = f"{ways[0]} and {ways[1]} exclude each other" if ways else "kafka needs a topic"
        raise SetupError(f"{problem}; write OPTIONS (servers 'host:9092', topic 'name')")
    kind = value_format(stream)
    if kind not in VALUE_FORMATS:
        raise SetupError(f"format '{kind}' of kafka is not known; known: {known_names(VALUE_FORMATS)}")
    if unknown := [name for name in of_record(stream) if name not in METADATA]:
        raise SetupError(f"a record of Kafka has no {unknown[0]}; metadata are {known_names(METADATA)}")
    if kind == "avro" and "schema" not in options:
        raise SetupError("avro needs the option schema: a schema of Avro in JSON, or a file that has it")
    parsed = value_columns(stream)
    if kind != "raw" and not parsed:
        raise SetupError(
            f"kafka with format '{kind}' needs the columns of its values; write them before FROM"
        )
    if kind == "raw" and (others := [c.name for c in parsed if c.name.lower() != "value"]):
        raise SetupError(
            f"column {others[0]} is neither value nor metadata of a record; write format 'json', 'csv' or "
            "'avro' to parse it from the value"
        )


def check_sink(sink: SinkDefinition) -> None:
    """Raise if results cannot be written to Kafka."""
    options = _given(sink)
    if not servers(sink) or "topic" not in options:
        raise SetupError("kafka needs OPTIONS (servers 'host:9092', topic 'name')")
    kind = options.get("format", "json").lower()
    if kind not in ("json", "csv"):
        raise SetupError(f"format '{kind}' INTO kafka is not known; known: json, csv")


def _given(definition: StreamDefinition | SinkDefinition) -> Mapping[str, str]:
    return {key.lower(): value for key, value in definition.options}

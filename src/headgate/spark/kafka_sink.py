"""Results INTO kafka: exactly once by transactions, or at least once by the executors' own producers.

One producer on the driver delivers the results of a tick in one transaction, and commits with them the number
of the tick, as the offset of a consumer group of its own. A transaction belongs to one producer, so rows come
to the JVM of the driver for it; they do not pass through Python. The next producer of the same name fences
the one before and sees which tick was delivered last.
"""

from __future__ import annotations

import logging
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headgate.errors import SetupError, SparkError
from headgate.model.kafka import KAFKA, client_options, servers
from headgate.model.network import QueryDefinition
from headgate.spark import sql
from headgate.spark.application.java_classes import new_kafka_object
from headgate.spark.file_system import Files
from headgate.spark.outbox import StagedSink, key_columns
from headgate.spark.records import NO_CONNECTOR, has_connector, missing_topics, problem_of

_LOG = logging.getLogger(__name__)

BATCH, ROW = "headgate.batch", "headgate.row"
"""Headers of every record: the number of its tick, and its place in the results of that tick."""
# options that neither a producer nor a writer of values knows
_OURS = ("servers", "topic", "format", "transactions", "timestamp", "mode", "key")
# errors of Kafka, and those of them that will not pass
_SIGN = "org.apache.kafka"
_FATAL = (
    "ProducerFenced",
    "Authorization",
    "Authentication",
    "RecordTooLarge",
    "UnsupportedVersion",
    "Config",
)


class KafkaSink(StagedSink):
    """A topic. Its records have the results as JSON or CSV, and the columns of ``key`` as their key."""

    def __init__(
        self,
        spark: SparkSession,
        query: QueryDefinition,
        files: Files,
        folder: str,
        columns: StructType,
        uid: str,
    ) -> None:
        super().__init__(spark, query, files, folder, columns)
        given = {key.lower(): value for key, value in query.sink.options}
        self._topic = given["topic"]
        self._servers = servers(query.sink)
        self._client = client_options(query.sink)
        self._is_transactional = given.get("transactions", "true").lower() == "true"
        self._name = f"headgate-{uid}-{query.name}"
        self._items = _record_items(query, self._columns, given)
        self._producer: Any = None
        if not has_connector(spark):
            raise SetupError(f"query {query.name}: {NO_CONNECTOR}")
        if problem := problem_of(spark, self._client, (self._topic,)):
            raise SetupError(f"query {query.name}: {problem}")

    def _outage(self, error: Exception) -> str:
        """A failure that can pass by itself; an error that names the topic if that is gone."""
        trouble = _described(error)
        if not any(_SIGN in one for one in trouble):
            raise error
        outage = f"Kafka at {self._servers} does not accept results ({trouble[-1]})"
        try:
            missing = missing_topics(self._spark, self._client, (self._topic,))
        except Py4JJavaError:
            return outage
        if missing:
            raise SparkError(f"query {self._query}: topic {self._topic} no longer exists; create it")
        if any(name in one for one in trouble for name in _FATAL):
            raise SparkError(f"query {self._query}: Kafka refuses results: {trouble[-1]}")
        return outage

    def _send(self, batch_id: int) -> None:
        records = self._staged(batch_id).selectExpr(*self._items)
        if not self._is_transactional:
            self._write(records, batch_id)
            return
        if self._producer is None:
            self._producer = self._opened()
        if self._producer.delivered() > batch_id:
            # by a run that ended before it could remove what was staged
            return
        java: Any = records._jdf
        self._producer.deliver(java.toLocalIterator(), batch_id)

    def _opened(self) -> Any:
        jvm: Any = self._spark._jvm
        settings = jvm.java.util.HashMap()
        for key, value in self._client.items():
            settings.put(key, value)
        found = new_kafka_object(self._spark, "headgate.KafkaDelivery", settings, self._topic, self._name)
        if found.delivered() > self._resumed_after + 1:
            again = f"{self._resumed_after + 1} to {found.delivered() - 1}"
            _LOG.warning(
                "query %s: ticks %s were rolled back after topic %s had their results; it will have those of "
                "the new ticks beside them",
                self._query,
                again,
                self._topic,
            )
            found.deliver(jvm.java.util.ArrayList().iterator(), self._resumed_after)
        return found

    def _write(self, records: DataFrame, batch_id: int) -> None:
        """At least once, by as many producers as there are tasks."""
        headers = (
            f"array(struct('{BATCH}' AS key, CAST('{batch_id}' AS BINARY) AS value), "
            f"struct('{ROW}' AS key, row AS value)) AS headers"
        )
        options = {f"{KAFKA}.{key}": value for key, value in self._client.items()}
        writer = records.selectExpr("key", "value", headers).write.format(KAFKA)
        writer.options(**options).option("topic", self._topic).option("includeHeaders", "true").save()

    def close(self) -> None:
        """Close the producer; a transaction that is open ends without its records."""
        if self._producer is not None:
            self._producer.close()
        self._producer = None


def _described(error: Exception) -> list[str]:
    """Class and message of an error of Java and of all its causes; none of an error of Python."""
    found = []
    cause: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while cause is not None:
        found.append(f"{cause.getClass().getName()}: {cause.getMessage()}")
        cause = cause.getCause()
    return found


def _record_items(query: QueryDefinition, columns: StructType, given: dict[str, str]) -> list[str]:
    """The select list of key, value and place of a record."""
    values = {k: v for k, v in query.sink.options if k not in _OURS and not k.lower().startswith("kafka.")}
    pairs = ", ".join(f"{sql.text(key)}, {sql.text(value)}" for key, value in values.items())
    options = f", map({pairs})" if pairs else ""
    kind = given.get("format", "json").lower()
    own = sql.names(key_columns(query, columns))
    key = "NULL" if not own else own[0] if len(own) == 1 else f"to_json(struct({', '.join(own)}))"
    value = f"to_{kind}(struct({', '.join(sql.names(columns.names))}){options})"
    # files of two slices may have one name
    file = "substring_index(_metadata.file_path, '/', -2)"
    return [
        f"CAST(CAST({key} AS STRING) AS BINARY) AS key",
        f"CAST({value} AS BINARY) AS value",
        f"CAST(concat({file}, ':', _metadata.row_index) AS BINARY) AS row",
    ]

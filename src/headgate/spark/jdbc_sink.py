"""Results INTO jdbc: rows of a table of a database, by key or appended, each tick exactly once.

Executors write the results of a tick into a table of their own in the same database. One transaction then
moves them to where they belong, and notes the number of the tick: one that was delivered before is skipped.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headgate.errors import SetupError
from headgate.model.network import QueryDefinition
from headgate.spark import sql
from headgate.spark.file_system import Files
from headgate.spark.outbox import StagedSink, key_columns

_LOG = logging.getLogger(__name__)

DELIVERED = "headgate_delivered"
"""The table that has, for each query, the number of the last tick that was delivered."""
# options that Spark's writer does not know
_OURS = ("key", "timestamp", "mode")
_NEVER = -2
# classes of SQLSTATE that can pass: connections, operator intervention, insufficient resources
_PASSING = ("08", "57", "53")


class JdbcSink(StagedSink):
    """A table; with ``key``, a result replaces the row of its key."""

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
        self._options = {key: value for key, value in query.sink.options if key not in _OURS}
        given = {key.lower(): value for key, value in query.sink.options}
        self._table = given["dbtable"]
        self._keys = key_columns(query, self._columns)
        self._time = query.sink.timestamp
        self._name = f"headgate_{uid}_{query.name}".lower()
        self._is_noted = False

    def _outage(self, error: Exception) -> str:
        state, reason = _failure(error)
        if not state.startswith(_PASSING):
            raise SetupError(f"query {self._query}: {self._table}: {reason}") from error
        return f"the database does not accept results ({reason})"

    def _send(self, batch_id: int) -> None:
        with self._transaction() as execute:
            if not self._is_noted:
                self._note_begin(execute)
            if self._delivered(execute) >= batch_id:
                return
        rows = self._latest(self._staged(batch_id))
        writer = rows.write.format("jdbc").options(**{**self._options, "dbtable": self._name})
        writer.mode("overwrite").save()
        with self._transaction() as execute:
            execute(self._insertion())
            execute(f"UPDATE {DELIVERED} SET tick = {batch_id} WHERE name = '{self._name}'")
            execute(f"DROP TABLE {self._name}")

    def _note_begin(self, execute: Any) -> None:
        """Have a number of the last delivered tick; after a rollback, that of the tick to go on from."""
        execute(
            f"CREATE TABLE IF NOT EXISTS {DELIVERED} (name VARCHAR(250) PRIMARY KEY, tick BIGINT NOT NULL)"
        )
        found = self._delivered(execute)
        if found == _NEVER:
            execute(f"INSERT INTO {DELIVERED} VALUES ('{self._name}', -1)")
        elif found > self._resumed_after:
            _LOG.warning(
                "query %s: ticks %d to %d were rolled back after table %s had their results",
                self._query,
                self._resumed_after + 1,
                found,
                self._table,
            )
            execute(f"UPDATE {DELIVERED} SET tick = {self._resumed_after} WHERE name = '{self._name}'")
        self._is_noted = True

    def _delivered(self, execute: Any) -> int:
        found = execute(f"SELECT max(tick) FROM {DELIVERED} WHERE name = '{self._name}'")
        return _NEVER if found is None else int(found)

    def _latest(self, rows: DataFrame) -> DataFrame:
        """Of several results with one key, the one that comes last."""
        if not self._keys:
            return rows
        own = ", ".join(sql.names(self._columns.names))
        first = f"{sql.name(self._time)}, " if self._time in self._columns.names else ""
        last = f"max_by(struct({own}), struct({first}{own})) AS last"
        grouped = rows.groupBy(*self._keys).agg(F.expr(last))
        return grouped.select("last.*")

    def _insertion(self) -> str:
        names = [_quoted(name) for name in self._columns.names]
        listed = ", ".join(names)
        # without a condition, ON would belong to a join for some databases
        text = f"INSERT INTO {self._table} ({listed}) SELECT {listed} FROM {self._name} WHERE 1 = 1"
        if not self._keys:
            return text
        others = [name for name in self._columns.names if name not in self._keys]
        changes = ", ".join(f"{_quoted(name)} = excluded.{_quoted(name)}" for name in others)
        effect = f"UPDATE SET {changes}" if others else "NOTHING"
        return f"{text} ON CONFLICT ({', '.join(map(_quoted, self._keys))}) DO {effect}"

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        """A function that executes a statement, and returns the value of a query; committed at the end."""
        jvm: Any = self._spark._jvm
        given = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(self._options)
        options = jvm.org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions(given)
        dialect = jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(self._options["url"])
        with closing(dialect.createConnectionFactory(options).apply(-1)) as connection:
            connection.setAutoCommit(False)

            def execute(statement: str) -> Any:
                with closing(connection.createStatement()) as prepared:
                    if not prepared.execute(statement):
                        return None
                    rows = prepared.getResultSet()
                    return rows.getObject(1) if rows.next() else None

            yield execute
            connection.commit()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _failure(error: Exception) -> tuple[str, str]:
    """SQLSTATE, if a database has given one, and the message of the first cause."""
    cause: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    state, reason = "", str(error).strip().split("\n")[0]
    while cause is not None:
        # of errors of databases alone
        with suppress(Py4JError):
            state = str(cause.getSQLState() or state)
        reason = str(cause.getMessage()).strip().split("\n")[0]
        cause = cause.getCause()
    return state, reason

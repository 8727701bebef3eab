"""Tables beside a run: its stored relations, results and dead letters, for SELECTs on a checkpoint.

A run records where they are. Results are those of the ticks that have been committed, also while it runs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headgate.errors import HeadgateError, SetupError, known_names
from headgate.model.network import Network
from headgate.model.table import Held
from headgate.spark import sql
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.file_system import Files
from headgate.spark.manifest import Manifest
from headgate.spark.operators.check import spark_complaint
from headgate.spark.operators.tables import TableOperator
from headgate.spark.prepared import Prepared
from headgate.spark.sealed_document import decode
from headgate.spark.sinks import FILE_SINKS, Sink, TableFileSink

DEAD_LETTERS = "dead_letters"
"""The name of the table with what was set aside."""

_FILE = "headgate.tables.json"
# classes of SQL states: a value for which an expression fails, and what the user raises
_VALUE_ERRORS = ("22", "P0")
# formats of stored relations that need no password
_RELATION_FILES = ("csv", "json", "orc", "parquet", "text")


@dataclass(frozen=True)
class StoredTable:
    """A table of a checkpoint; ``columns`` is the JSON of a schema, empty if the files tell it."""

    name: str
    kind: str
    format: str
    columns: str
    options: Mapping[str, str]

    def read(self, spark: SparkSession) -> DataFrame:
        """All rows."""
        reader = spark.read.format(self.format).options(**self.options)
        if self.columns:
            reader = reader.schema(StructType.fromJson(json.loads(self.columns)))
        return reader.load()


@dataclass(frozen=True)
class Selected:
    """The rows of a SELECT as an Arrow table, and the types of its columns in Spark."""

    columns: Mapping[str, str]
    table: Any


def record_tables(
    spark: SparkSession, files: Files, checkpoint: Checkpoint, network: Network, prepared: Prepared
) -> None:
    """Write down where the relations and results of a run are."""
    found = [*_relations(spark, network), *_results(checkpoint, network, prepared)]
    path = f"{checkpoint.root}/{_FILE}"
    if not files.is_file(path):
        # whatever is there instead
        files.delete(path)
    files.write_text(path, json.dumps([asdict(table) for table in found], indent=2))


def restore_tables(
    spark: SparkSession, prepared: Prepared, sinks: Mapping[str, Sink], manifest: Manifest
) -> None:
    """Show the rows of the last committed tick, where those of later ones are shown that were rolled back."""
    for name, sink in sinks.items():
        if not isinstance(sink, TableFileSink) or not sink.is_ahead_of(manifest.batch_id):
            continue
        query = prepared.network.queries[name]
        [output] = query.outputs
        operator, state = prepared.operators[output], manifest.operators.get(output)
        assert isinstance(operator, TableOperator)
        if isinstance(operator.settings.state, Held):
            # the next tick shows what the window holds then
            continue
        rows = None
        if state is not None and state.groups:
            items = prepared.result_items(query, output)
            rows = spark.sql(sql.select(items, operator.current(state.groups))).drop(sql.TS)
        sink.restore(rows, manifest.batch_id)


def _relations(spark: SparkSession, network: Network) -> Iterator[StoredTable]:
    for relation in network.relations.values():
        if relation.format in _RELATION_FILES:
            schema = spark.table(sql.name(f"relation {relation.name}")).schema.json()
            options = _located(dict(relation.options))
            yield StoredTable(relation.name, "relation", relation.format, schema, options)


def _results(checkpoint: Checkpoint, network: Network, prepared: Prepared) -> Iterator[StoredTable]:
    for name, query in network.queries.items():
        fields = [f for f in prepared.result_schema(query).fields if not sql.is_system(f.name)]
        schema = StructType(fields).json()
        if query.sink.format == "memory":
            yield StoredTable(name, "query", "parquet", schema, {"path": checkpoint.results(name)})
        elif query.sink.format in FILE_SINKS:
            options = _located(dict(query.sink.options))
            yield StoredTable(name, "query", query.sink.format, schema, options)


def _located(options: Mapping[str, str]) -> dict[str, str]:
    """The options with a path that is the same from all folders."""
    return {
        key: str(Path(value).absolute()) if key.lower() == "path" and ":" not in value else value
        for key, value in options.items()
    }


class StoredTables:
    """The tables of a checkpoint, as views of a session."""

    def __init__(self, spark: SparkSession, files: Files, root: str) -> None:
        path, self._spark = f"{root}/{_FILE}", spark
        if not files.exists(path):
            raise SetupError(f"{root} has no {_FILE}; pass a folder in which headgate run has kept its state")
        self._found = {table.name: table for table in _read(files, path)}
        letters = f"{root}/dead-letters"
        if files.names(letters):
            options = {"path": letters, "mergeSchema": "true"}
            self._found[DEAD_LETTERS] = StoredTable(DEAD_LETTERS, "dead letters", "parquet", "", options)
        self._files = files

    @property
    def tables(self) -> tuple[StoredTable, ...]:
        """All of them, in order of declaration."""
        return tuple(self._found.values())

    def columns(self, name: str) -> dict[str, str]:
        """The columns of a table, with their types."""
        table = next((one for one in self.tables if one.name.lower() == name.lower()), None)
        if table is None:
            raise self._unknown(name)
        return {f.name: f.dataType.simpleString().upper() for f in self._rows(table).schema.fields}

    def select(self, text: str) -> DataFrame:
        """The rows that a SELECT gives."""
        for table in self.tables:
            self._rows(table).createOrReplaceTempView(sql.name(table.name))
        try:
            return self._spark.sql(text)
        except (AnalysisException, ParseException) as error:
            if error.getCondition() == "TABLE_OR_VIEW_NOT_FOUND":
                written = (error.getMessageParameters() or {})["relationName"]
                raise self._unknown(written.replace("`", "")) from error
            raise SetupError(spark_complaint(error).rstrip(".")) from error

    def rows(self, text: str, max_rows: int | None = None) -> Selected:
        """The rows that a SELECT gives, all or the first ones."""
        found = self.select(text)
        twice = [name for name, times in Counter(found.columns).items() if times > 1]
        if twice:
            raise SetupError(f"two columns are called {twice[0]}; give one of them another name with AS")
        columns = {field.name: field.dataType.simpleString() for field in found.schema.fields}
        try:
            return Selected(columns, (found if max_rows is None else found.limit(max_rows)).toArrow())
        except PySparkException as error:
            if (error.getSqlState() or "").startswith(_VALUE_ERRORS):
                raise SetupError(spark_complaint(error).rstrip(".")) from error
            raise

    def _unknown(self, name: str) -> SetupError:
        return SetupError(f"unknown table {name}; tables: {known_names(list(self._found))}")

    def _rows(self, table: StoredTable) -> DataFrame:
        if table.kind == "query" and not self._files.exists(table.options["path"]):
            # no tick has brought any yet
            return self._spark.createDataFrame([], StructType.fromJson(json.loads(table.columns)))
        return table.read(self._spark)


def _read(files: Files, path: str) -> list[StoredTable]:
    try:
        found = [decode(StoredTable, one) for one in json.loads(files.read_text(path))]
        for table in found:
            if table.columns:
                StructType.fromJson(json.loads(table.columns))
        return found
    except (HeadgateError, ValueError, TypeError, KeyError) as error:
        raise SetupError(f"{path} is damaged; start the run again, which writes it anew") from error

"""Reads of files that differ from earlier ones in nothing but the files.

Spark looks for a data source by its name among all that are installed, and for the files by every way in
which a path can be written, some 15 ms each time. The second read of a stream takes over what the first one
found, and only lists its own files.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from pyspark.sql import DataFrame, SparkSession


class FileScans:
    """How the files of each stream are read; a stream is known by its definition."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._session: Any = spark._jsparkSession
        jvm: Any = spark._jvm
        datasources = jvm.org.apache.spark.sql.execution.datasources
        # each of these names is a question to the JVM
        self._index, self._relation = datasources.InMemoryFileIndex, datasources.HadoopFsRelation
        self._path = jvm.org.apache.hadoop.fs.Path
        self._to_seq = jvm.org.apache.spark.api.python.PythonUtils.toSeq
        # a file may be replaced by another of its name
        self._uncached = getattr(getattr(datasources, "NoopCache$"), "MODULE$")
        self._some, self._none = jvm.scala.Option.apply, jvm.scala.Option.empty()
        self._relations: dict[Hashable, Any] = {}

    def read(self, stream: Hashable, paths: list[str], load: Callable[[], DataFrame]) -> DataFrame:
        """The rows of some files; ``load`` reads them the usual way."""
        if stream in self._relations:
            found = self._like(self._relations[stream], paths)
            if found is not None:
                return found
        frame = load()
        self._remember(stream, frame)
        return frame

    def _remember(self, stream: Hashable, frame: DataFrame) -> None:
        java: Any = frame._jdf
        plan = java.queryExecution().analyzed()
        if plan.getClass().getSimpleName() != "LogicalRelation":
            return
        relation = plan.relation()
        # folders that stand for columns are found with the files
        if relation.getClass().getSimpleName() == "HadoopFsRelation" and relation.partitionSchema().isEmpty():
            self._relations[stream] = relation

    def _like(self, relation: Any, paths: list[str]) -> DataFrame | None:
        """None if a file is missing: whoever reads the usual way says which."""
        files, schema, options = self._listed(relation, paths), relation.dataSchema(), relation.options()
        if files.allFiles().size() != len(paths):
            return None
        like = self._relation(
            files,
            relation.partitionSchema(),
            schema,
            relation.bucketSpec(),
            relation.fileFormat(),
            options,
            self._session,
        )
        return DataFrame(self._session.baseRelationToDataFrame(like), self._spark)

    def count(self, stream: Hashable, path: str) -> int | None:
        """How many files a folder holds that belong to a stream; None if nothing of it has been read yet."""
        relation = self._relations.get(stream)
        return None if relation is None else int(self._listed(relation, [path]).allFiles().size())

    def _listed(self, relation: Any, paths: list[str]) -> Any:
        roots, schema = self._to_seq([self._path(path) for path in paths]), self._some(relation.dataSchema())
        nothing = self._none
        return self._index(self._session, roots, relation.options(), schema, self._uncached, nothing, nothing)

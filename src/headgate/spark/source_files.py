"""The files of a file stream: which of them a micro-batch consists of, and how they are read.

Inside ``foreachBatch`` a batch is an opaque RDD: every job on it reads every column of every stream again.
Spark's source log names the files in order of arrival, so that the engine can read them as plain files, with
column pruning and predicate push-down.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession

from headgate.errors import DamagedStateError, InternalError
from headgate.spark.file_system import Files, normal_path


@dataclass(eq=False, repr=False)
class FileSourceLog:
    """Reads ``offsets/`` and ``sources/`` of a Structured Streaming checkpoint.

    ``positions`` are those of the sources in the plan, where they have no names.
    """

    _files: Files
    _folder: str
    _positions: Mapping[str, int] | None = None
    _names: Mapping[str, str] = field(default_factory=dict)
    """By stream, the name of its source, where it is another one."""

    def __post_init__(self) -> None:
        self._offsets: dict[int, dict[str, str]] = {}
        self._read: dict[str, tuple[set[str], int]] = {}
        planned = self._files.names(f"{self._folder}/offsets")
        self.last_planned = max((int(name) for name in planned if name.isdigit()), default=-1)
        """The last micro-batch that runs before this one have planned; it may still have to be executed."""

    def offsets(self, batch_id: int) -> dict[str, str]:
        """Offset text of every named source at the end of a micro-batch."""
        if batch_id not in self._offsets:
            # a tick reads its own offsets and those of the tick before, repeatedly
            recent = {known: self._offsets[known] for known in self._offsets if known >= batch_id - 1}
            self._offsets = recent | {batch_id: self._read_offsets(batch_id)}
        return self._offsets[batch_id]

    def _read_offsets(self, batch_id: int) -> dict[str, str]:
        path = f"{self._folder}/offsets/{batch_id}"
        if batch_id < 0 or not self._files.exists(path):
            return {}
        wanted = "v2" if self._positions is None else "v1"
        try:
            version, offsets = offset_entry(self._files.read_text(path))
        except ValueError as error:
            raise self._damaged(path, error) from error
        if version != wanted:
            raise InternalError(f"{path}: expected offset log version {wanted}, found {version}")
        if self._positions is not None:
            return {name: offsets[at] for name, at in self._positions.items() if offsets[at] != "-"}
        named = dict(line.split(":", 1) for line in offsets if ":" in line)
        found = {name: offset for name, offset in named.items() if offset != "-"}
        streams = {stream: found[name] for stream, name in self._names.items() if name in found}
        return {name: offset for name, offset in found.items() if name not in self._names} | streams

    def _damaged(self, path: str, error: Exception) -> DamagedStateError:
        root = self._folder.rpartition("/")[0]
        advice = f"step back with headgate checkpoint rollback {root}, or remove {root} to start anew"
        return DamagedStateError(f"{path} is damaged: {str(error).splitlines()[0]}; {advice}")

    def files(self, stream: str, batch_id: int) -> list[str]:
        """Files that a stream brings into a micro-batch, in order of arrival."""
        last = _log_offset(self.offsets(batch_id).get(stream))
        first = _log_offset(self.offsets(batch_id - 1).get(stream)) + 1
        return [path for entry in range(first, last + 1) for path in self._entry(stream, entry)]

    def files_until(self, stream: str, batch_id: int) -> set[str]:
        """All files that a stream has brought up to a micro-batch, in their normal spelling."""
        last = _log_offset(self.offsets(batch_id).get(stream))
        files, upto = self._read.get(stream) or self._compacted(stream, last)
        for entry in range(upto + 1, last + 1):
            files.update(map(normal_path, self._entry(stream, entry)))
        self._read[stream] = files, max(upto, last)
        return files

    def _compacted(self, stream: str, last: int) -> tuple[set[str], int]:
        """Files and number of the newest compact entry, so that a restart need not read entry by entry."""
        folder = self._source_folder(stream)
        upto = max((entry for entry in self._compact_entries(folder) if entry <= last), default=-1)
        logged = self._logged(f"{folder}/{upto}.compact") if upto >= 0 else []
        return {normal_path(path) for path, _ in logged}, upto

    def _source_folder(self, stream: str) -> str:
        source = self._names.get(stream, stream) if self._positions is None else self._positions[stream]
        return f"{self._folder}/sources/{source}"

    def _logged(self, path: str) -> list[tuple[str, int]]:
        """Files of an entry in order of arrival, each with the number of the entry that brought it."""
        try:
            lines = self._files.read_text(path).splitlines()[1:]
            files = [json.loads(line) for line in lines if line]
            # Spark leaves files of equal modification time in the order of the listing
            files.sort(key=lambda file: (file["batchId"], file["timestamp"], normal_path(file["path"])))
            # the log quotes paths as addresses are; a blank in a name is a blank where files are opened
            return [(unquote(file["path"]), file["batchId"]) for file in files]
        except (ValueError, KeyError, TypeError) as error:
            raise self._damaged(path, error) from error

    def _entry(self, stream: str, entry: int) -> list[str]:
        folder = self._source_folder(stream)
        path = f"{folder}/{entry}"
        if not self._files.exists(path):
            compact = next((n for n in self._compact_entries(folder) if n >= entry), None)
            if compact is None:
                raise self._damaged(folder, ValueError(f"it has no entry {entry}"))
            path = f"{folder}/{compact}.compact"
        return [file for file, number in self._logged(path) if number == entry]

    def _compact_entries(self, folder: str) -> list[int]:
        """Numbers of entries that hold all earlier ones, sorted."""
        found = (re.fullmatch(r"(\d+)\.compact", name) for name in self._files.names(folder))
        return sorted(int(match[1]) for match in found if match)


def offset_entry(text: str) -> tuple[str, list[str]]:
    """The version of an entry of Spark's log of offsets, and a line for each source.

    Raises ``ValueError`` if it is damaged.
    """
    version, *lines = text.splitlines() or [""]
    if version not in ("v1", "v2") or not lines:
        raise ValueError(f"it begins with {text[:20]!r}")
    metadata, *offsets = lines
    json.loads(metadata)
    for line in offsets:
        offset = line.partition(":")[2] if version == "v2" else line
        if offset != "-":
            json.loads(offset)
    return version, offsets


def _log_offset(text: str | None) -> int:
    return -1 if text is None else int(json.loads(text)["logOffset"])


class FileScans:
    """Reads files with what an earlier read of the same stream has resolved.

    Spark takes some 15 ms to look up a data source among all installed ones and to resolve paths. Later reads
    of a stream reuse that, and only list their own files. A stream is any hashable key.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._session: Any = spark._jsparkSession
        jvm: Any = spark._jvm
        datasources = jvm.org.apache.spark.sql.execution.datasources
        # each of these names is a call into the JVM
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
        """None if a file is missing: the usual read then names it."""
        files, schema, options = self._listed(relation, paths), relation.dataSchema(), relation.options()
        # a path may be the folder of a block, with several files
        if files.allFiles().size() < len(paths):
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
        """How many files of a stream a folder holds; None if nothing of the stream has been read yet."""
        relation = self._relations.get(stream)
        return None if relation is None else int(self._listed(relation, [path]).allFiles().size())

    def _listed(self, relation: Any, paths: list[str]) -> Any:
        roots, schema = self._to_seq([self._path(path) for path in paths]), self._some(relation.dataSchema())
        nothing = self._none
        return self._index(self._session, roots, relation.options(), schema, self._uncached, nothing, nothing)

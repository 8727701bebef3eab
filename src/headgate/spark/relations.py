"""Stored relations: the views that operators join, and new versions of relations that are refreshed.

A new version is stored in the checkpoint, and named by the manifest of the tick before those that read it. So
all operators of a tick read the same version, and a tick that is executed again reads it once more.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headgate.model.network import RelationDefinition
from headgate.spark import sql
from headgate.spark.application.cluster import in_session
from headgate.spark.blocks import BlockStore
from headgate.spark.manifest import RelationState
from headgate.spark.operators.base import StoredRelation
from headgate.spark.operators.stored_relations import stored_sql
from headgate.spark.sources import Sources, first_line

_LOG = logging.getLogger(__name__)

# stored relations up to this many rows are broadcast
_BROADCAST_ROWS = 200_000


class StoredRelations:
    """The stored relations of a network, by name."""

    def __init__(
        self,
        spark: SparkSession,
        definitions: Iterable[RelationDefinition],
        sources: Sources,
        store: BlockStore,
    ) -> None:
        self._spark = spark
        self._sources = sources
        self._store = store
        self._definitions = {definition.name: definition for definition in definitions}
        self._frames: dict[str, DataFrame] = {}
        self._schemas: dict[str, StructType] = {}
        self._states: dict[str, RelationState] = {}
        self._current: dict[str, StoredRelation] = {}
        # those that are computed read those that are not
        for name in sorted(self._definitions, key=lambda name: bool(self._definitions[name].selects)):
            self._current[name] = self._first(name)

    def __getitem__(self, name: str) -> StoredRelation:
        return self._current[name]

    def _first(self, name: str) -> StoredRelation:
        """A relation as it is now."""
        frame = self._computed(name) if self._definitions[name].selects else self._read(name)
        self._schemas[name] = frame.schema
        # Spark takes equal paths for equal content: of a plan that reads them again, it would find the cache
        is_refreshed = self._definitions[name].refresh_us is not None
        frame = frame.localCheckpoint() if is_refreshed else frame.persist()
        return self._shown(name, f"relation {name}", frame)

    def _read(self, name: str) -> DataFrame:
        return in_session(self._spark, self._sources.relation(self._definitions[name]))

    def _computed(self, name: str) -> DataFrame:
        """The rows of a relation that is computed from the current versions of others."""
        selects = self._definitions[name].selects
        return self._spark.sql(stored_sql(selects, lambda read: self._current[read].view))

    def _shown(self, name: str, view: str, frame: DataFrame) -> StoredRelation:
        frame.createOrReplaceTempView(sql.name(view))
        self._frames[name] = frame
        return StoredRelation(
            sql.name(view), "BROADCAST" if frame.count() <= _BROADCAST_ROWS else "SHUFFLE_HASH"
        )

    def versions_after(
        self, states: Mapping[str, RelationState], batch_id: int, now_us: int
    ) -> dict[str, RelationState]:
        """The versions for the next tick; those that are due are read and stored."""
        found = dict(states)
        for name, definition in self._definitions.items():
            state, refresh_us = states.get(name), definition.refresh_us
            if refresh_us is not None and (state is None or now_us - state.read_us >= refresh_us):
                try:
                    found[name] = self._stored(name, batch_id, now_us)
                except Exception as error:
                    # its owner may be replacing it right now; the next tick tries again
                    _LOG.warning("relation %s is not refreshed: %s", name, first_line(error))
        return found

    def _stored(self, name: str, batch_id: int, now_us: int) -> RelationState:
        frame, number = self._read(name), list(self._definitions).index(name)
        path = self._store.path(batch_id, f"relation{number}")
        return RelationState(now_us, self._store.write(frame, self._schemas[name], path, 0, now_us))

    def use(self, states: Mapping[str, RelationState]) -> None:
        """Let operators read these versions from now on."""
        replaced: dict[str, int] = {}
        for name, state in states.items():
            if name in self._definitions and self._states.get(name) != state:
                schema, block = self._schemas[name], state.block
                stored = None if block is None else self._store.read([block], schema).persist()
                self._replace(name, self._store.empty(schema) if stored is None else stored, state.read_us)
                self._states[name] = state
                replaced[name] = state.read_us
        for name, definition in self._definitions.items():
            read = {one for select in definition.selects for one in select.names}
            if newest := [read_us for one, read_us in replaced.items() if one in read]:
                self._replace(name, self._computed(name).persist(), max(newest))

    def _replace(self, name: str, frame: DataFrame, read_us: int) -> None:
        old, before = self._current[name], self._frames[name]
        # plans of earlier ticks hold the rows of the view that they name
        new = self._shown(name, f"relation {name} {read_us}", frame)
        if old.view != new.view:
            self._spark.catalog.dropTempView(old.view.strip("`"))
        before.unpersist()
        old.view, old.hint = new.view, new.hint

"""FROM: look up its streams and relations, and give every stream its window."""

from __future__ import annotations

from headgate.cql.statement import (
    FromItem,
    Now,
    PartitionedRows,
    Range,
    Rows,
    Select,
    Unbounded,
    Window,
)
from headgate.errors import QueryError, known_names
from headgate.model import window as model
from headgate.model.network import StreamDefinition
from headgate.planning.catalog import Catalog
from headgate.planning.logical import Node, RelationJoin, RelationScan, StreamScan, WindowJoin
from headgate.planning.placements import Placements
from headgate.planning.scope import Scope, Source, column_of_source


def scope_of(select: Select, catalog: Catalog) -> Scope:
    """The sources of a SELECT, checked."""
    scope = Scope([_source(item, catalog) for item in select.sources])
    if not scope.streams:
        names = ", ".join(item.source.text for item in select.sources)
        message = f"there is no stream in FROM, but stored relations only ({names}); join them with a stream"
        raise QueryError(message, select.sources[0].source.span)
    return scope


def check_windows(scope: Scope, is_aggregate: bool) -> None:
    """Refuse a join whose windows would hold all tuples, and a SLIDE that nothing looks at."""
    if len(scope.streams) > 1:
        for source in scope.streams:
            _check_joined(source)
        return
    window = scope.streams[0].item.window
    if isinstance(window, Range) and window.slide_us and not is_aggregate:
        raise QueryError(
            "SLIDE has no effect without an aggregate or a join of streams; remove it", window.span
        )


def from_clause(scope: Scope, placements: Placements) -> Node:
    """The sources joined: streams first, then relations, as they stand in FROM."""
    streams = tuple(_stream_scan(source) for source in scope.streams)
    node: Node = streams[0] if len(streams) == 1 else WindowJoin(streams, pools=_probed_on(scope, placements))
    for relation in scope.relations:
        scan = RelationScan(relation.definition.name, relation.alias, relation.schema.names)
        node = RelationJoin(node, scan)
    return node


def _probed_on(scope: Scope, placements: Placements) -> tuple[str, ...]:
    """The pools of all probes; none, if no probe is placed."""
    pools = [placements.pool_of_probe(source.definition.name) for source in scope.streams]
    placed = [source for source, pool in zip(scope.streams, pools, strict=True) if pool is not None]
    if not placed:
        return ()
    for source, pool in zip(scope.streams, pools, strict=True):
        name = source.definition.name
        if pool is None:
            message = f"the probe of {placed[0].definition.name} is placed, that of {name} is not"
            raise QueryError(f"{message}; write PLACE PROBE OF {name} ON a pool too", source.item.source.span)
        if not isinstance(window_of(source), model.TimeWindow):
            message = f"the probe of {name} is placed, and placed probes look into windows of time only"
            raise QueryError(f"{message}; write {name} [RANGE 10 SECONDS]", source.item.source.span)
    return tuple(pool for pool in pools if pool is not None)


def window_of(source: Source) -> model.Window:
    """The window of a stream; none written is all tuples so far."""
    window = source.item.window
    if isinstance(window, Rows):
        return model.RowWindow(window.rows)
    if isinstance(window, PartitionedRows):
        return model.RowWindow(window.rows, _keys(source, window))
    if isinstance(window, Range):
        return model.TimeWindow(window.range_us, window.slide_us)
    return model.TimeWindow(0) if isinstance(window, Now) else model.UnboundedWindow()


def _source(item: FromItem, catalog: Catalog) -> Source:
    name = item.source
    definition = catalog.find(name.text)
    if definition is None or definition.schema is None:
        if catalog.is_query(name.text):
            message = f"{name.text} is a query; FROM takes streams and relations, so read what it writes"
            raise QueryError(message, name.span)
        known = known_names([*catalog.streams, *catalog.relations])
        raise QueryError(f"unknown stream or relation {name.text}; known: {known}", name.span)
    if not isinstance(definition, StreamDefinition) and item.window is not None:
        message = f"{name.text} is a stored relation and has no window; remove {_shown(item.window)}"
        raise QueryError(message, item.window.span)
    return Source(item, definition, definition.schema)


def _check_joined(source: Source) -> None:
    window = source.item.window
    if window is None or isinstance(window, Unbounded):
        name = source.item.source
        message = f"{name.text} needs a window in a join, e.g. {name.text} [RANGE 10 SECONDS]"
        raise QueryError(message, window.span if window else name.span)


def _stream_scan(source: Source) -> StreamScan:
    return StreamScan(source.definition.name, source.alias, source.schema.names, window_of(source))


def _keys(source: Source, window: PartitionedRows) -> tuple[str, ...]:
    for key in window.keys:
        if key.qualifier and key.qualifier.lower() not in (
            source.alias.lower(),
            source.item.source.text.lower(),
        ):
            columns = ", ".join(source.schema.names)
            message = f"PARTITION BY takes columns of {source.alias} alone; columns: {columns}"
            raise QueryError(message, key.span)
    return tuple(dict.fromkeys(column_of_source(source, key).name for key in window.keys))


def _shown(window: Window) -> str:
    return " ".join(window.span.excerpt.split())

"""Answers of SHOW and DESCRIBE: small tables that print themselves."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from inspect import cleandoc

from headgate.cql.measure import duration_text
from headgate.cql.secrets import HIDDEN, is_secret
from headgate.cql.statement import PLURALS, CreateQuery, CreateView, DeriveStream
from headgate.errors import QueryError, Span, unknown_name
from headgate.formats.html import html_table, html_text
from headgate.model.network import ComputedColumn, StreamDefinition
from headgate.planning.catalog import Catalog
from headgate.planning.dependencies import Reader, callers, calls_of, readers, sources_of
from headgate.planning.plan_tree import Json
from headgate.planning.queries import bind, is_stored_view, selected_columns
from headgate.planning.rules import optimize
from headgate.planning.select_list import TIMESTAMP

Value = str | int | None | tuple[str, ...] | Mapping[str, str]
# properties whose values are texts of the user's
_QUOTED = ("options", "with")
# kinds that FROM can name
_READ = ("stream", "relation", "view")


@dataclass(frozen=True, repr=False)
class Listing:
    """What SHOW gives: a row for each thing declared, in order of declaration."""

    statement: str
    headings: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]

    def __repr__(self) -> str:
        if not self.rows:
            return f"no {self.statement.partition(' ')[2].lower()}"
        heading = tuple(heading.replace("_", " ") for heading in self.headings)
        lines = [heading, *(tuple(map(_cell, row)) for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)

    def _repr_html_(self) -> str:
        return html_table(self.headings, [tuple(map(_cell, row)) for row in self.rows], self.statement)

    def to_json(self) -> Json:
        """The rows, each by heading."""
        rows = [dict(zip(self.headings, map(_plain, row), strict=True)) for row in self.rows]
        return {"statement": self.statement, "rows": rows}


@dataclass(frozen=True, repr=False)
class Description:
    """What DESCRIBE gives: the properties of one thing by name."""

    statement: str
    properties: Mapping[str, Value]

    def __repr__(self) -> str:
        width = max(map(len, self.properties))
        blocks = ((key.replace("_", " "), _lines(key, value)) for key, value in self.properties.items())
        return "\n".join(
            f"{'' if number else key:{width}}  {line}"
            for key, lines in blocks
            for number, line in enumerate(lines)
        )

    def _repr_html_(self) -> str:
        return html_text(repr(self))

    def to_json(self) -> Json:
        """The properties by name."""
        properties = {key: _plain(value) for key, value in self.properties.items()}
        return {"statement": self.statement, **properties}


Answer = Listing | Description


def _cell(value: Value) -> str:
    if value in (None, "", (), {}):
        return "-"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {text!r}" for key, text in value.items())
    return _printable(", ".join(value) if isinstance(value, tuple) else str(value))


def _lines(key: str, value: Value) -> list[str]:
    """A cell that may be higher than one line."""
    if isinstance(value, Mapping) and value:
        is_quoted = key in _QUOTED
        return [f"{_printable(name)} {repr(text) if is_quoted else text}" for name, text in value.items()]
    if isinstance(value, str) and value:
        return [_printable(line.expandtabs()) for line in value.splitlines()]
    return [_cell(value)]


def _printable(line: str) -> str:
    """The line, with escapes in place of what a terminal would obey."""
    return line if line.isprintable() else repr(line)[1:-1]


def _plain(value: Value) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


def show(catalog: Catalog, what: str, paused: Collection[str] | None = None) -> Listing:
    """All that is declared of a kind, given by its plural.

    ``paused`` are queries of the run that is on; without a run, there is no state to show.
    """
    kind = next(kind for kind, plural in PLURALS.items() if plural == what)
    headings, row_of = _TABLES[kind]
    rows = tuple((name, *row_of(catalog, name)) for name in catalog.names(kind))
    if kind == "query" and paused is not None:
        headings = (*headings, "state")
        rows = tuple((*row, "paused" if row[0] in paused else "running") for row in rows)
    return Listing(f"SHOW {what.upper()}", (kind, *headings), rows)


def _stream_row(catalog: Catalog, name: str) -> tuple[Value, ...]:
    if name in catalog.derived:
        schema = selected_columns(catalog.derived[name], catalog)
        return "derived", len(schema.columns), TIMESTAMP, None, _read_by(catalog, name)
    stream = catalog.streams[name]
    return (
        stream.format,
        len(stream.columns.columns) if stream.columns else None,
        stream.timestamp,
        duration_text(stream.watermark_delay_us) if stream.timestamp else None,
        _read_by(catalog, name),
    )


def _read_by(catalog: Catalog, name: str) -> tuple[str, ...]:
    """The derived streams, views and queries that read a stream, relation or view."""
    return tuple(reader.name.text for reader in readers(name, catalog.readers))


def _relation_row(catalog: Catalog, name: str) -> tuple[Value, ...]:
    relation = catalog.relations[name]
    columns = len(relation.schema.columns) if relation.schema else None
    return relation.format, columns, _read_by(catalog, name)


def _view_row(catalog: Catalog, name: str) -> tuple[Value, ...]:
    view = catalog.views[name]
    columns = len(selected_columns(view, catalog).columns)
    return columns, _sources(catalog, view), _read_by(catalog, name)


def _query_row(catalog: Catalog, name: str) -> tuple[Value, ...]:
    query = catalog.queries[name]
    return _sources(catalog, query), _sink_format(query), _settings(query)


def _function_row(catalog: Catalog, name: str) -> tuple[Value, ...]:
    function = catalog.functions[name.lower()]
    placed = catalog.placed(name)
    pool = placed[1] if placed else None
    found = callers(name, catalog.readers)
    return function.returns, function.location, pool, tuple(caller.name.text for caller in found)


def _pool_row(catalog: Catalog, name: str) -> tuple[Value, ...]:
    return catalog.pools[name.lower()].slots, catalog.served_by(name)


_TABLES: dict[str, tuple[tuple[str, ...], Callable[[Catalog, str], tuple[Value, ...]]]] = {
    "stream": (("format", "columns", "timestamp", "watermark", "read_by"), _stream_row),
    "relation": (("format", "columns", "read_by"), _relation_row),
    "view": (("columns", "reads", "read_by"), _view_row),
    "query": (("reads", "into", "with"), _query_row),
    "function": (("returns", "location", "pool", "called_by"), _function_row),
    "pool": (("slots", "serves"), _pool_row),
}


def describe(catalog: Catalog, name: str, kind: str | None = None, span: Span | None = None) -> Description:
    """The properties of what has a name; the columns of a source are looked up if they are not declared.

    A ``kind`` distinguishes a function from something else of its name; ``span`` is the position of the name.
    """
    found = kind or _kind_of(catalog, name, span)
    declared = catalog.declared_name(found, name, span)
    if found == "stream" and declared in catalog.derived:
        properties = {"format": "derived", **_selected_properties(catalog, catalog.derived[declared])}
    elif found == "view":
        properties = _selected_properties(catalog, catalog.views[declared])
    elif found in ("stream", "relation"):
        properties = _source_properties(catalog, declared)
    elif found == "query":
        properties = _query_properties(catalog, declared)
    else:
        headings, row_of = _TABLES[found]
        properties = dict(zip(headings, row_of(catalog, declared), strict=True))
    written = f"{kind.upper()} {declared}" if kind else declared
    return Description(f"DESCRIBE {written}", {found: declared, **properties})


def _kind_of(catalog: Catalog, name: str, span: Span | None) -> str:
    kinds = catalog.kinds_of(name)
    if not kinds:
        known = [declared for kind in PLURALS for declared in catalog.names(kind)]
        raise QueryError(unknown_name("name", name, known), span)
    if len(kinds) > 1:
        choices = " or ".join(f"DESCRIBE {kind.upper()} {name}" for kind in kinds)
        raise QueryError(f"{name} is a {kinds[0]} and a {kinds[1]}; write {choices}", span)
    return kinds[0]


def _source_properties(catalog: Catalog, name: str) -> dict[str, Value]:
    source = catalog.find(name)
    assert source is not None and source.schema is not None
    columns = {column.name: column.type for column in source.schema.columns}
    properties: dict[str, Value] = {"format": source.format, "columns": columns}
    if isinstance(source, StreamDefinition):
        computed = {one.name: f"{one.type} AS ({_as_written(one)})" for one in source.computed}
        properties["columns"] = {**columns, **computed}
        if source.primary_key:
            properties["primary_key"] = source.primary_key
        properties["timestamp"] = source.timestamp or "on arrival"
        if source.timestamp:
            properties["watermark"] = duration_text(source.watermark_delay_us)
            properties["idle_after"] = duration_text(source.idle_after_us)
            properties["max_ahead"] = duration_text(source.max_ahead_us)
        if pool := catalog.pool_of_probe(name):
            properties["probed_on"] = pool
    elif source.refresh_us is not None:
        properties["refresh"] = duration_text(source.refresh_us)
    properties["options"] = _public(source.options)
    properties["read_by"] = _read_by(catalog, name)
    return properties


def _selected_properties(catalog: Catalog, stream: DeriveStream | CreateView) -> dict[str, Value]:
    columns = selected_columns(stream, catalog).columns
    timestamp = {} if is_stored_view(stream, catalog) else {"timestamp": TIMESTAMP}
    return {
        "columns": {column.name: column.type for column in columns},
        **timestamp,
        "reads": _sources(catalog, stream),
        "calls": _called(catalog, stream),
        "as": _written(stream),
        "read_by": _read_by(catalog, stream.name.text),
    }


def _as_written(column: ComputedColumn) -> str:
    span = column.value.span
    return " ".join(span.excerpt.split()) if span else column.value.text


def _query_properties(catalog: Catalog, name: str) -> dict[str, Value]:
    query = catalog.queries[name]
    columns = [item.name for item in optimize(bind(query, catalog)).branches[0].items]
    options = query.sink.options if query.sink else ()
    return {
        "columns": (TIMESTAMP, *columns),
        "reads": _sources(catalog, query),
        "calls": _called(catalog, query),
        "with": _settings(query),
        "as": _written(query),
        "into": _sink_format(query),
        "options": _public((option.key.text, option.value) for option in options),
    }


def _called(catalog: Catalog, query: Reader) -> tuple[str, ...]:
    return tuple(f.name for key, f in catalog.functions.items() if key in calls_of(query))


def _written(query: Reader) -> str:
    """Its SELECTs as they were written."""
    text = query.branches[0].span
    return cleandoc(Span(text.text, text.start, query.branches[-1].span.end, text.origin).excerpt)


def _sources(catalog: Catalog, query: Reader) -> tuple[str, ...]:
    """What a query reads, as declared; a name that is not, as written."""
    declared = {name.lower(): name for kind in _READ for name in catalog.names(kind)}
    return tuple(declared.get(name.lower(), name) for name in sources_of(query))


def _settings(query: CreateQuery) -> dict[str, str]:
    return {setting.key.text: setting.value for setting in query.settings}


def _sink_format(query: CreateQuery) -> str:
    return query.sink.format.text if query.sink else "memory"


def _public(options: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Options without passwords."""
    return {key: HIDDEN if is_secret(key, value) else value for key, value in options}

"""``--profile`` of ``explain``: figures written down in TOML, or those that a run has measured."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from headgate.cli.measured import read_measured
from headgate.errors import known_names
from headgate.model.measured import FILE_NAME
from headgate.planning.catalog import Catalog
from headgate.planning.cost import WindowSeconds
from headgate.planning.predicates import form_of
from headgate.planning.statistics import MeasuredStatistics, PredicateFigures, Statistics, Written
from headgate.simulator.table import Table
from headgate.simulator.workload_file import toml_content

_WINDOW = ("insert_seconds", "expire_seconds", "probe_seconds")
_PASSING = ("project_seconds", "relation_seconds", "aggregate_seconds")
_COST = ("join_seconds", "select_seconds", *_WINDOW, *_PASSING)
_STREAM_EXAMPLE = "[streams.NAME] with rate = 100"
_PREDICATE_EXAMPLE = '[predicates."A.a = B.a"] with selectivity = 0.5'


def read_statistics(path: Path, catalog: Catalog) -> Statistics:
    """The figures of a file, all of them of something that there is."""
    if path.is_dir():
        path = path / FILE_NAME
    if path.suffix.lower() == ".json":
        return MeasuredStatistics(read_measured(path))
    return written_in(_content(path), str(path), catalog)


def written_in(content: dict[str, Any], file: str, catalog: Catalog) -> Written:
    """The figures that TOML gives."""
    whole = Table(content, file)
    whole.only("streams", "predicates", "cost", "relations", "queries")
    own = _known(whole, "stream", _STREAM_EXAMPLE, catalog.streams, ("rate", "keys", *_WINDOW))
    predicates = _tables(whole, "predicates", _PREDICATE_EXAMPLE)
    by_query = _known(whole, "query", "[queries.NAME] with weight = 2", catalog.queries, ("weight",))
    by_relation = _known(whole, "relation", "[relations.NAME] with rows = 1000", catalog.relations, ("rows",))
    cost = Table(content.get("cost", {}), file, "cost")
    cost.only(*_COST)
    join = _join(cost)
    return Written(
        rates={name: table.number("rate") for name, table in own.items() if "rate" in table},
        predicates={form_of(text): _predicate(table) for text, table in predicates.items()},
        join=join,
        windows={
            name: _window(table, join or WindowSeconds())
            for name, table in own.items()
            if any(key in table for key in _WINDOW)
        },
        select_seconds=cost.number("select_seconds", 0.0),
        passing={key.removesuffix("_seconds"): cost.number(key, 0.0) for key in _PASSING},
        partition_keys={name: table.number("keys") for name, table in own.items() if "keys" in table},
        relation_rows={name: table.number("rows") for name, table in by_relation.items()},
        weights={name: table.number("weight", 1.0) for name, table in by_query.items()},
    )


def _known(
    whole: Table, kind: str, example: str, known: Collection[str], keys: Sequence[str]
) -> dict[str, Table]:
    """The tables of streams, relations or queries, by the names that these are declared with."""
    plural = "queries" if kind == "query" else f"{kind}s"
    names = {name.lower(): name for name in known}
    found = {}
    for name, table in _tables(whole, plural, example).items():
        if name.lower() not in names:
            raise whole.error(f"{plural}.{name}", f"is no {kind}; known: {known_names(list(known))}")
        table.only(*keys)
        found[names[name.lower()]] = table
    return found


def predicate_texts(path: Path) -> list[str]:
    """The predicates that a file in TOML has figures of, as they are written."""
    if path.is_dir() or path.suffix.lower() == ".json":
        return []
    return list(_content(path).get("predicates", {}))


def _tables(whole: Table, key: str, example: str) -> dict[str, Table]:
    return whole.tables(key, example) if key in whole else {}


def _predicate(table: Table) -> PredicateFigures:
    table.only("selectivity", "seconds")
    selectivity = table.number("selectivity")
    if selectivity > 1:
        raise table.error("selectivity", f"= {selectivity:g} is out of range; write a share from 0 to 1")
    return PredicateFigures(selectivity, table.number("seconds", None))


def _join(cost: Table) -> WindowSeconds | None:
    parts = [key for key in _WINDOW if key in cost]
    if "join_seconds" not in cost:
        return _window(cost, WindowSeconds()) if parts else None
    if parts:
        raise cost.error("join_seconds", f"is the sum of {', '.join(_WINDOW)}; keep one or the others")
    return WindowSeconds(probe_seconds=cost.number("join_seconds"))


def _window(table: Table, default: WindowSeconds) -> WindowSeconds:
    return WindowSeconds(
        table.number("insert_seconds", default.insert_seconds),
        table.number("expire_seconds", default.expire_seconds),
        table.number("probe_seconds", default.probe_seconds),
    )


def _content(path: Path) -> dict[str, Any]:
    return toml_content(path, "a profile (.toml or .json)", "; headgate profile measures what it would say")

"""Statistics that users write by hand, in TOML."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, ClassVar, TypeVar

from pydantic import model_validator

from headgate.errors import SetupError
from headgate.formats.document import (
    REQUIRED,
    NamedTables,
    Section,
    checked,
    naming,
    path_of,
    problem,
    read_toml,
    unknown,
)
from headgate.formats.quantity import RATE, SECONDS, SHARE, Quantity
from headgate.planning.catalog import Catalog
from headgate.planning.join_order.problem import WindowSeconds
from headgate.planning.plan_statistics import PredicateStatistics, WrittenStatistics, form_of

_ROWS = Quantity("rows", 0, 1e12)
_KEYS = Quantity("keys", 1, 1e12)
_WEIGHT = Quantity("", 0, 1e6)
_Seconds = Annotated[float, SECONDS]
_Table = TypeVar("_Table", bound=Section)


class _Window(Section):
    """What windows of a join cost; by default as others do."""

    insert_seconds: _Seconds | None = None
    expire_seconds: _Seconds | None = None
    probe_seconds: _Seconds | None = None

    def seconds(self, default: WindowSeconds) -> WindowSeconds | None:
        """None if nothing is given."""
        own = {key: getattr(self, key) for key in _Window.model_fields}
        if all(value is None for value in own.values()):
            return None
        return WindowSeconds(
            **{k: getattr(default, k) if value is None else value for k, value in own.items()}
        )


class _Stream(_Window):
    example: ClassVar[str] = "[streams.NAME] with rate = 100"
    rate: Annotated[float, Quantity(RATE.unit, 0, RATE.most)] | None = None
    keys: Annotated[float, _KEYS] | None = None


class _Predicate(Section):
    example: ClassVar[str] = '[predicates."A.a = B.a"] with selectivity = 0.5'
    selectivity: Annotated[float, SHARE] = REQUIRED
    seconds: _Seconds | None = None
    rows: Annotated[float, _ROWS] = 1.0
    """Of a call that gives rows, such as ``explode(tags)``: how many for each tuple that has any."""


class _Query(Section):
    example: ClassVar[str] = "[queries.NAME] with weight = 2"
    weight: Annotated[float, _WEIGHT] = 1.0


class _Relation(Section):
    example: ClassVar[str] = "[relations.NAME] with rows = 1000"
    rows: Annotated[float, _ROWS] = REQUIRED


class _Cost(_Window):
    example: ClassVar[str] = "[cost] with join_seconds = 1e-5"
    join_seconds: _Seconds | None = None
    select_seconds: _Seconds = 0.0
    project_seconds: _Seconds = 0.0
    relation_seconds: _Seconds = 0.0
    aggregate_seconds: _Seconds = 0.0

    @model_validator(mode="after")
    def _check_together(self) -> _Cost:
        if self.join_seconds is not None and self.seconds(WindowSeconds()):
            parts = ", ".join(_Window.model_fields)
            raise problem(f"is the sum of {parts}; keep one or the others", "join_seconds")
        return self

    @property
    def join(self) -> WindowSeconds | None:
        if self.join_seconds is None:
            return self.seconds(WindowSeconds())
        return WindowSeconds(probe_seconds=self.join_seconds)


class _Statistics(Section):
    streams: Annotated[dict[str, _Stream], NamedTables()] | None = None
    predicates: Annotated[dict[str, _Predicate], NamedTables()] | None = None
    cost: _Cost = _Cost()
    relations: Annotated[dict[str, _Relation], NamedTables()] | None = None
    queries: Annotated[dict[str, _Query], NamedTables()] | None = None


def written_statistics(path: Path, catalog: Catalog) -> tuple[WrittenStatistics, Collection[str]]:
    """Statistics of a file, and the predicates as it writes them; the catalog must have all names."""
    content = read_toml(path, "a profile (.toml or .json)", "; headgate profile writes one")
    whole: _Statistics = checked(_Statistics, content, str(path))
    with naming(str(path)):
        streams = _declared("streams", whole.streams, catalog.streams)
        queries = _declared("queries", whole.queries, catalog.queries)
        relations = _declared("relations", whole.relations, catalog.relations)
    cost, predicates = whole.cost, whole.predicates or {}
    join = cost.join
    windows = {name: own.seconds(join or WindowSeconds()) for name, own in streams.items()}
    statistics = WrittenStatistics(
        rates={name: own.rate for name, own in streams.items() if own.rate is not None},
        predicates={
            form_of(text): PredicateStatistics(own.selectivity * own.rows, own.seconds)
            for text, own in predicates.items()
        },
        join=join,
        windows={name: own for name, own in windows.items() if own is not None},
        select_seconds=cost.select_seconds,
        passing={
            "project": cost.project_seconds,
            "relation": cost.relation_seconds,
            "aggregate": cost.aggregate_seconds,
        },
        partition_keys={name: own.keys for name, own in streams.items() if own.keys is not None},
        relation_rows={name: own.rows for name, own in relations.items()},
        weights={name: own.weight for name, own in queries.items()},
    )
    return statistics, predicates


def _declared(
    plural: str, tables: Mapping[str, _Table] | None, declared: Collection[str]
) -> Mapping[str, _Table]:
    """The tables by the names that are declared, which are written in any case."""
    names, found = {name.lower(): name for name in declared}, {}
    for name, table in (tables or {}).items():
        if name.lower() not in names:
            raise SetupError(f"{path_of(plural, name)} {unknown(name, 'declared', declared)}")
        if names[name.lower()] in found:
            raise SetupError(f"{path_of(plural, name)} occurs twice, in different case; keep one of them")
        found[names[name.lower()]] = table
    return found

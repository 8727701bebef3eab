"""A small catalog and the way of a query text through planning, for all tests of planning."""

from __future__ import annotations

from functools import cache

from headgate.cql.parser import parse
from headgate.cql.statement import Statement
from headgate.planning.catalog import Catalog
from headgate.planning.logical import LogicalPlan
from headgate.planning.queries import bind

DECLARATIONS = """
CREATE STREAM packets (ts TIMESTAMP, src STRING, dst STRING, bytes INT, info STRUCT<port: INT, end: INT>)
  FROM kafka OPTIONS (subscribe 'packets', timestamp 'ts', watermark '2 s');
CREATE STREAM flows (seen TIMESTAMP, src STRING, flow INT) FROM kafka OPTIONS (timestamp 'seen');
CREATE STREAM clicks (ts INT, url STRING) FROM socket;
CREATE RELATION hosts (ip STRING, owner STRING) FROM parquet OPTIONS (path 'hosts/');
CREATE RELATION owners (owner STRING, country STRING) FROM parquet OPTIONS (path 'owners/');
"""


@cache
def parsed(text: str, origin: str) -> tuple[Statement, ...]:
    """The statements of a text, which may be empty."""
    return tuple(parse(text, origin)) if text else ()


def catalog_of(text: str = "", declarations: str = DECLARATIONS) -> Catalog:
    """A catalog with the usual sources and what the text declares."""
    catalog = Catalog(known_sinks=("memory", "console", "parquet", "noop"))
    for statement in (*parsed(declarations, "declarations"), *parsed(text, "case")):
        catalog.declare(statement)
    return catalog


def bound(text: str, catalog: Catalog | None = None) -> list[LogicalPlan]:
    """The plans of all queries in the text."""
    catalog = catalog or catalog_of(text)
    return [bind(query, catalog) for query in catalog.queries.values()]


def bound_select(select: str) -> LogicalPlan:
    """The plan of one SELECT."""
    [plan] = bound(f"CREATE QUERY q AS {select}")
    return plan

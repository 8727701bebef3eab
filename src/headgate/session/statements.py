"""Statements one after the other: what they declare and set, and the answers of SHOW and DESCRIBE."""

from __future__ import annotations

from collections.abc import Collection

from headgate.cql.statement import Describe, PauseQuery, ResumeQuery, SetOption, Show, Statement
from headgate.errors import QueryError
from headgate.planning.catalog import Catalog
from headgate.planning.listing import Answer, describe, show
from headgate.session.run_options import RunOptions


def perform(
    statement: Statement, catalog: Catalog, options: RunOptions, paused: Collection[str] | None = None
) -> Answer | None:
    """Execute a statement; return the answer, if it is a question.

    ``paused`` are queries of the run that is on.
    """
    if isinstance(statement, Show):
        return options.listing() if statement.what == "settings" else show(catalog, statement.what, paused)
    if isinstance(statement, Describe):
        return describe(catalog, statement.name.text, statement.kind, statement.name.span)
    if isinstance(statement, (PauseQuery, ResumeQuery)):
        raise QueryError("only queries of a run can be paused; start one first", statement.name.span)
    if isinstance(statement, SetOption):
        options.set(statement)
    else:
        catalog.declare(statement)
    return None

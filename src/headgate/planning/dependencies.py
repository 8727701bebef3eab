"""What queries depend on: the sources that they read and the functions that they call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from sqlglot import exp

from headgate.cql.statement import CreateQuery, ScalarExpression, Select, SelectItem
from headgate.errors import QueryError
from headgate.model.expression import Expression


def sources_of(query: CreateQuery) -> tuple[str, ...]:
    """The streams and relations in FROM, each once, as the query spells them."""
    written = (item.source.text for select in query.branches for item in select.sources)
    return tuple({name.lower(): name for name in written}.values())


def calls_of(query: CreateQuery) -> frozenset[str]:
    """The functions that it calls, in lower case."""
    trees = [expression.tree for select in query.branches for expression in _expressions(select)]
    return frozenset(name for tree in (*trees, *_utilities(query)) for name in Expression(tree).functions)


def readers(source: str, queries: Iterable[CreateQuery]) -> tuple[str, ...]:
    """The queries that read a stream or relation."""
    wanted = source.lower()
    return tuple(q.name.text for q in queries if wanted in {name.lower() for name in sources_of(q)})


def callers(function: str, queries: Iterable[CreateQuery]) -> tuple[str, ...]:
    """The queries that call a function."""
    return tuple(query.name.text for query in queries if function.lower() in calls_of(query))


def _expressions(select: Select) -> Iterator[ScalarExpression]:
    yield from (item.expression for item in select.items if isinstance(item, SelectItem))
    yield from (*select.conjuncts, *select.group_by)
    if select.having is not None:
        yield select.having


def _utilities(query: CreateQuery) -> Iterator[exp.Expr]:
    for setting in query.settings:
        if setting.key.text.lower() == "utility":
            # one that cannot be read is reported where the query is planned
            with suppress(QueryError):
                yield Expression.parse(setting.value, setting.span).tree

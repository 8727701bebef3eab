"""What queries depend on: the sources that they read and the functions that they call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from sqlglot import exp

from headgate.cql.statement import CreateQuery, CreateView, DeriveStream
from headgate.cql.syntax import ScalarExpression, Select, SelectItem
from headgate.errors import QueryError
from headgate.model.expression import Expression

Reader = CreateQuery | DeriveStream | CreateView


def sources_of(query: Reader) -> tuple[str, ...]:
    """The streams and relations in FROM, each once, as the query spells them."""
    items = (item for select in _selects(query.branches) for item in select.sources)
    named = (item.source.text for item in items if not item.branches and item.generator is None)
    return tuple({name.lower(): name for name in named}.values())


def calls_of(query: Reader) -> frozenset[str]:
    """The functions that it calls, in lower case."""
    trees = [one.tree for select in _selects(query.branches) for one in _expressions(select)]
    return frozenset(name for tree in (*trees, *_utilities(query)) for name in Expression(tree).functions)


def readers(source: str, queries: Iterable[Reader]) -> tuple[Reader, ...]:
    """The queries, views and derived streams that read a stream, relation or view."""
    wanted = source.lower()
    return tuple(query for query in queries if wanted in {name.lower() for name in sources_of(query)})


def callers(function: str, queries: Iterable[Reader]) -> tuple[Reader, ...]:
    """The queries, views and derived streams that call a function."""
    return tuple(query for query in queries if function.lower() in calls_of(query))


def _selects(branches: Iterable[Select]) -> Iterator[Select]:
    """SELECTs, and those of their subqueries."""
    for select in branches:
        yield select
        for item in select.sources:
            yield from _selects(item.branches)


def _expressions(select: Select) -> Iterator[ScalarExpression]:
    yield from (item.expression for item in select.items if isinstance(item, SelectItem))
    yield from (*select.conjuncts, *select.group_by, *select.distinct_on)
    yield from (condition for item in select.sources for condition in item.on)
    tests = [item.test.compared for item in select.sources if item.test is not None]
    yield from (one for compared in tests if compared is not None for one in compared)
    windows = (item.window for item in select.sources if item.window is not None)
    yield from (window.until for window in windows if window.until is not None)
    yield from (item.generator.argument for item in select.sources if item.generator is not None)
    if select.having is not None:
        yield select.having
    if select.ranking is not None:
        yield from (*select.ranking.keys, *(key.expression for key in select.ranking.order))


def _utilities(query: Reader) -> Iterator[exp.Expr]:
    for setting in query.settings if isinstance(query, CreateQuery) else ():
        if setting.key.text.lower() == "utility":
            # one that cannot be read is reported where the query is planned
            with suppress(QueryError):
                yield Expression.parse(setting.value, setting.span).tree

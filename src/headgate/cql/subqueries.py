"""Subqueries as conditions of WHERE: ``x IN (SELECT ...)``, ``EXISTS (SELECT ...)`` and their negations.

They only decide which tuples pass, and so are semi and anti joins with the one source that they select from.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from headgate.cql.expressions import scalar_without_aggregates
from headgate.cql.syntax import FromItem, JoinKind, Name, Select, SelectItem, SubqueryTest
from headgate.cql.tokens import Token, outside_brackets, partners
from headgate.errors import QueryError, Span

_BETWEEN_CONDITIONS = ("AND", "OR")


@dataclass(frozen=True)
class WrittenTest:
    """A condition that consists of a subquery: ``opener`` is its bracket, ``value`` what IN looks for."""

    word: str
    is_negated: bool
    value: Sequence[Token]
    opener: Token

    @property
    def words(self) -> str:
        return f"NOT {self.word}" if self.is_negated else self.word

    @property
    def span(self) -> Span:
        return self.opener.span


def find_test(term: Sequence[Token]) -> WrittenTest | None:
    """The subquery that a term of WHERE consists of; None if it is another condition."""
    pairs, is_negated = partners(term), False
    begin, end = 0, len(term)
    while begin < end:
        if pairs.get(begin) == end - 1:
            begin, end = begin + 1, end - 1
        elif term[begin].word == "NOT":
            begin, is_negated = begin + 1, not is_negated
        else:
            break
    opener = next((first - begin for first, last in pairs.items() if last == end - 1), 0)
    term = term[begin:end]
    if opener <= 0 or term[opener + 1].word not in ("SELECT", "WITH"):
        return None
    before = term[:opener]
    if [token.word for token in before] == ["EXISTS"]:
        return WrittenTest("EXISTS", is_negated, (), term[opener])
    value = before[:-1]
    if before[-1].word != "IN" or any(value[i].word in _BETWEEN_CONDITIONS for i in outside_brackets(value)):
        return None
    if value and value[-1].word == "NOT":
        is_negated, value = not is_negated, value[:-1]
    return WrittenTest("IN", is_negated, value, term[opener]) if value else None


def as_join(test: WrittenTest, branches: tuple[Select, ...], taken: Collection[str]) -> FromItem:
    """The test as an item of FROM; ``taken`` are the aliases, in lower case, that others have."""
    select = _plain(test, branches)
    [source] = select.sources
    compared = None
    if test.word == "IN":
        value = scalar_without_aggregates(test.value, "WHERE")
        compared = value, _only_item(test, select).expression
    return replace(
        source,
        alias=_free_alias(source.alias, taken),
        join=JoinKind.ANTI if test.is_negated else JoinKind.SEMI,
        on=select.conjuncts,
        test=SubqueryTest(test.words, source.alias.text, compared),
    )


def _plain(test: WrittenTest, branches: tuple[Select, ...]) -> Select:
    """The one SELECT; a QueryError if it is more than the rows of one source."""
    [first, *others] = branches
    if others or len(first.sources) > 1:
        found = "joins or other subqueries" if len(first.sources) > 1 else "UNION ALL"
        message = f"a subquery of {test.words} reads one stream or relation, without {found}"
        raise QueryError(f"{message}; write a condition for each, or a derived stream", first.span)
    if first.is_aggregate:
        message = f"a subquery of {test.words} has no aggregates or GROUP BY"
        raise QueryError(f"{message}; select columns, or read a derived stream", first.span)
    return first


def _only_item(test: WrittenTest, select: Select) -> SelectItem:
    items = [item for item in select.items if isinstance(item, SelectItem)]
    if len(items) != 1 or len(select.items) != 1:
        message = f"{test.words} compares with one column; select one, or write EXISTS"
        raise QueryError(message, select.span)
    return items[0]


def _free_alias(alias: Name, taken: Collection[str]) -> Name:
    text, number = alias.text, 1
    while text.lower() in taken:
        number += 1
        text = f"{alias.text}_{number}"
    return Name(text, alias.span)

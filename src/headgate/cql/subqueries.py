"""Subqueries in expressions.

Conditions of WHERE, ``x IN (SELECT ...)``, ``EXISTS (SELECT ...)`` and their negations, only decide which
tuples pass, and so are semi and anti joins with the one source that they select from. A subquery in place of
a value is a cross join with its one row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot.tokens import Token as SqlglotToken
from sqlglot.tokens import TokenType

from headgate.cql.expressions import scalar_without_aggregates
from headgate.cql.syntax import FromItem, JoinKind, Name, Select, SelectItem, SubqueryTest
from headgate.cql.tokens import Token, outside_brackets, partners
from headgate.errors import QueryError, Span

_BETWEEN_CONDITIONS = ("AND", "OR")
# words before a bracket that make the SELECT in it a list of values
_BEFORE_LISTS = ("IN", "EXISTS", "ANY", "SOME", "ALL")
_SELECTS = ("SELECT", "WITH")


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
    if opener <= 0 or term[opener + 1].word not in _SELECTS:
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


def find_values(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """The brackets around the subqueries that stand for values in an expression."""
    end = -1
    for opener, closer in sorted(partners(tokens).items()):
        before = tokens[opener - 1].word if opener else ""
        is_subquery = tokens[opener].word == "(" and tokens[opener + 1].word in _SELECTS
        if opener > end and is_subquery:
            end = closer
            if before not in _BEFORE_LISTS:
                yield opener, closer


def as_source(branches: tuple[Select, ...], alias: Name, column: Name) -> FromItem:
    """A subquery that stands for a value as an item of FROM, whose one column has this name."""
    first = branches[0]
    has_one_row = len(branches) == 1 and first.aggregates and not first.group_by
    if not has_one_row or first.having is not None or first.ranking is not None:
        message = "a subquery in place of a value has exactly one row: one SELECT of an aggregate"
        raise QueryError(f"{message}, without GROUP BY, HAVING and LIMIT, such as MAX(x)", first.span)
    items = [item for item in first.items if isinstance(item, SelectItem)]
    if len(items) != 1 or len(first.items) != 1:
        message = "a subquery in place of a value has one column; write a subquery for each"
        raise QueryError(message, first.span)
    select = replace(first, items=(replace(items[0], alias=column),))
    return FromItem(alias, None, alias, (select,), is_value=True)


def check_alone(values: Iterable[FromItem], around: Sequence[FromItem]) -> None:
    """Reject columns of the sources around a subquery that stands for a value."""
    for select in (select for value in values for select in value.branches):
        own = {one.alias.text.lower() for one in select.sources}
        others = {one.alias.text.lower() for one in around} - own
        items = [item.expression for item in select.items if isinstance(item, SelectItem)]
        for reference in (reference for one in (*items, *select.conjuncts) for reference in one.columns):
            if reference.qualifier is not None and reference.qualifier.lower() in others:
                outside = reference.span.excerpt
                message = f"a subquery in place of a value does not see {outside}, outside of it"
                hint = "join it, LEFT JOIN (SELECT k, MAX(x) AS m FROM r GROUP BY k) AS r ON r.k = s.k"
                raise QueryError(f"{message}; {hint}", reference.span)


def column_in_place(written: Sequence[Token], alias: str, column: str) -> list[Token]:
    """``alias.column`` in place of a subquery, of which it takes the position in the text."""
    first, last = written[0], written[-1]
    part = first.parts[0]

    def token(kind: TokenType, text: str, word: str, start: int, end: int) -> Token:
        parts = (SqlglotToken(kind, text, part.line, part.col, start, end - 1),)
        return Token(kind, text, word, replace(first.span, start=start, end=end), parts)

    start, end = first.span.start, last.span.end
    return [
        token(TokenType.IDENTIFIER, alias, "", start, start + 1),
        token(TokenType.DOT, ".", ".", start + 1, start + 2),
        token(TokenType.IDENTIFIER, column, "", start + 2, end),
    ]

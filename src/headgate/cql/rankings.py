"""Rankings in SELECT: QUALIFY, ORDER BY with LIMIT, ranks in the select list, and DISTINCT ON."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from headgate.cql.expressions import item_at, scalar, scalar_without_aggregates
from headgate.cql.syntax import (
    FromItem,
    Name,
    RankingClause,
    RankItem,
    ScalarExpression,
    SelectItem,
    SortItem,
    Star,
)
from headgate.cql.tokens import Cursor, Token, one_line
from headgate.errors import QueryError, Span

NO_ORDER = "is not supported: results never end, so they have no order; sort where they are read"
_NO_LIMIT = (
    "LIMIT takes the first rows of an order; write FROM s [TUMBLE 10 SECONDS] ORDER BY x LIMIT 10, "
    "without the window for a stored relation"
)
_RANKS = ("ROW_NUMBER", "RANK", "DENSE_RANK")
# what is added to the number that a rank is compared with, for the largest rank that passes
_RANK_LIMITS = {"<=": 0, "<": -1, "=": 0}
_LIMITS: dict[type[exp.Expr], int] = {exp.LTE: 0, exp.LT: -1, exp.EQ: 0}
_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {exp.GTE: exp.LTE, exp.GT: exp.LT, exp.EQ: exp.EQ}


class RankingReader(Cursor):
    """Reads the clauses of a SELECT that take the first rows."""

    def __init__(self, text: str, origin: str, aggregates: Collection[str] = ()) -> None:
        super().__init__(text, origin, aggregates)
        self.ranking: RankingClause | None = None
        """The rank in the select list that is being read."""

    def at_clause(self) -> bool:
        """Whether a clause begins here, rather than a part of an expression."""
        raise NotImplementedError

    def expression(self, what: str) -> list[Token]:
        """The tokens of an expression, up to a comma, a closing bracket or the next clause."""
        raise NotImplementedError

    def distinct_on(self) -> tuple[ScalarExpression, ...]:
        self.expect("ON")
        self.expect("(")
        keys = self.several(
            lambda: scalar_without_aggregates(self.expression("a column in DISTINCT ON (...)"), "DISTINCT ON")
        )
        self.expect(")", " after the columns of DISTINCT ON")
        return keys

    def limited(
        self, ranking: RankingClause | None, items: Sequence[SelectItem | RankItem | Star]
    ) -> RankingClause | None:
        """The ranking of QUALIFY, or of ORDER BY and LIMIT."""
        span = self.span
        if self.accept("QUALIFY"):
            found = self._qualified(ranking, items)
            if self.at("ORDER BY"):
                raise self.fail("QUALIFY has the order already; leave ORDER BY out")
            return found
        if self.accept("ORDER BY"):
            if ranking is not None:
                raise QueryError("there is one ranking to a SELECT; write QUALIFY instead", span)
            order = tuple(_meant(key, items) for key in self.several(self._sort_item))
            rows = self._limit(span)
            function = "RANK" if self.accept("WITH", "TIES") else "ROW_NUMBER"
            return RankingClause(function, (), order, rows, self.since(span))
        if self.at("LIMIT") and self.at_clause():
            raise self.fail(_NO_LIMIT)
        return ranking

    def _limit(self, order: Span) -> int:
        """``LIMIT n``, or ``FETCH FIRST n ROWS ONLY`` up to what may be WITH TIES."""
        if self.accept("LIMIT"):
            return self._count("LIMIT")
        if not self.accept("FETCH"):
            raise QueryError(f"ORDER BY without LIMIT {NO_ORDER}", order)
        self.take()
        rows = 1 if self.word() in ("ROW", "ROWS") else self._count("FETCH FIRST")
        if not self.accept("ROWS") and not self.accept("ROW"):
            raise self.expected("ROWS ONLY or ROWS WITH TIES")
        if not self.at("WITH", "TIES"):
            self.expect("ONLY", " or WITH TIES")
        return rows

    def _qualified(
        self, ranking: RankingClause | None, items: Sequence[SelectItem | RankItem | Star]
    ) -> RankingClause:
        span = self.span
        if self.at_rank():
            if ranking is not None:
                raise self.fail("there is one ranking to a SELECT; write QUALIFY with its name")
            ranking = self._rank()
        else:
            name = self.name("ROW_NUMBER() OVER (...), RANK() OVER (...) or the name of one")
            ranks = [item.name.text for item in items if isinstance(item, RankItem)]
            if ranking is None or name.text.lower() not in {rank.lower() for rank in ranks}:
                message = f"{one_line(name.text)} is not a rank in the select list"
                example = "QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC) <= 10"
                raise QueryError(f"{message}; write {example}", name.span)
        word = self.word()
        if word not in _RANK_LIMITS:
            raise self.expected("<= and a number after the rank")
        self.take()
        number = self.span
        rows = self._count("the comparison") + _RANK_LIMITS[word]
        if rows < 1 or (word == "=" and rows != 1):
            message = "the first rows are kept: a rank is compared by <= with 1 or more, or by = with 1"
            raise QueryError(message, number)
        if self.at("AND") or self.at("OR"):
            raise self.fail("QUALIFY limits one rank; write other conditions in WHERE around a subquery")
        return replace(ranking, rows=rows, span=self.since(span))

    def at_rank(self) -> bool:
        return self.word() in _RANKS and self.at(self.word(), "(", ")", "OVER")

    def _rank(self) -> RankingClause:
        """``ROW_NUMBER() OVER (PARTITION BY ... ORDER BY ...)``."""
        first = self.span
        function = self.take().word
        for _ in range(3):
            self.take()
        self.expect("(", " after OVER")
        keys = self.several(lambda: self._ranked_by("PARTITION BY")) if self.accept("PARTITION BY") else ()
        self.expect("ORDER BY", f" inside {function}() OVER (...)")
        order = self.several(self._sort_item)
        self.expect(")", " after ORDER BY")
        return RankingClause(function, keys, order, None, self.since(first))

    def _ranked_by(self, clause: str) -> ScalarExpression:
        return scalar(self.expression(f"an expression after {clause}"))

    def _sort_item(self) -> SortItem:
        tokens = self.expression("an expression after ORDER BY")
        words = [token.word for token in tokens]
        nulls = ""
        if words[-2:] in (["NULLS", "FIRST"], ["NULLS", "LAST"]):
            nulls, tokens, words = words[-1], tokens[:-2], words[:-2]
        is_descending = words[-1:] == ["DESC"]
        if words[-1:] in (["DESC"], ["ASC"]):
            tokens = tokens[:-1]
        if not tokens:
            raise self.expected("an expression after ORDER BY")
        return SortItem(scalar(tokens), is_descending, nulls)

    def _count(self, what: str) -> int:
        token = self.current
        if token is None or not token.value.isdecimal() or not 0 < int(token.value[:12]) < 10**9:
            raise self.expected(f"a number of rows of 1 or more after {what}")
        return int(self.take().value)

    def rank_item(self) -> RankItem:
        if self.ranking is not None:
            raise self.fail("there is one ranking to a SELECT; write another as a subquery")
        self.ranking = self._rank()
        if self.word() in (",", "FROM"):
            return RankItem(Name(self.ranking.function.lower(), self.ranking.span))
        self.accept("AS")
        return RankItem(self.name("a name for the rank, as in ROW_NUMBER() OVER (...) AS place"))


def _meant(key: SortItem, items: Sequence[SelectItem | RankItem | Star]) -> SortItem:
    """A key of ORDER BY, which may be the position of a select item."""
    is_position = key.expression.text.isdecimal()
    return replace(key, expression=item_at(key.expression, items, "ORDER BY")) if is_position else key


def with_limits_of_ranks(
    sources: tuple[FromItem, ...], conditions: list[ScalarExpression]
) -> tuple[tuple[FromItem, ...], list[ScalarExpression]]:
    """``WHERE place <= 10`` over a subquery that selects a rank, for QUALIFY in the subquery."""
    changed = list(sources)
    for number, source in enumerate(sources):
        inner = source.branches[0] if len(source.branches) == 1 else None
        if inner is None or inner.ranking is None or inner.ranking.rows is not None:
            continue
        names = {item.name.text.lower() for item in inner.items if isinstance(item, RankItem)}
        found = [(term, limit) for term in conditions if (limit := _rank_limit(term, names)) is not None]
        if not found:
            message = "a rank is limited, so that only the first rows are kept; write WHERE place <= 10"
            raise QueryError(f"{message} around the subquery, or QUALIFY in it", inner.ranking.span)
        term, limit = found[0]
        if limit.is_whole:
            conditions = [one for one in conditions if one is not term]
        limited = replace(inner, ranking=replace(inner.ranking, rows=limit.rows))
        changed[number] = replace(source, branches=(limited,))
    return tuple(changed), conditions


@dataclass(frozen=True)
class _RankLimit:
    """The largest rank that passes a condition, and whether all smaller ones do."""

    rows: int
    is_whole: bool


def _rank_limit(term: ScalarExpression, names: set[str]) -> _RankLimit | None:
    """The limit that a condition sets; None if it sets none to a rank."""
    tree = term.tree.unnest()
    if isinstance(tree, exp.Between):
        low, high = _number(tree.args["low"]), _number(tree.args["high"])
        is_limit = _is_rank(tree.this, names) and low is not None and high is not None
        rows, is_whole = (high or 0) if is_limit else 0, (low or 0) <= 1
    else:
        rank, number = tree.args.get("this"), tree.args.get("expression")
        kind = type(tree)
        if kind in _MIRRORED and not _is_rank(rank, names):
            rank, number, kind = number, rank, _MIRRORED[kind]
        largest = _number(number) if kind in _LIMITS and _is_rank(rank, names) else None
        rows = 0 if largest is None else largest + _LIMITS[kind]
        is_whole = kind is not exp.EQ or rows == 1
    return _RankLimit(rows, is_whole) if rows >= 1 else None


def _is_rank(tree: object, names: set[str]) -> bool:
    return isinstance(tree, exp.Column) and tree.name.lower() in names


def _number(tree: object) -> int | None:
    return int(tree.name) if isinstance(tree, exp.Literal) and tree.is_int else None

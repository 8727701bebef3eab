"""SELECT: items, sources with windows, conditions, grouping."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import count

from sqlglot import exp
from sqlglot.tokens import TokenType

from headgate.cql import syntax
from headgate.cql.expressions import parse_tree, scalar, scalar_without_aggregates, terms_of
from headgate.cql.from_reader import FromReader, check_number
from headgate.cql.generators import check_without_groups, columns_of
from headgate.cql.grouping_sets import (
    Groupings,
    GroupingSetReader,
    check_windows_of_sets,
    selects_of,
)
from headgate.cql.rankings import NO_ORDER, RankingReader, with_limits_of_ranks
from headgate.cql.subqueries import as_join, as_source, check_alone, column_in_place, find_test, find_values
from headgate.cql.syntax import FromItem, Name, ScalarExpression, Select, SelectItem
from headgate.cql.tokens import Token, one_line, span_of
from headgate.cql.windows import meant_windows, naming_window, shown_every, with_windows_of_keys
from headgate.errors import QueryError

_EMISSIONS = tuple(kind.value for kind in syntax.Emission)
_JOIN_WORDS = ("JOIN", "OUTER", "INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI")
_FIRST_ROWS = "ORDER BY x DESC LIMIT 10"
_NO_UNION = "UNION would have to remember all rows to drop duplicates; write UNION ALL"
_DISTINCT_UNION = "SELECT DISTINCT a FROM (SELECT ... UNION ALL SELECT ...) AS x [RANGE 1 HOUR]"
_WINDOW_OF_KSQL = "write s [TUMBLE 30 SECONDS], [HOP 30 SECONDS EVERY 10 SECONDS] or [SESSION 30 SECONDS]"
_PATTERN = "join a tuple with the one before, FROM s [PARTITION BY k ROWS 2] AS a, s [NOW] AS b"
_NO_INTERSECT = "is not supported; write WHERE EXISTS (SELECT ... WHERE ...) with equal columns"
_NO_EXCEPT = "is not supported; write WHERE NOT EXISTS (SELECT ... WHERE ...) with equal columns"
# words that begin a clause, and why it is not supported; some are names or functions too, such as LEFT(s, 2),
# unless followed by one of these
_CLAUSES: dict[str, tuple[tuple[str, ...], str]] = {
    **dict.fromkeys(
        ("WHERE", "GROUP BY", "HAVING", "QUALIFY", "ORDER BY", "UNION", "INTO", "JOIN", "ON"), ((), "")
    ),
    **dict.fromkeys(("SORT BY", "CLUSTER BY", "DISTRIBUTE BY"), ((), NO_ORDER)),
    **dict.fromkeys(("LEFT", "RIGHT", "FULL", "SEMI", "ANTI"), (_JOIN_WORDS, "")),
    "NATURAL": (_JOIN_WORDS, "JOIN is not supported; write JOIN ... USING (column)"),
    "USING": (("(",), ""),
    "INTERSECT": (("SELECT", "ALL", "DISTINCT", "("), _NO_INTERSECT),
    **dict.fromkeys(("EXCEPT", "MINUS"), (("SELECT", "ALL", "DISTINCT"), _NO_EXCEPT)),
    "INNER": (("JOIN",), ""),
    "CROSS": (("JOIN",), ""),
    "FETCH": (("FIRST", "NEXT"), ""),
    "WITH": (("ROLLUP", "CUBE"), ""),
    "GROUPING SETS": (("(",), ""),
    "EMIT": (("CHANGES", "FINAL"), "is not needed, as results are emitted as they come; leave it out"),
    "WINDOW": (
        ("TUMBLING", "HOPPING", "SESSION"),
        f"stands behind the stream; {_WINDOW_OF_KSQL}",
    ),
    "WITHIN": ((), "is a window of each side; write FROM a [RANGE 1 HOUR] JOIN b [RANGE 1 HOUR] ON ..."),
    "MATCH_RECOGNIZE": (("(",), f"is not supported; {_PATTERN}"),
    "PARTITION BY": (
        (),
        "is for windows and rankings; leave it out, as Spark divides tuples by itself",
    ),
    "LATERAL": (("VIEW",), "VIEW stands in FROM, behind the streams and before WHERE"),
    "LIMIT": ((), ""),
    "OFFSET": ((), "is not supported; number rows in a subquery, and write WHERE place BETWEEN 11 AND 20"),
}


class SelectReader(FromReader, RankingReader, GroupingSetReader):
    """Reads SELECT."""

    def __init__(self, text: str, origin: str, aggregates: Collection[str] = ()) -> None:
        super().__init__(text, origin, aggregates)
        self._added: list[FromItem] = []
        """What expressions of the SELECT that is being read add to FROM: subqueries and generated rows."""

    def read_branches(self) -> tuple[Select, ...]:
        """SELECTs joined by UNION ALL, behind the WITH clauses that they may read."""
        outer = dict(self.common)
        if self.accept("WITH"):
            self.several(self.common_table)
        branches = [*self._branch()]
        while self.at("UNION"):
            if not self.accept("UNION", "ALL"):
                raise self.fail(f"{_NO_UNION}, or {_DISTINCT_UNION}")
            branches += self._branch()
        self.common = outer
        return tuple(branches)

    def _branch(self) -> tuple[Select, ...]:
        """A SELECT, or several in parentheses."""
        return self.in_parentheses() if self.at("(") else self._select()

    def _select(self) -> tuple[Select, ...]:
        """A SELECT; one for each grouping, if GROUP BY has several."""
        if self.word() in _EMISSIONS and self.at(self.word(), "("):
            raise self.fail(
                f"{self.word()} stands behind SELECT; write SELECT {self.word()} a FROM s [RANGE 10 s]"
            )
        first = self.expect("SELECT").span
        emission = self._emission()
        is_distinct = self.accept("DISTINCT")
        distinct_on = self.distinct_on() if is_distinct and self.at("ON", "(") else ()
        self.accept("ALL")
        around, self._added = self._added, []
        outer, self.ranking = self.ranking, None
        items = tuple(item for items in self.several(self._items) for item in items)
        ranking, self.ranking = self.ranking, outer
        self.expect("FROM", " and the streams to select from")
        sources, conditions = self.from_clause()
        if self.accept("WHERE"):
            sources, conditions = self._where(sources, conditions)
        groupings = self._groupings(items) if self.accept("GROUP BY") else Groupings()
        group_by = meant_windows(groupings.keys, items)
        check_windows_of_sets(groupings)
        items = tuple(
            replace(item, expression=naming_window(item.expression, group_by))
            if isinstance(item, SelectItem)
            else item
            for item in items
        )
        sources, group_by = with_windows_of_keys(sources, group_by)
        word, having = self.span, None
        if self.accept("HAVING"):
            having = scalar(self.expression("a condition after HAVING"))
        ranking = self.limited(ranking, items)
        sources, conditions = with_limits_of_ranks(sources, conditions)
        added, self._added = self._added, around
        check_alone(added, sources)
        sources = (*self._shown(sources, emission), *added)
        check_number(sources)
        where, span = tuple(conditions), self.since(first)
        select = Select(
            items, sources, where, group_by, having, span, is_distinct, emission, ranking, distinct_on
        )
        selects = selects_of(select, groupings)
        check_without_groups(selects[0])
        if having and not selects[0].is_aggregate:
            raise QueryError("HAVING without GROUP BY or an aggregate; write the condition in WHERE", word)
        self.refuse_clause()
        return selects

    def _where(
        self, sources: tuple[FromItem, ...], conditions: list[ScalarExpression]
    ) -> tuple[tuple[FromItem, ...], list[ScalarExpression]]:
        """The sources, with those of subqueries behind them, and the conditions."""
        found = list(sources)
        for term in terms_of(self.expression("a condition after WHERE")):
            test = find_test(term)
            if test is None:
                conditions.append(scalar_without_aggregates(term, "WHERE"))
            else:
                branches = self.read_again(test.opener, self.in_parentheses)
                found.append(as_join(test, branches, {one.alias.text.lower() for one in found}))
                check_number(found)
        return tuple(found), conditions

    def _emission(self) -> syntax.EmissionClause | None:
        """ISTREAM, DSTREAM or RSTREAM, unless it is the name of a column."""
        found = {kind.value: kind for kind in syntax.Emission}.get(self.word())
        follower = self.ahead(1)
        if found is None or follower is None or (follower.word and not _begins_item(follower.word)):
            return None
        if follower.word == "*" and self.word(2) not in ("FROM", ","):
            return None
        return syntax.EmissionClause(found, self.take().span)

    def _shown(
        self, sources: tuple[FromItem, ...], emission: syntax.EmissionClause | None
    ) -> tuple[FromItem, ...]:
        """The sources, with windows as EVERY states."""
        is_whole = emission is not None and emission.kind is syntax.Emission.WHOLE
        every, every_us = self.span, None
        if self._at_every():
            if not is_whole:
                raise self.fail("EVERY goes with RSTREAM; write SELECT RSTREAM, or a window with SLIDE")
            self.take()
            every_us = self._time_us("EVERY", "write EVERY 10 SECONDS", self.at_clause)
        if emission is None or not is_whole:
            return sources
        return shown_every(sources, every_us, emission, every)

    def _at_every(self) -> bool:
        # every(x) is a function
        return self.word() == "EVERY" and self._at_number(1)

    def _at_number(self, distance: int) -> bool:
        token = self.ahead(distance)
        return token is not None and token.kind is TokenType.NUMBER

    def at_clause(self) -> bool:
        word = self.word()
        if self.word(-1) == ".":
            return False
        if word == "FROM":
            return not (self.word(-1) == "DISTINCT" and self.word(-2) in ("IS", "NOT"))
        if word == "EVERY":
            return self._at_every()
        if word == "WITHIN":
            # within(x) may be a function
            return self._at_number(1) or (self.word(1) == "(" and self._at_number(2))
        if word in ("LIMIT", "OFFSET"):
            follower = self.ahead(1)
            return follower is not None and (follower.word == "ALL" or follower.value.isdigit())
        if word not in _CLAUSES:
            return False
        followers, _ = _CLAUSES[word]
        return not followers or self.word(1) in followers

    def refuse_clause(self) -> None:
        _, reason = _CLAUSES.get(self.word(), ((), ""))
        if reason and self.at_clause():
            raise self.fail(f"{self.word()} {reason}")

    def expression(self, what: str) -> list[Token]:
        tokens = self.stretch(self.at_clause)
        if not tokens:
            raise self.expected(what)
        return self._with_values(tokens)

    def _with_values(self, tokens: Sequence[Token]) -> list[Token]:
        """The tokens with a column in place of each subquery that stands for a value; it becomes a source."""
        found: list[Token] = []
        end = 0
        for opener, closer in find_values(tokens):
            branches = self.read_again(tokens[opener], self.in_parentheses)
            alias = Name(self._free_alias("scalar"), tokens[opener].span)
            number = 1 + sum(one.is_value for one in self._added)
            column = Name("value" if number == 1 else f"value_{number}", alias.span)
            self._added.append(as_source(branches, alias, column))
            check_number(self._added)
            written = tokens[opener : closer + 1]
            found += [*tokens[end:opener], *column_in_place(written, alias.text, column.text)]
            end = closer + 1
        return [*found, *tokens[end:]]

    def _free_alias(self, name: str) -> str:
        """An alias that occurs nowhere in the text."""
        names = {one.alias.text for one in self._added}
        numbered = (name if number == 1 else f"{name}_{number}" for number in count(1))
        return next(name for name in numbered if name not in names and not self.mentions(name))

    def _items(self) -> tuple[SelectItem | syntax.RankItem | syntax.Star, ...]:
        return self._generated_items() if self.at_generator() else (self._item(),)

    def _generated_items(self) -> tuple[SelectItem, ...]:
        """``explode(x) AS a`` or ``posexplode(x) AS (a, b)``: columns of rows that are added to FROM."""
        first = self.current
        assert first is not None
        found = self.generator()
        written = (first, self.previous)
        columns: tuple[Name, ...] = ()
        if self.accept("AS") or (self.current is not None and self.current.is_name and not self.at_clause()):
            columns = self.column_names() if self.at("(") else (self.name("a name after AS"),)
        elif not (self.at_end or self.word() in (",", ")") or self.at_clause()):
            message = f"{found.function} gives rows, and is a select item of its own"
            hint = f"write FROM s LATERAL VIEW {one_line(found.span.excerpt)} t AS x, and expressions of x"
            raise QueryError(f"{message}; {hint}", found.span)
        names = columns_of(found, columns)
        alias = Name(self._free_alias("exploded"), found.span)
        generator = replace(found, columns=names, is_item=True)
        self._added.append(FromItem(Name(found.function, found.span), None, alias, generator=generator))
        check_number(self._added)
        return tuple(
            SelectItem(scalar(column_in_place(written, alias.text, name.text)), name) for name in names
        )

    def _item(self) -> SelectItem | syntax.RankItem | syntax.Star:
        if self.word() == "TOP" and self._at_number(1):
            raise self.fail(f"TOP is not supported; write FROM s [TUMBLE 10 SECONDS] {_FIRST_ROWS}")
        if self.at_rank():
            return self.rank_item()
        tokens = self.expression("an expression in SELECT")
        if (star := _star(tokens)) is not None:
            return star
        expression, alias = _split_alias(tokens)
        return SelectItem(scalar(expression), alias)

    def _groupings(self, items: Sequence[SelectItem | syntax.RankItem | syntax.Star]) -> Groupings:
        """What stands behind GROUP BY; ALL are the select items that are not made of aggregates."""
        if not self.accept("ALL"):
            return self.groupings()
        expressions = [item.expression for item in items if isinstance(item, SelectItem)]
        return Groupings(tuple(one for one in expressions if one.columns and not one.aggregates))


def _begins_item(word: str) -> bool:
    """Whether a word can be the first of a select item."""
    return word in ("*", "(", "-", "+", "DISTINCT", "ALL", "CASE", "NOT") or (
        word.replace(" ", "_").isidentifier() and word not in ("FROM", "AS", "IS", "IN", "AND", "OR")
    )


def _star(tokens: Sequence[Token]) -> syntax.Star | None:
    """``*`` or ``alias.*``, with the columns of EXCEPT (...) left out; None for another item."""
    words = [token.word for token in tokens]
    qualifier = tokens[0].as_name if tokens[0].is_name and words[1:3] == [".", "*"] else None
    rest = tokens[1 if qualifier is None else 3 :]
    if (words[0] != "*" and qualifier is None) or (rest and rest[0].word != "EXCEPT"):
        return None
    names = [token for token in rest[2:-1] if token.word != ","]
    if rest and (len(rest) < 4 or rest[1].word != "(" or not all(token.is_name for token in names)):
        raise QueryError("EXCEPT takes columns in parentheses; write * EXCEPT (a, b)", span_of(rest))
    return syntax.Star(qualifier, span_of(tokens), tuple(token.as_name for token in names))


def _split_alias(tokens: Sequence[Token]) -> tuple[Sequence[Token], Name | None]:
    last = tokens[-1]
    if last.word == "AS":
        raise QueryError("expected a name after AS; write AS name", last.span)
    if len(tokens) > 2 and tokens[-2].word == "AS":
        if not last.is_name:
            raise QueryError(f"{last.shown} is not a name; write AS name or AS `name`", last.span)
        return tokens[:-2], last.as_name
    if len(tokens) > 1 and last.is_name and _is_implicit_alias(tokens):
        return tokens[:-1], last.as_name
    return tokens, None


def _is_implicit_alias(tokens: Sequence[Token]) -> bool:
    # only the parser can tell "a b" from "INTERVAL 5 DAYS"
    try:
        tree = parse_tree(tokens, allow_alias=True)
    except QueryError:
        # parsing the expression without alias reports this, after checks with better messages
        return False
    return isinstance(tree, exp.Alias) and tree.args["alias"].meta.get("start") == tokens[-1].span.start

"""SELECT: items, sources with windows, conditions, grouping."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from sqlglot import exp
from sqlglot.tokens import TokenType

from headgate.cql import statement as cql
from headgate.cql.expressions import conjuncts, parse_tree, scalar, scalar_without_aggregates, terms_of
from headgate.cql.rankings import NO_ORDER, RankingReader, with_limits_of_ranks
from headgate.cql.statement import FromItem, JoinKind, Name, ScalarExpression, Select, SelectItem
from headgate.cql.subqueries import as_join, find_test
from headgate.cql.tokens import Token, never_closed, one_line, repeated, span_of
from headgate.cql.windows import WindowReader, naming_window, shown_every, with_windows_of_keys
from headgate.errors import QueryError

_JOINS: dict[tuple[str, ...], JoinKind] = {
    ("JOIN",): JoinKind.INNER,
    ("INNER", "JOIN"): JoinKind.INNER,
    ("SEMI", "JOIN"): JoinKind.SEMI,
    ("ANTI", "JOIN"): JoinKind.ANTI,
    ("LEFT", "SEMI", "JOIN"): JoinKind.SEMI,
    ("LEFT", "ANTI", "JOIN"): JoinKind.ANTI,
    **{(word, "JOIN"): JoinKind[word] for word in ("LEFT", "RIGHT", "FULL")},
    **{(word, "OUTER", "JOIN"): JoinKind[word] for word in ("LEFT", "RIGHT", "FULL")},
}
_JOIN_WORDS = ("JOIN", "OUTER", "INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI")
_NO_SET = "is not supported; write conditions in WHERE, or UNION ALL"
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
    **dict.fromkeys(("EXCEPT", "INTERSECT", "MINUS"), (("SELECT", "ALL", "DISTINCT"), _NO_SET)),
    "INNER": (("JOIN",), ""),
    "CROSS": (("JOIN",), ""),
    "FETCH": (("FIRST", "NEXT"), ""),
    "LATERAL": (("VIEW",), "VIEW is not supported; select from streams and relations only"),
    "LIMIT": ((), ""),
    "OFFSET": ((), "is not supported: results never end; leave it out"),
}


class SelectReader(WindowReader, RankingReader):
    """Reads SELECT."""

    def __init__(self, text: str, origin: str, aggregates: Collection[str] = ()) -> None:
        super().__init__(text, origin, aggregates)
        self._common: dict[str, tuple[Select, ...]] = {}
        """What the WITH clauses around the current place define, by name in lower case."""

    def read_branches(self) -> tuple[Select, ...]:
        """SELECTs joined by UNION ALL, behind the WITH clauses that they may read."""
        outer = dict(self._common)
        if self.accept("WITH"):
            self.several(self._common_table)
        branches = [self._select()]
        while self.at("UNION"):
            if not self.accept("UNION", "ALL"):
                raise self.fail("UNION would have to remember all rows to drop duplicates; write UNION ALL")
            branches.append(self._select())
        self._common = outer
        return tuple(branches)

    def _common_table(self) -> None:
        if self.at("RECURSIVE"):
            raise self.fail("WITH RECURSIVE is not supported; a stream cannot read itself")
        name = self.name("a name after WITH")
        if name.text.lower() in self._common:
            raise QueryError(f"WITH names {one_line(name.text)} twice; rename one of them", name.span)
        self.expect("AS", f" and a SELECT in parentheses for {one_line(name.text)}")
        self._common[name.text.lower()] = self._in_parentheses()

    def _in_parentheses(self) -> tuple[Select, ...]:
        opener = self.current
        self.expect("(", " and a SELECT")
        branches = self.read_branches()
        if self.at_end and opener is not None:
            raise never_closed(opener)
        self.expect(")", " after the SELECT")
        return branches

    def _select(self) -> Select:
        if self.at("(", "SELECT"):
            raise self.fail("a SELECT in parentheses is not supported; leave the parentheses out")
        first = self.expect("SELECT").span
        emission = self._emission()
        is_distinct = self.accept("DISTINCT")
        distinct_on = self.distinct_on() if is_distinct and self.at("ON", "(") else ()
        self.accept("ALL")
        outer, self.ranking = self.ranking, None
        items = self.several(self._item)
        ranking, self.ranking = self.ranking, outer
        self.expect("FROM", " and the streams to select from")
        sources, conditions = self._from()
        if self.accept("WHERE"):
            sources, conditions = self._where(sources, conditions)
        group_by = self.several(self._group) if self.accept("GROUP BY") else ()
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
        sources = self._shown(sources, emission)
        where, span = tuple(conditions), self.since(first)
        select = Select(
            items, sources, where, group_by, having, span, is_distinct, emission, ranking, distinct_on
        )
        if having and not select.is_aggregate:
            raise QueryError("HAVING without GROUP BY or an aggregate; write the condition in WHERE", word)
        self._refuse_clause()
        return select

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
                branches = self.read_again(test.opener, self._in_parentheses)
                found.append(as_join(test, branches, {one.alias.text.lower() for one in found}))
        return tuple(found), conditions

    def _emission(self) -> cql.EmissionClause | None:
        """ISTREAM, DSTREAM or RSTREAM, unless it is the name of a column."""
        found = {kind.value: kind for kind in cql.Emission}.get(self.word())
        follower = self.ahead(1)
        if found is None or follower is None or (follower.word and not _begins_item(follower.word)):
            return None
        if follower.word == "*" and self.word(2) not in ("FROM", ","):
            return None
        return cql.EmissionClause(found, self.take().span)

    def _shown(
        self, sources: tuple[FromItem, ...], emission: cql.EmissionClause | None
    ) -> tuple[FromItem, ...]:
        """The sources, with windows as EVERY says."""
        is_whole = emission is not None and emission.kind is cql.Emission.WHOLE
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
        follower = self.ahead(1)
        return self.word() == "EVERY" and follower is not None and follower.kind is TokenType.NUMBER

    def at_clause(self) -> bool:
        word = self.word()
        if self.word(-1) == ".":
            return False
        if word == "FROM":
            return not (self.word(-1) == "DISTINCT" and self.word(-2) in ("IS", "NOT"))
        if word == "EVERY":
            return self._at_every()
        if word in ("LIMIT", "OFFSET"):
            follower = self.ahead(1)
            return follower is not None and (follower.word == "ALL" or follower.value.isdigit())
        if word not in _CLAUSES:
            return False
        followers, _ = _CLAUSES[word]
        return not followers or self.word(1) in followers

    def _refuse_clause(self) -> None:
        _, reason = _CLAUSES.get(self.word(), ((), ""))
        if reason and self.at_clause():
            raise self.fail(f"{self.word()} {reason}")

    def expression(self, what: str) -> list[Token]:
        tokens = self.stretch(self.at_clause)
        if not tokens:
            raise self.expected(what)
        return tokens

    def _item(self) -> SelectItem | cql.RankItem | cql.Star:
        if self.at_rank():
            return self.rank_item()
        tokens = self.expression("an expression in SELECT")
        if len(tokens) == 1 and tokens[0].word == "*":
            return cql.Star(None, tokens[0].span)
        if len(tokens) == 3 and tokens[0].is_name and [token.word for token in tokens[1:]] == [".", "*"]:
            return cql.Star(tokens[0].as_name, span_of(tokens))
        expression, alias = _split_alias(tokens)
        return SelectItem(scalar(expression), alias)

    def _group(self) -> ScalarExpression:
        if self.word() in ("ROLLUP", "CUBE", "GROUPING SETS") and self.word(1) == "(":
            raise self.fail(f"{self.word()} is not supported; write one query for each grouping")
        tokens = self.expression("an expression after GROUP BY")
        if len(tokens) == 1 and tokens[0].word == "ALL":
            raise QueryError("GROUP BY ALL is not supported; name the columns to group by", tokens[0].span)
        return scalar_without_aggregates(tokens, "GROUP BY")

    def _from(self) -> tuple[tuple[FromItem, ...], list[ScalarExpression]]:
        sources = [self._from_item()]
        conditions: list[ScalarExpression] = []
        while True:
            if self.accept(",") or self.accept("CROSS", "JOIN"):
                sources.append(self._from_item())
            elif (join := self._join_kind()) is not None:
                joined = self._joined(join)
                if join is JoinKind.INNER:
                    conditions += joined.on
                    joined = replace(joined, on=())
                sources.append(joined)
            else:
                break
        self._refuse_clause()
        if twice := repeated([source.alias for source in sources]):
            message = f"{one_line(twice.text)} is in FROM twice; give each an alias of its own with AS"
            raise QueryError(message, twice.span)
        return tuple(sources), conditions

    def _join_kind(self) -> JoinKind | None:
        """The kind of the join that follows, whose words are taken; None if none does."""
        for words, kind in _JOINS.items():
            if self.accept(*words):
                return kind
        return None

    def _joined(self, join: JoinKind) -> FromItem:
        item = replace(self._from_item(), join=join)
        if self.accept("USING"):
            self.expect("(", " and columns after USING")
            using = self.several(lambda: self.name("a column in USING"))
            self.expect(")", " after the columns of USING")
            return replace(item, using=using)
        self._refuse_clause()
        self.expect("ON", f" and a condition after {join.value}")
        return replace(item, on=tuple(conjuncts(self.expression("a condition after ON"), "ON")))

    def _from_item(self) -> FromItem:
        if self.at("("):
            return self._subquery()
        source = self.name("a stream or relation in FROM")
        if self.at("."):
            raise self.fail("names of streams have no dots; write one name, or put it into backquotes")
        if self.at("("):
            message = "a function in FROM is not supported; name a stream or relation"
            raise self.fail(f"{message}, with its window in brackets, as in s [TUMBLE 10 SECONDS]")
        window = self.read_window() if self.at("[") else None
        alias = self._alias() or source
        if window is None and self.at("["):
            window = self.read_window()
        if self.at("["):
            raise self.fail("a stream has one window; leave the second out")
        return FromItem(source, window, alias, self._common.get(source.text.lower(), ()))

    def _subquery(self) -> FromItem:
        branches = self._in_parentheses()
        window = self.read_window() if self.at("[") else None
        alias = self._alias()
        if alias is None:
            raise self.expected("a name for the subquery, as in (SELECT ...) AS x")
        if window is None and self.at("["):
            window = self.read_window()
        return FromItem(alias, window, alias, branches)

    def _alias(self) -> Name | None:
        if self.accept("AS"):
            return self.name("an alias after AS")
        token = self.current
        if token is None or not token.is_name or self.at_clause():
            return None
        return self.take().as_name


def _begins_item(word: str) -> bool:
    """Whether a word can be the first of a select item."""
    return word in ("*", "(", "-", "+", "DISTINCT", "ALL", "CASE", "NOT") or (
        word.replace(" ", "_").isidentifier() and word not in ("FROM", "AS", "IS", "IN", "AND", "OR")
    )


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

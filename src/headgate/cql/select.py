"""SELECT: items, sources with windows, conditions, grouping.

Windows are ``[ROWS n]``, ``[RANGE t SLIDE s]``, ``[PARTITION BY k ROWS n]``, ``[NOW]``, ``[UNBOUNDED]``, and
the half-open ``[TUMBLE t]`` and ``[HOP t EVERY s]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from sqlglot import exp

from headgate.cql import statement as cql
from headgate.cql.expressions import conjuncts, parse_tree, scalar, scalar_without_aggregates
from headgate.cql.measure import LARGEST, MeasureError, signed_duration_us
from headgate.cql.statement import FromItem, Name, ScalarExpression, Select, SelectItem
from headgate.cql.tokens import Cursor, Token, never_closed, one_line, repeated, span_of
from headgate.errors import QueryError, Span
from headgate.model.window import HopWindow, RowWindow, TimeWindow, UnboundedWindow, Window

_WINDOWS = ("ROWS", "RANGE", "PARTITION BY", "NOW", "UNBOUNDED", "TUMBLE", "HOP")

_JOIN_WORDS = ("JOIN", "OUTER", "INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI")
_NO_ORDER = "is not supported: results never end, so they have no order; sort where they are read"
_NO_SET = "is not supported; write conditions in WHERE, or UNION ALL"
_NO_OUTER = "JOIN is not supported: a row could find its match later; write JOIN ... ON"
# words that begin a clause, and why it is not supported; some are names or functions too, such as LEFT(s, 2),
# unless followed by one of these
_CLAUSES: dict[str, tuple[tuple[str, ...], str]] = {
    **dict.fromkeys(("WHERE", "GROUP BY", "HAVING", "UNION", "INTO", "JOIN", "ON"), ((), "")),
    **dict.fromkeys(("ORDER BY", "SORT BY", "CLUSTER BY", "DISTRIBUTE BY"), ((), _NO_ORDER)),
    **dict.fromkeys(("LEFT", "RIGHT", "FULL", "SEMI", "ANTI", "NATURAL"), (_JOIN_WORDS, _NO_OUTER)),
    **dict.fromkeys(("EXCEPT", "INTERSECT", "MINUS"), (("SELECT", "ALL", "DISTINCT"), _NO_SET)),
    "INNER": (("JOIN",), ""),
    "CROSS": (("JOIN",), "JOIN is not supported; write a comma between the streams"),
    "LATERAL": (("VIEW",), "VIEW is not supported; select from streams and relations only"),
    "QUALIFY": ((), "is not supported; give the stream a window in FROM and filter in HAVING"),
    "LIMIT": ((), "is not supported: results never end; bound the window instead, as in [ROWS 100]"),
    "OFFSET": ((), "is not supported: results never end; leave it out"),
}


class SelectReader(Cursor):
    """Reads SELECT."""

    def read_select(self) -> Select:
        if self.at("WITH"):
            raise self.fail("WITH before SELECT is not supported; name the streams in FROM")
        if self.at("(", "SELECT"):
            raise self.fail("a SELECT in parentheses is not supported; leave the parentheses out")
        first = self.expect("SELECT").span
        is_distinct = self.accept("DISTINCT")
        self.accept("ALL")
        items = self.several(self._item)
        self.expect("FROM", " and the streams to select from")
        sources, conditions = self._from()
        if self.accept("WHERE"):
            conditions += conjuncts(self._expression("a condition after WHERE"), "WHERE")
        group_by = self.several(self._group) if self.accept("GROUP BY") else ()
        word, having = self.span, None
        if self.accept("HAVING"):
            having = scalar(self._expression("a condition after HAVING"))
        select = Select(items, sources, tuple(conditions), group_by, having, self.since(first), is_distinct)
        if having and not select.is_aggregate:
            raise QueryError("HAVING without GROUP BY or an aggregate; write the condition in WHERE", word)
        self._refuse_clause()
        return select

    def _at_clause(self) -> bool:
        word = self.word()
        if self.word(-1) == ".":
            return False
        if word == "FROM":
            return not (self.word(-1) == "DISTINCT" and self.word(-2) in ("IS", "NOT"))
        if word in ("LIMIT", "OFFSET"):
            follower = self.ahead(1)
            return follower is not None and (follower.word == "ALL" or follower.value.isdigit())
        if word not in _CLAUSES:
            return False
        followers, _ = _CLAUSES[word]
        return not followers or self.word(1) in followers

    def _refuse_clause(self) -> None:
        _, reason = _CLAUSES.get(self.word(), ((), ""))
        if reason and self._at_clause():
            raise self.fail(f"{self.word()} {reason}")

    def _expression(self, what: str) -> list[Token]:
        tokens = self.stretch(self._at_clause)
        if not tokens:
            raise self.expected(what)
        return tokens

    def _item(self) -> SelectItem | cql.Star:
        tokens = self._expression("an expression in SELECT")
        if len(tokens) == 1 and tokens[0].word == "*":
            return cql.Star(None, tokens[0].span)
        if len(tokens) == 3 and tokens[0].is_name and [token.word for token in tokens[1:]] == [".", "*"]:
            return cql.Star(tokens[0].as_name, span_of(tokens))
        expression, alias = _split_alias(tokens)
        return SelectItem(scalar(expression), alias)

    def _group(self) -> ScalarExpression:
        if self.word() in ("ROLLUP", "CUBE", "GROUPING SETS") and self.word(1) == "(":
            raise self.fail(f"{self.word()} is not supported; write one query for each grouping")
        tokens = self._expression("an expression after GROUP BY")
        if len(tokens) == 1 and tokens[0].word == "ALL":
            raise QueryError("GROUP BY ALL is not supported; name the columns to group by", tokens[0].span)
        return scalar_without_aggregates(tokens, "GROUP BY")

    def _from(self) -> tuple[tuple[FromItem, ...], list[ScalarExpression]]:
        sources = [self._from_item()]
        conditions: list[ScalarExpression] = []
        while True:
            if self.accept(","):
                sources.append(self._from_item())
            elif self.accept("JOIN") or self.accept("INNER", "JOIN"):
                sources.append(self._from_item())
                if self.at("USING"):
                    raise self.fail("USING is not supported; write ON a.key = b.key")
                self._refuse_clause()
                self.expect("ON", " and a condition after JOIN")
                conditions += conjuncts(self._expression("a condition after ON"), "ON")
            else:
                break
        self._refuse_clause()
        if twice := repeated([source.alias for source in sources]):
            message = f"{one_line(twice.text)} is in FROM twice; give each an alias of its own with AS"
            raise QueryError(message, twice.span)
        return tuple(sources), conditions

    def _from_item(self) -> FromItem:
        if self.at("("):
            raise self.fail("a subquery in FROM is not supported; name its streams in FROM")
        source = self.name("a stream or relation in FROM")
        if self.at("."):
            raise self.fail("names of streams have no dots; write one name, or put it into backquotes")
        if self.at("("):
            raise self.fail("a function in FROM is not supported; name a stream or relation")
        window = self._window() if self.at("[") else None
        alias = self._alias() or source
        if window is None and self.at("["):
            window = self._window()
        if self.at("["):
            raise self.fail("a stream has one window; leave the second out")
        return FromItem(source, window, alias)

    def _alias(self) -> Name | None:
        if self.accept("AS"):
            return self.name("an alias after AS")
        token = self.current
        if token is None or not token.is_name or self._at_clause():
            return None
        return self.take().as_name

    def _window(self) -> cql.WindowClause:
        opener, distance = self.take(), 0
        while (token := self.ahead(distance)) and token.word not in (";", "[", "]"):
            distance += 1
        if token is None or token.word != "]":
            raise never_closed(opener)
        word, first = self.word(), self.current
        if word not in _WINDOWS:
            problem = f"{first.shown} is not a window" if first and word != "]" else "the window is empty"
            close = get_close_matches(word, _WINDOWS, n=1)
            known = "write ROWS, RANGE, PARTITION BY, TUMBLE, HOP, NOW or UNBOUNDED"
            hint = f"did you mean {close[0]}?" if close else known
            raise self.fail(f"{problem}; {hint}")
        self.take()
        window: Window
        keys: tuple[cql.ColumnReference, ...] = ()
        if word == "NOW":
            window = TimeWindow(0)
        elif word == "PARTITION BY":
            keys = self.several(self._partition_key)
            if self.at("RANGE"):
                raise self.fail("PARTITION BY requires ROWS; write [PARTITION BY key ROWS 10]")
            self.expect("ROWS", " after the keys of PARTITION BY")
            window = RowWindow(self._row_count())
        elif word == "UNBOUNDED" or self.accept("UNBOUNDED"):
            window = UnboundedWindow()
        elif word == "ROWS":
            window = RowWindow(self._row_count())
        elif word == "TUMBLE":
            length_us = self._time_us("TUMBLE", "write [TUMBLE 10 SECONDS]")
            window = HopWindow(length_us, length_us)
        elif word == "HOP":
            length_us = self._time_us("HOP", "write [HOP 10 SECONDS EVERY 2 SECONDS]")
            self.expect("EVERY", " and a time, as in [HOP 10 SECONDS EVERY 2 SECONDS]")
            window = HopWindow(length_us, self._time_us("EVERY", "write [HOP 10 SECONDS EVERY 2 SECONDS]"))
        else:
            range_us = self._time_us("RANGE", "write [NOW] for the current instant")
            slides = self.accept("SLIDE")
            slide_us = self._time_us("SLIDE", "leave SLIDE out to see every change") if slides else None
            window = TimeWindow(range_us, slide_us)
        if self.at("SLIDE"):
            raise self.fail("SLIDE requires RANGE; write [RANGE 10 SECONDS SLIDE 1 SECOND]")
        if self.at("EVERY"):
            raise self.fail("EVERY requires HOP; write [HOP 10 SECONDS EVERY 2 SECONDS]")
        self.expect("]", " at the end of the window")
        return cql.WindowClause(window, self.since(opener.span), keys)

    def _row_count(self) -> int:
        tokens = self.stretch(lambda: self.at("SLIDE"))[:2]
        if not tokens:
            raise self.expected("a number of rows, such as ROWS 100")
        # "- 5" is two tokens; underline both
        span = span_of(tokens) if tokens[0].word == "-" else tokens[0].span
        written = span.excerpt
        if not (written.isascii() and written.isdigit()):
            message = f"ROWS takes a whole number of 1 or more, not {one_line(written)}; write ROWS 100"
            raise QueryError(message, span)
        if len(tokens) > 1:
            raise QueryError(f"expected ']' after ROWS {written}, found {tokens[1].shown}", tokens[1].span)
        if len(written) > len(str(LARGEST)) or int(written) > LARGEST:
            raise QueryError(f"the window is too large; write at most ROWS {LARGEST}, or UNBOUNDED", span)
        if int(written) == 0:
            raise QueryError("ROWS 0 keeps no tuple; write ROWS 1 or more", span)
        return int(written)

    def _time_us(self, word: str, instead: str) -> int:
        tokens = self.stretch(lambda: self.at("SLIDE") or self.at("EVERY"))
        if not tokens:
            raise self.expected(f"a time, such as {word} 10 SECONDS")
        span, text = span_of(tokens), ""
        for token in tokens:
            # comments are blanked out, and every character stays at its offset
            text = text.ljust(token.span.start - span.start) + token.span.excerpt
        try:
            duration_us = signed_duration_us(text, write=f"{word} ")
        except MeasureError as error:
            wrong = Span(span.text, span.start + error.start, span.start + error.end, span.origin)
            raise QueryError(str(error), wrong if wrong.excerpt else span) from None
        if duration_us <= 0:
            raise QueryError(f"the time after {word} must be longer than 0; {instead}", span)
        return duration_us

    def _partition_key(self) -> cql.ColumnReference:
        if self.at("ROWS"):
            raise self.expected("a column after PARTITION BY")
        first = self.name("a column after PARTITION BY")
        if not self.accept("."):
            return cql.ColumnReference(None, first.text, first.span)
        column = self.name("a column after the dot")
        return cql.ColumnReference(first.text, column.text, self.since(first.span))


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

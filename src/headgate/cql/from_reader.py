"""FROM: streams and relations with their windows, joins, subqueries, and the tables of WITH."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from sqlglot.tokens import TokenType

from headgate.cql.expressions import conjuncts
from headgate.cql.generators import GeneratorReader
from headgate.cql.syntax import FromItem, JoinKind, Name, ScalarExpression, Select, SelectItem
from headgate.cql.tokens import never_closed, one_line, repeated, span_of
from headgate.cql.windows import WINDOW_FUNCTIONS, WINDOWS
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

# what reads a query goes down into it, and Python no further than 1000 calls
_DEEPEST = 32
_MOST_SOURCES = 64
NAME_A_STREAM = "name a stream or relation, with its window in brackets, as in s [TUMBLE 10 SECONDS]"


class FromReader(GeneratorReader):
    """Reads FROM."""

    def __init__(self, text: str, origin: str, aggregates: Collection[str] = ()) -> None:
        super().__init__(text, origin, aggregates)
        self._unnamed = 0
        self._depth = 0
        self.common: dict[str, tuple[Select, ...]] = {}
        """What the WITH clauses around the current place define, by name in lower case."""

    def read_branches(self) -> tuple[Select, ...]:
        """SELECTs joined by UNION ALL, behind the WITH clauses that they may read."""
        raise NotImplementedError

    def refuse_clause(self) -> None:
        """Raise at a clause that is not supported."""
        raise NotImplementedError

    def common_table(self) -> None:
        if self.at("RECURSIVE"):
            raise self.fail("WITH RECURSIVE is not supported; a stream cannot read itself")
        name = self.name("a name after WITH")
        if name.text.lower() in self.common:
            raise QueryError(f"WITH names {one_line(name.text)} twice; rename one of them", name.span)
        names = self.column_names() if self.at("(") else ()
        self.expect("AS", f" and a SELECT in parentheses for {one_line(name.text)}")
        self.common[name.text.lower()] = _named(self.in_parentheses(), names)

    def in_parentheses(self) -> tuple[Select, ...]:
        opener = self.current
        self.expect("(", " and a SELECT")
        if self._depth == _DEEPEST:
            message = f"brackets around SELECTs are more than {_DEEPEST} deep"
            hint = "remove those that are not needed, or name the inner SELECT, CREATE STREAM s AS SELECT ..."
            raise QueryError(f"{message}; {hint}", self.previous.span)
        self._depth += 1
        branches = self.read_branches()
        self._depth -= 1
        if self.at_end and opener is not None:
            raise never_closed(opener)
        self.expect(")", " after the SELECT")
        return branches

    def from_clause(self) -> tuple[tuple[FromItem, ...], list[ScalarExpression]]:
        # other FROM clauses of the text are none of its business
        around, self._unnamed = self._unnamed, 0
        sources = [self._first_item()]
        conditions: list[ScalarExpression] = []
        while True:
            check_number(sources)
            if self.accept("LATERAL", "VIEW"):
                sources.append(self.lateral_view())
            elif self.accept(",") or self.accept("CROSS", "JOIN"):
                sources.append(self._from_item())
            elif (join := self._join_kind()) is not None:
                joined = self._joined(join)
                if join is JoinKind.INNER:
                    conditions += joined.on
                    joined = replace(joined, on=())
                sources.append(joined)
            else:
                break
        self._unnamed = around
        self.refuse_clause()
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

    def _first_item(self) -> FromItem:
        item = self._from_item()
        if item.generator is not None:
            message = f"{item.generator.function} gives rows of tuples, and stands behind what it reads"
            raise QueryError(f"{message}; write FROM s CROSS JOIN UNNEST(s.a) AS t (x)", item.generator.span)
        return item

    def _joined(self, join: JoinKind) -> FromItem:
        item = self._from_item()
        if item.generator is not None:
            return self.joined_by(item, join)
        item = replace(item, join=join)
        if self.accept("USING"):
            self.expect("(", " and columns after USING")
            using = self.several(lambda: self.name("a column in USING"))
            self.expect(")", " after the columns of USING")
            return replace(item, using=using)
        self.refuse_clause()
        self.expect("ON", f" and a condition after {join.value}")
        return replace(item, on=tuple(conjuncts(self.expression("a condition after ON"), "ON")))

    def _from_item(self) -> FromItem:
        if self.at("("):
            return self._subquery()
        if self.at("TABLE", "(") or (self.word() in WINDOW_FUNCTIONS and self.at(self.word(), "(")):
            return self._windowed_by_function()
        if self.at("LATERAL", "(") or self.at("LATERAL", "TABLE"):
            hint = "join a subquery with ON, or write CROSS JOIN UNNEST(f(x)) AS t (a) for rows of a function"
            raise self.fail(f"LATERAL is for functions that give rows of arrays; {hint}")
        if self.at("LATERAL") or self.at_generator():
            return self.generated_source()
        source = self.name("a stream or relation in FROM")
        if self.at("."):
            raise self.fail("names of streams have no dots; write one name, or put it into backquotes")
        if self.at("("):
            raise self.fail(f"a function in FROM is not supported; {NAME_A_STREAM}")
        window = self.read_window() if self.at("[") else None
        if self.at("FOR", "SYSTEM_TIME"):
            raise self.fail("a stored relation is joined as it is; leave FOR SYSTEM_TIME AS OF out")
        if self.at("TABLESAMPLE"):
            raise self.fail("TABLESAMPLE is not supported; write SET keep = 's=0.1' for a share of a stream")
        alias = self._alias() or source
        if window is None and self.at("["):
            window = self.read_window()
        if self.at("["):
            raise self.fail("a stream has one window; leave the second out")
        return FromItem(source, window, alias, self.common.get(source.text.lower(), ()))

    def _subquery(self) -> FromItem:
        first, branches = self.span, self.in_parentheses()
        window = self.read_window() if self.at("[") else None
        alias = self._alias()
        names = self.column_names() if alias is not None and self.at("(") else ()
        if window is None and self.at("["):
            window = self.read_window()
        alias = alias or Name(self._free_name(), first)
        return FromItem(alias, window, alias, _named(branches, names))

    def _free_name(self) -> str:
        """A name for a subquery that has none."""
        self._unnamed += 1
        return "subquery" if self._unnamed == 1 else f"subquery_{self._unnamed}"

    def column_names(self) -> tuple[Name, ...]:
        """``(a, b)`` behind the name of a subquery."""
        self.expect("(")
        names = self.several(lambda: self.name("a column"))
        self.expect(")", " or ',' after the column")
        return names

    def _windowed_by_function(self) -> FromItem:
        """``TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' HOUR))``: Flink's ``s [TUMBLE 1 HOUR]``."""
        first = self.span
        is_wrapped = self.accept("TABLE", "(")
        if self.word() not in WINDOW_FUNCTIONS:
            raise self.fail(f"a function in FROM is TUMBLE, HOP or SESSION; {NAME_A_STREAM}")
        source, window = self.windowing_call()
        if is_wrapped:
            self.expect(")", " at the end of TABLE(...)")
        window = replace(window, span=self.since(first))
        return FromItem(source, window, self._alias() or source, self.common.get(source.text.lower(), ()))

    def _alias(self) -> Name | None:
        if self.accept("AS"):
            return self.name("an alias after AS")
        token = self.current
        if token is None or not token.is_name or self.at_clause():
            return None
        follower = self.ahead(1)
        if token.word in WINDOWS and follower is not None and follower.kind is TokenType.NUMBER:
            written = span_of([token, follower, self.ahead(2) or follower]).excerpt
            raise self.fail(f"a window stands in brackets; write [{one_line(written)}]")
        return self.take().as_name


def check_number(sources: Sequence[FromItem]) -> None:
    """Reject more sources of one SELECT, with subqueries and rows in its expressions, than can be planned."""
    if len(sources) > _MOST_SOURCES:
        message = f"a SELECT reads {_MOST_SOURCES} sources at most, with LATERAL VIEWs and subqueries"
        raise QueryError(f"{message}; join some of them in a subquery in FROM", sources[-1].source.span)


def _named(branches: tuple[Select, ...], names: tuple[Name, ...]) -> tuple[Select, ...]:
    """The SELECTs with other names for the columns, if there are any; the first one names them."""
    if not names:
        return branches
    first, *others = branches
    if len(first.items) != len(names) or not all(isinstance(item, SelectItem) for item in first.items):
        message = f"{len(names)} names for a SELECT of {len(first.items)} items"
        hint = "name each column, or write names with AS in the SELECT"
        raise QueryError(f"{message}; {hint}", names[0].span)
    items = (
        replace(item, alias=name)
        for item, name in zip(first.items, names, strict=True)
        if isinstance(item, SelectItem)
    )
    return (replace(first, items=tuple(items)), *others)

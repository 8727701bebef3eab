"""CQL text to statements: CREATE, DROP, ALTER, PAUSE, RESUME, PLACE, SET, SHOW and DESCRIBE."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from decimal import Decimal

from sqlglot.tokens import TokenType

from headgate.cql import statement as cql
from headgate.cql.columns import ColumnReader
from headgate.cql.select import SelectReader
from headgate.cql.statement import Setting, Statement
from headgate.cql.syntax import Name, Select
from headgate.cql.tokens import Token, never_closed, one_line, repeated, span_of
from headgate.errors import QueryError, nearest

_STATEMENTS = ("CREATE", "DROP", "ALTER", "PAUSE", "RESUME", "PLACE", "SET", "SHOW", "DESCRIBE")
_KINDS = {kind.upper(): kind for kind in cql.PLURALS}
_SHOWN = (*(plural.upper() for plural in cql.PLURALS.values()), "SETTINGS")

_MOST_SLOTS = 10_000
# words of other systems, and what is written here
_INSTEAD = {
    "TABLE": "write STREAM for what goes on, RELATION for what is stored",
    "TABLES": "write STREAMS or RELATIONS",
    **dict.fromkeys(("TEMP", "TEMPORARY", "GLOBAL"), "write VIEW; nothing outlives the session"),
    "MATERIALIZED": "write STREAM name AS SELECT, or QUERY with INTO ... OPTIONS (mode 'latest')",
    "SINK": "write QUERY ... INTO parquet OPTIONS (...)",
}


def parse(text: str, origin: str = "<cql>", aggregates: Collection[str] = ()) -> list[Statement]:
    """Parse all statements of a text; error messages name ``origin``, such as a file.

    ``aggregates`` are the aggregate functions of the user's, in lower case, besides those of the text itself.
    """
    return [statement for statement, _ in parse_with_texts(text, origin, aggregates)]


def parse_with_texts(
    text: str, origin: str = "<cql>", aggregates: Collection[str] = ()
) -> list[tuple[Statement, str]]:
    """The statements of a text, each with its own text."""
    reader = StatementReader(text, origin, aggregates)
    statements: list[tuple[Statement, str]] = []
    while reader.current is not None:
        if reader.accept(";"):
            continue
        first = reader.span
        statements.append((reader.read_statement(), reader.since(first).excerpt))
        if not reader.at_end:
            raise reader.expected("';' at the end of the statement")
    if not statements:
        raise reader.fail("no statement found; write CREATE STREAM, CREATE RELATION or CREATE QUERY")
    return statements


class StatementReader(SelectReader, ColumnReader):
    """Reads statements."""

    def read_statement(self) -> Statement:
        if self.accept("CREATE"):
            return self._create()
        if self.accept("DROP"):
            return self._drop()
        if self.accept("PLACE"):
            return self._place()
        if self.accept("ALTER", "POOL"):
            return cql.AlterPool(self.name("the name of a pool"), self._slots())
        if self.accept("ALTER", "QUERY"):
            return self._alter_query()
        if self.at("PAUSE") or self.at("RESUME"):
            pausing = cql.PauseQuery if self.take().word == "PAUSE" else cql.ResumeQuery
            self.expect("QUERY", " and the name of a query")
            return pausing(self.name("the name of a query"))
        if self.accept("SET"):
            return self._set()
        if self.accept("SHOW"):
            return cql.Show(self._one_of(_SHOWN, "SHOW").lower())
        if self.accept("DESCRIBE") or self.accept("DESC"):
            return self._describe()
        raise self._unknown_statement()

    def _unknown_statement(self) -> QueryError:
        if self.at("ALTER"):
            return self.fail("pools and queries can be altered; write ALTER POOL or ALTER QUERY")
        found = self.expected(f"{', '.join(_STATEMENTS[:-1])} or {_STATEMENTS[-1]}")
        if self.at("INSERT"):
            return self.fail(
                f"{found.message}; write CREATE QUERY name AS SELECT ... INTO parquet OPTIONS (...)"
            )
        if self.at("EXPLAIN"):
            return self.fail(f"{found.message}; headgate explain FILE shows plans")
        if self.at("SELECT"):
            return self.fail(f"{found.message}; write CREATE QUERY name AS SELECT ...")
        near = nearest(self.word(), (*_STATEMENTS, "SELECT")).strip()
        return self.fail(f"{found.message}; {near}") if near else found

    def _one_of(self, words: Sequence[str], after: str) -> str:
        """One of the words, which is taken."""
        if self.word() in words:
            return self.take().word
        near = _INSTEAD.get(self.word()) or nearest(self.word(), words).strip()
        message = self.expected(f"{', '.join(words[:-1])} or {words[-1]} after {after}").message
        raise self.fail(f"{message}; {near}" if near else message)

    def _create(self) -> cql.Create:
        existing = cql.Existing.REFUSE
        if self.accept("OR"):
            self.expect("REPLACE", " after CREATE OR")
            existing = cql.Existing.REPLACE
        is_aggregate = self.at("AGGREGATE", "FUNCTION") and self.accept("AGGREGATE")
        kind = _KINDS[self._one_of(tuple(_KINDS), f"CREATE {existing.value}".rstrip())]
        first = self.span
        if self.accept("IF", "NOT", "EXISTS"):
            if existing is cql.Existing.REPLACE:
                message = "OR REPLACE and IF NOT EXISTS exclude each other; keep one of them"
                raise QueryError(message, self.since(first))
            existing = cql.Existing.KEEP
        elif self.at("IF", "EXISTS"):
            hint = f"write CREATE {kind.upper()} IF NOT EXISTS or CREATE OR REPLACE {kind.upper()}"
            raise self.fail(f"IF EXISTS goes with DROP; {hint}")
        name = self._name_of(kind, f"a name for the {kind}")
        if kind == "pool":
            return cql.CreatePool(name, self._slots(), existing=existing)
        if kind == "function":
            return self._function(name, existing, is_aggregate)
        if kind == "query":
            return self._query(name, existing)
        if kind == "stream" and self.accept("AS"):
            branches = self._branches("';'")
            if self.at("INTO"):
                raise self.fail("a stream has no sink; write CREATE QUERY for results that are kept")
            return cql.DeriveStream(name, branches, existing=existing)
        if kind == "view":
            return self._view(name, existing)
        create = cql.CreateStream if kind == "stream" else cql.CreateRelation
        columns, primary_key = self.columns()
        computed = next((column for column in columns if column.computed), None)
        if computed is not None and kind == "relation":
            message = "columns of stored relations are not computed; compute them where the relation is read"
            raise QueryError(message, computed.name.span)
        source_format = self._format("FROM")
        return create(name, columns, source_format, self._options(), primary_key, existing=existing)

    def _name_of(self, kind: str, what: str) -> Name:
        name = self.name(what)
        if self.at("."):
            raise self.fail(f"the name of a {kind} has no dots; write one name")
        return name

    def _view(self, name: Name, existing: cql.Existing) -> cql.CreateView:
        self.expect("AS", " and a SELECT")
        branches = self._branches("';'")
        if self.at("INTO"):
            raise self.fail("a view has no sink; write CREATE QUERY for results that are kept")
        return cql.CreateView(name, branches, existing=existing)

    def _query(self, name: Name, existing: cql.Existing) -> cql.CreateQuery:
        settings = self._settings("WITH")
        self.expect("AS", " and a SELECT")
        branches, first, sink = self._branches("INTO or ';'"), self.span, None
        if self.at("INTO"):
            sink = cql.SinkClause(self._format("INTO"), self._options(), self.since(first))
        return cql.CreateQuery(name, settings, branches, sink, existing=existing)

    def _drop(self) -> cql.Drop:
        kind = _KINDS[self._one_of(tuple(_KINDS), "DROP")]
        if self.at("IF", "NOT", "EXISTS"):
            raise self.fail(f"IF NOT EXISTS goes with CREATE; write DROP {kind.upper()} IF EXISTS")
        if_exists = self.accept("IF", "EXISTS")
        return cql.Drop(kind, self._name_of(kind, f"the name of a {kind}"), if_exists)

    def _describe(self) -> cql.Describe:
        # a word such as STREAM is a name if nothing follows it
        last = self.ahead(1) is None or self.word(1) == ";"
        kind = None if last or self.word() not in _KINDS else _KINDS[self.take().word]
        what = (
            f"the name of a {kind}"
            if kind
            else "the name of a stream, relation, view, query, function or pool"
        )
        return cql.Describe(self._name_of(kind or "declaration", what), kind)

    def _set(self) -> cql.SetOption:
        first = self._key_part("an option of runs after SET, such as strategy")
        while self.accept("-") or self.accept("."):
            self._key_part("the rest of the name")
        span = self.since(first.span)
        name = first if span == first.span else Name(span.excerpt, span)
        if not self.accept("TO"):
            self.expect("=", f" and a value for {one_line(name.text)}")
        if self.accept("DEFAULT"):
            return cql.SetOption(name, None, self.previous.span)
        start = self.span
        value = self._value(name.text) if self.current and self.current.is_string else self._words(name.text)
        return cql.SetOption(name, value, self.since(start))

    def _words(self, key: str) -> str:
        """The rest of the line as it is written: a value without quotes, such as 500 ms."""
        words: list[Token] = []
        while not self.at_end and not (words and "\n" in self._gap_after(words[-1])):
            words.append(self.take())
        if not words:
            raise self.expected(f"a value for {one_line(key)}")
        return span_of(words).excerpt

    def _gap_after(self, token: Token) -> str:
        return token.span.text[token.span.end : self.span.start]

    def _place(self) -> cql.Place | cql.PlaceProbe:
        is_probe = self.accept("PROBE", "OF")
        of_function = "the name of a function or PROBE OF and that of a stream"
        name = self.name("the name of a stream" if is_probe else of_function)
        self.expect("ON", " and the name of a pool")
        pool = self.name("the name of a pool")
        return (cql.PlaceProbe if is_probe else cql.Place)(name, pool)

    def _alter_query(self) -> cql.AlterQuery:
        name, settings = self.name("the name of a query"), self._settings("SET")
        if not settings:
            raise self.expected("SET (latency = '2 s') or other settings of the query")
        return cql.AlterQuery(name, settings)

    def _slots(self) -> int:
        self.expect("SLOTS", " and how many, as in SLOTS 4")
        token = self.current
        if token is None or token.kind is not TokenType.NUMBER or not token.value.isdigit():
            raise self.expected("a whole number of slots, as in SLOTS 4")
        slots = Decimal(token.value)
        if slots == 0:
            raise self.fail("a pool needs at least one slot; write SLOTS 1 or more")
        if slots > _MOST_SLOTS:
            raise self.fail(f"a slot is a thread; write at most SLOTS {_MOST_SLOTS}")
        return int(self.take().value)

    def _function(self, name: Name, existing: cql.Existing, is_aggregate: bool) -> cql.CreateFunction:
        where = "where the function is, such as 'scores.py:score'"
        returns = "the type of its results, such as BOOLEAN"
        self.expect("AS", f" and {where}")
        token = self.current
        if token is None or not token.is_string:
            raise self.expected(where)
        path, _, attribute = token.value.rpartition(":")
        if not path or not attribute.isidentifier():
            hint = "write 'file.py:function' or 'package.module:function'"
            raise self.fail(f"{token.shown} does not name a function; {hint}")
        location = self.take().as_name
        self.expect("RETURNS", f" and {returns}")
        words = self.stretch(lambda: self.at("IN"))
        if not words:
            raise self.expected(returns)
        if is_aggregate and self.at("IN"):
            raise self.fail("IN PROCESSES goes with functions on pools, not with aggregates; leave it out")
        in_processes = self.accept("IN")
        if in_processes:
            self.expect("PROCESSES", " after IN")
        excerpt = span_of(words).excerpt
        return cql.CreateFunction(name, location, excerpt, is_aggregate, in_processes, existing=existing)

    def _format(self, clause: str) -> Name:
        if clause == "FROM" and self.at("WITH"):
            hint = "write FROM kafka OPTIONS (servers 'host:9092', topic 't')"
            raise self.fail(f"options stand behind the format of the source; {hint}")
        self.expect(clause, " and a format, such as kafka or parquet")
        first = self.name(f"a format after {clause}, such as kafka or parquet")
        # a format can be the class name of a data source
        return self.dotted(first, lambda: self.name("the rest of the format"))

    def _branches(self, end: str) -> tuple[Select, ...]:
        branches = self.read_branches()
        if not self.at_end and not self.at("INTO"):
            raise self.expected(f"{_possible_clauses(branches[-1])}, UNION ALL, {end}")
        return branches

    def _options(self) -> tuple[Setting, ...]:
        """``OPTIONS (...)``; a text before it is the option path."""
        token = self.current
        if token is None or not token.is_string:
            return self._settings("OPTIONS")
        path = self._value("path")
        written = self.since(token.span)
        own, others = Setting(Name("path", written), path, written), self._settings("OPTIONS")
        if twice := repeated([own.key, *(setting.key for setting in others)]):
            raise QueryError("the path is given twice; keep one of them", twice.span)
        return (own, *others)

    def _settings(self, clause: str) -> tuple[Setting, ...]:
        if not self.accept(clause):
            return ()
        opener = self.expect("(", f" after {clause}")
        settings = self.several(lambda: self._setting(clause))
        # Spark ignores the case of option keys, so two spellings of one key would be one option
        if twice := repeated([setting.key for setting in settings]):
            raise QueryError(f"{clause} has {one_line(twice.text)} twice; keep one of them", twice.span)
        if self.at_end:
            raise never_closed(opener)
        several_words = self.previous.kind is TokenType.NUMBER and _is_word(self.word())
        hint = " (a value of several words goes into quotes)" if several_words else ""
        self.expect(")", f" or ',' in {clause}{hint}")
        return settings

    def _setting(self, clause: str) -> Setting:
        what = f"a key in {clause}, such as path 'data/'"
        key = self.dotted(self._key_part(what), lambda: self._key_part(what))
        if not self.accept("="):
            self.accept("==")
        return Setting(key, self._value(key.text), self.since(key.span))

    def _key_part(self, what: str) -> Name:
        token = self.current
        if token is None or not (
            token.is_string or token.kind is TokenType.IDENTIFIER or _is_word(token.word)
        ):
            raise self.expected(what)
        return self.take().as_name

    def _value(self, key: str) -> str:
        token = self.current
        if token and token.is_string:
            text = self.take().value
            # sqlglot splits 'it''s' into two adjacent strings
            while (more := self.current) and more.is_string and more.span.start == self.previous.span.end:
                text += more.span.excerpt[0] + self.take().value
            return text
        if token and token.word in ("TRUE", "FALSE"):
            return self.take().value.lower()
        sign = "-" if self.accept("-") else ""
        number = self.current
        if number is None or number.kind is not TokenType.NUMBER:
            raise self.expected(f"a value for {one_line(key)}: a quoted text, a number, true or false")
        return f"{sign}{self.take().span.excerpt}"


def _possible_clauses(select: Select) -> str:
    """The clauses that could still have followed this SELECT."""
    if select.having:
        return "AND"
    if select.group_by:
        return "',', HAVING"
    return "AND, GROUP BY" if select.conjuncts else "',', JOIN, WHERE, GROUP BY"


def _is_word(word: str) -> bool:
    # any word may be a key, even one that begins a clause elsewhere
    return word.replace(" ", "_").isidentifier()

"""CQL text to statements: CREATE, DROP, ALTER POOL, PLACE, SET, SHOW and DESCRIBE."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from sqlglot.tokens import TokenType

from headgate.cql import statement as cql
from headgate.cql.select import SelectReader
from headgate.cql.statement import Name, Select, Setting, Statement
from headgate.cql.tokens import Token, never_closed, one_line, repeated, span_of
from headgate.errors import QueryError, known_names, nearest

_STATEMENTS = ("CREATE", "DROP", "ALTER", "PLACE", "SET", "SHOW", "DESCRIBE")
_KINDS = {kind.upper(): kind for kind in cql.PLURALS}
_SHOWN = (*(plural.upper() for plural in cql.PLURALS.values()), "SETTINGS")

# the first words of type names; Spark checks the inside of nested types
_TYPE_WORDS = (
    "ARRAY BIGINT BINARY BOOLEAN BYTE CHAR CHARACTER DATE DEC DECIMAL DOUBLE FLOAT GEOGRAPHY GEOMETRY INT "
    "INTEGER INTERVAL LONG MAP NUMERIC REAL SHORT SMALLINT STRING STRUCT TIME TIMESTAMP TIMESTAMP_LTZ "
    "TIMESTAMP_NTZ TINYINT VARCHAR VARIANT VOID"
)
_TYPES = tuple(_TYPE_WORDS.split())


def parse(text: str, origin: str = "<cql>") -> list[Statement]:
    """Parse all statements of a text; error messages name ``origin``, such as a file."""
    reader = StatementReader(text, origin)
    statements: list[Statement] = []
    while reader.current is not None:
        if reader.accept(";"):
            continue
        statements.append(reader.read_statement())
        if not reader.at_end:
            raise reader.expected("';' at the end of the statement")
    if not statements:
        raise reader.fail("no statement found; write CREATE STREAM, CREATE RELATION or CREATE QUERY")
    return statements


class StatementReader(SelectReader):
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
        if self.accept("SET"):
            return self._set()
        if self.accept("SHOW"):
            return cql.Show(self._one_of(_SHOWN, "SHOW").lower())
        if self.accept("DESCRIBE"):
            return self._describe()
        raise self._unknown_statement()

    def _unknown_statement(self) -> QueryError:
        if self.at("ALTER"):
            return self.fail("only pools can be altered; write ALTER POOL name SLOTS n")
        found = self.expected(f"{', '.join(_STATEMENTS[:-1])} or {_STATEMENTS[-1]}")
        if self.at("SELECT"):
            return self.fail(f"{found.message}; write CREATE QUERY name AS SELECT ...")
        return found

    def _one_of(self, words: Sequence[str], after: str) -> str:
        """One of the words, which is taken."""
        if self.word() in words:
            return self.take().word
        near = nearest(self.word(), words).strip()
        message = self.expected(f"{', '.join(words[:-1])} or {words[-1]} after {after}").message
        raise self.fail(f"{message}; {near}" if near else message)

    def _create(self) -> cql.Create:
        existing = cql.Existing.REFUSE
        if self.accept("OR"):
            self.expect("REPLACE", " after CREATE OR")
            existing = cql.Existing.REPLACE
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
            return self._function(name, existing)
        if kind == "query":
            return self._query(name, existing)
        create = cql.CreateStream if kind == "stream" else cql.CreateRelation
        columns, source_format = self._columns(), self._format("FROM")
        return create(name, columns, source_format, self._settings("OPTIONS"), existing=existing)

    def _name_of(self, kind: str, what: str) -> Name:
        name = self.name(what)
        if self.at("."):
            raise self.fail(f"the name of a {kind} has no dots; write one name")
        return name

    def _query(self, name: Name, existing: cql.Existing) -> cql.CreateQuery:
        settings = self._settings("WITH")
        self.expect("AS", " and a SELECT")
        branches, first, sink = self._branches(), self.span, None
        if self.at("INTO"):
            sink = cql.SinkClause(self._format("INTO"), self._settings("OPTIONS"), self.since(first))
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
        what = f"the name of a {kind}" if kind else "the name of a stream, relation, query, function or pool"
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

    def _slots(self) -> int:
        self.expect("SLOTS", " and how many, as in SLOTS 4")
        token = self.current
        if token is None or token.kind is not TokenType.NUMBER or not token.value.isdigit():
            raise self.expected("a whole number of slots, as in SLOTS 4")
        if int(token.value) == 0:
            raise self.fail("a pool needs at least one slot; write SLOTS 1 or more")
        return int(self.take().value)

    def _function(self, name: Name, existing: cql.Existing) -> cql.CreateFunction:
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
        words = self.stretch()
        if not words:
            raise self.expected(returns)
        return cql.CreateFunction(name, location, span_of(words).excerpt, existing=existing)

    def _format(self, clause: str) -> Name:
        self.expect(clause, " and a format, such as kafka or parquet")
        first = self.name(f"a format after {clause}, such as kafka or parquet")
        # a format can be the class name of a data source
        return self.dotted(first, lambda: self.name("the rest of the format"))

    def _branches(self) -> tuple[Select, ...]:
        branches = [self.read_select()]
        while self.at("UNION"):
            if not self.accept("UNION", "ALL"):
                raise self.fail("UNION would have to remember all rows to drop duplicates; write UNION ALL")
            branches.append(self.read_select())
        if not self.at_end and not self.at("INTO"):
            raise self.expected(f"{_possible_clauses(branches[-1])}, UNION ALL, INTO or ';'")
        return tuple(branches)

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

    def _columns(self) -> tuple[cql.ColumnDefinition, ...]:
        if not self.at("("):
            return ()
        opener = self.take()
        columns = self.several(lambda: self._column(opener))
        self.expect(")", " or ',' after the column")
        if twice := repeated([column.name for column in columns]):
            raise QueryError(
                f"column {one_line(twice.text)} is declared twice; rename one of them", twice.span
            )
        return columns

    def _column(self, opener: Token) -> cql.ColumnDefinition:
        name = self.name("a column name")
        tokens = self._type(opener)
        if not tokens:
            raise self.expected(f"a type for column {one_line(name.text)}, such as STRING")
        if tokens[0].word not in _TYPES:
            close = get_close_matches(tokens[0].word, _TYPES, n=1)
            hint = f"did you mean {close[0]}?" if close else f"known types: {known_names(_TYPES)}"
            raise QueryError(f"unknown type {tokens[0].shown}; {hint}", tokens[0].span)
        if [token.word for token in tokens[-2:]] == ["NOT", "NULL"]:
            # as in Spark, streams may carry nulls whatever the schema says
            tokens = tokens[:-2]
        return cql.ColumnDefinition(name, span_of(tokens).excerpt)

    def _type(self, opener: Token) -> list[Token]:
        """All tokens up to the comma or parenthesis after the type; ``<`` and ``>`` are brackets here."""
        tokens: list[Token] = []
        open_angles: list[Token] = []
        while True:
            tokens += self.stretch(lambda: self.word() in ("<", ">"))
            if self.at("<"):
                open_angles.append(self.take())
            elif open_angles and self.accept(">"):
                open_angles.pop()
            elif not (open_angles and self.accept(",")):
                break
            tokens.append(self.previous)
        if open_angles:
            raise QueryError("'<' is never closed; add '>'", open_angles[-1].span)
        if self.at_end:
            raise never_closed(opener)
        return tokens


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

"""Tokens of a CQL text, and a cursor over them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, pairwise
from typing import ClassVar, TypeVar

from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError
from sqlglot.tokens import Token as SqlglotToken
from sqlglot.tokens import TokenType

from headgate.cql.syntax import Name
from headgate.errors import QueryError, Span

Part = TypeVar("Part")

_LONGEST = 30
CLOSERS = {"(": ")", "[": "]"}

# words that begin or join clauses: as names they would hide a missing clause
_RESERVED_WORDS = (
    "SELECT FROM WHERE HAVING UNION INTO JOIN ON AS INNER LEFT RIGHT FULL CROSS NATURAL OUTER SEMI ANTI "
    "USING LIMIT WITH OPTIONS CREATE EXCEPT INTERSECT LATERAL QUALIFY AND OR NOT DISTINCT"
)
_RESERVED = frozenset(_RESERVED_WORDS.split())
_STRINGS = (TokenType.STRING, TokenType.RAW_STRING)
_WITHOUT_WORD = frozenset({*_STRINGS, TokenType.NUMBER, TokenType.HEX_STRING, TokenType.IDENTIFIER})
# what begins a statement that writes
_WRITES = ("INSERT", "MERGE", "DELETE", "UPDATE")
# any of them may be a name, but these pairs occur in no SELECT
_INSERTS = (("INSERT", "INTO"), ("INSERT", "OVERWRITE"), ("MERGE", "INTO"))
_QUOTED_OR_COMMENT = re.compile(
    r"--[^\n]*|/\*.*?\*/|[rR]'[^']*'|[rR]\"[^\"]*\"|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|(?P<open>/\*|['\"`])|.",
    re.DOTALL,
)


class _Tokenizer(Spark.Tokenizer):
    # sqlglot does not read the words after SHOW and other commands that it passes on as they are
    COMMANDS: ClassVar[set[TokenType]] = set()


def one_line(text: str) -> str:
    """The text on one line, truncated if it is long."""
    flat = " ".join(text.split())
    return flat if len(flat) <= _LONGEST else f"{flat[: _LONGEST - 3]}..."


@dataclass(frozen=True)
class Token:
    """One token: ``word`` is its text in upper case, empty for quoted names and literals."""

    kind: TokenType
    value: str
    word: str
    span: Span
    parts: tuple[SqlglotToken, ...]
    is_aggregate: bool = False
    """Whether it names an aggregate function of the user's."""

    @property
    def is_string(self) -> bool:
        return self.kind in _STRINGS

    @property
    def is_name(self) -> bool:
        """Whether it can be a name: backquoted, or a word that begins no clause."""
        is_free = self.word not in _RESERVED and self.word.isidentifier()
        return is_free or self.kind is TokenType.IDENTIFIER

    @property
    def as_name(self) -> Name:
        return Name(self.value, self.span)

    @property
    def shown(self) -> str:
        flat = one_line(self.span.excerpt)
        return flat if flat.startswith(("'", '"', "`")) else f"'{flat}'"


def _declared_aggregates(tokens: Sequence[Token]) -> Iterator[str]:
    """The names that CREATE AGGREGATE FUNCTION declares."""
    words = [token.word for token in tokens]
    for index in range(len(words) - 2):
        if words[index : index + 2] == ["AGGREGATE", "FUNCTION"]:
            skipped = 3 if words[index + 2 : index + 5] == ["IF", "NOT", "EXISTS"] else 0
            yield from (token.value.lower() for token in tokens[index + 2 + skipped : index + 3 + skipped])


def span_of(tokens: Sequence[Token]) -> Span:
    first, last = tokens[0].span, tokens[-1].span
    return Span(first.text, first.start, last.end, first.origin)


class Cursor:
    """A position in the tokens of a text."""

    def __init__(self, text: str, origin: str, aggregates: Collection[str] = ()) -> None:
        try:
            raw = _Tokenizer(Spark()).tokenize(text)
        except TokenError:
            raise _unclosed(text, origin) from None
        # sqlglot splits 10L into three tokens (number, cast, type) at one offset; here it is one
        groups = [tuple(group) for _, group in groupby(raw, key=lambda token: token.start)]
        self._tokens: list[Token] = []
        self._index = 0
        for parts in groups:
            kind, value = parts[0].token_type, parts[0].text
            word = "" if kind in _WITHOUT_WORD else " ".join(value.upper().split())
            span = Span(text, parts[0].start, parts[-1].end + 1, origin)
            self._tokens.append(Token(kind, value, word, span, parts))
        known = {*aggregates, *_declared_aggregates(self._tokens)}
        if known:
            self._tokens = [replace(one, is_aggregate=one.value.lower() in known) for one in self._tokens]
        end = self._tokens[-1].span.end if self._tokens else len(text.rstrip())
        self._end = Span(text, max(0, end - 1), end, origin)

    @property
    def current(self) -> Token | None:
        return self.ahead(0)

    @property
    def span(self) -> Span:
        """That of the next token; at the end of the text, that of its last character."""
        return self.current.span if self.current else self._end

    @property
    def previous(self) -> Token:
        return self._tokens[self._index - 1]

    def ahead(self, distance: int) -> Token | None:
        """The token at a distance from the current one; a negative distance looks back."""
        index = self._index + distance
        return self._tokens[index] if 0 <= index < len(self._tokens) else None

    def word(self, distance: int = 0) -> str:
        token = self.ahead(distance)
        return token.word if token else ""

    def at(self, *words: str) -> bool:
        return all(self.word(distance) == word for distance, word in enumerate(words))

    @property
    def at_end(self) -> bool:
        return self.current is None or self.at(";")

    def take(self) -> Token:
        token = self._tokens[self._index]
        self._index += 1
        return token

    def mentions(self, name: str) -> bool:
        """Whether a name occurs anywhere in the text."""
        return name in self._names

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(token.value.lower() for token in self._tokens)

    def read_again(self, token: Token, read: Callable[[], Part]) -> Part:
        """Read from a token that was taken already; the position stays."""
        index = self._index
        self._index = bisect_left(self._tokens, token.span.start, key=lambda one: one.span.start)
        found = read()
        self._index = index
        return found

    def accept(self, *words: str) -> bool:
        if not self.at(*words):
            return False
        self._index += len(words)
        return True

    def expect(self, word: str, hint: str = "") -> Token:
        if not self.at(word):
            raise self.expected(f"{word if word[0].isalpha() else repr(word)}{hint}")
        return self.take()

    def name(self, what: str) -> Name:
        token = self.current
        if token is None or not token.is_name:
            unusual = token is not None and (token.is_string or token.word in _RESERVED)
            raise self.expected(f"{what} (an unusual name goes into backquotes)" if unusual else what)
        return self.take().as_name

    def dotted(self, first: Name, read: Callable[[], Name]) -> Name:
        text = first.text
        while self.accept("."):
            text += f".{read().text}"
        return Name(text, self.since(first.span))

    def several(self, read: Callable[[], Part]) -> tuple[Part, ...]:
        parts = [read()]
        while self.accept(","):
            parts.append(read())
        return tuple(parts)

    def stretch(self, stops: Callable[[], bool] = lambda: False) -> list[Token]:
        """Read up to the next comma, closing bracket or stop outside of brackets."""
        taken: list[Token] = []
        open_brackets: list[Token] = []
        while not self.at_end and (open_brackets or not (self.word() in {",", ")", "]"} or stops())):
            token = self.take()
            taken.append(token)
            if token.word in CLOSERS:
                open_brackets.append(token)
            elif token.word in CLOSERS.values() and CLOSERS[open_brackets.pop().word] != token.word:
                message = f"{token.shown} has no opening bracket; check the brackets before it"
                raise QueryError(message, token.span)
        if open_brackets:
            raise never_closed(open_brackets[-1])
        return taken

    def since(self, first: Span) -> Span:
        return Span(first.text, first.start, self.previous.span.end, first.origin)

    def fail(self, message: str) -> QueryError:
        return QueryError(message, self.span)

    def expected(self, what: str) -> QueryError:
        found = self.current.shown if self.current else "the end of the text"
        return self.fail(f"expected {what}, found {found}")


def _unclosed(text: str, origin: str) -> QueryError:
    for match in _QUOTED_OR_COMMENT.finditer(text):
        if opener := match["open"]:
            what, closer = ("comment", "*/") if opener == "/*" else ("quote", opener)
            message = f"the {what} {opener} is never closed; add {closer}"
            return QueryError(message, Span(text, *match.span(), origin))
    whole = Span(text, 0, len(text), origin)
    return QueryError("this text cannot be tokenised; check its quotes and comments", whole)


def statements_in(text: str) -> tuple[list[str], str]:
    """The statements that a semicolon ends, and what follows them; comments alone are neither."""
    found: list[str] = []
    begin, is_blank = 0, True
    for match in _QUOTED_OR_COMMENT.finditer(text):
        part = match.group()
        if part == ";":
            found += [] if is_blank else [text[begin : match.end()].strip()]
            begin, is_blank = match.end(), True
        elif match["open"]:
            is_blank = False
            break
        elif not part.isspace() and not part.startswith(("--", "/*")):
            is_blank = False
    return found, "" if is_blank else text[begin:].lstrip()


def check_only_reads(text: str) -> None:
    """Raise if a SELECT writes: Spark lets INSERT and others follow WITH, and does it at once."""
    tokens = Cursor(text, "sql")._tokens
    begin = _behind_with(tokens)
    for index, (token, follower) in enumerate(pairwise(tokens)):
        if (token.word, follower.word) in _INSERTS or (index == begin and token.word in _WRITES):
            raise QueryError("a SELECT reads tables; to write, CREATE QUERY ... INTO", token.span)


def _behind_with(tokens: Sequence[Token]) -> int:
    """The index of the first token behind WITH and what it defines; without it, the first one of all."""
    if not tokens or tokens[0].word != "WITH":
        return 0
    depth = 0
    for index, (before, token) in enumerate(pairwise(tokens)):
        depth += (before.word == "(") - (before.word == ")")
        # WITH a (x, y) AS (...), b AS (...)
        if depth == 0 and before.word == ")" and token.word not in (",", "AS", "(", "MAX"):
            return index + 1
    return len(tokens)


def never_closed(opener: Token) -> QueryError:
    return QueryError(f"{opener.shown} is never closed; add '{CLOSERS[opener.word]}'", opener.span)


def repeated(names: Sequence[Name]) -> Name | None:
    """The first name that has occurred before, in whatever case."""
    texts = [name.text.lower() for name in names]
    return next((name for number, name in enumerate(names) if texts[number] in texts[:number]), None)


def partners(tokens: Sequence[Token]) -> dict[int, int]:
    """The index of the closing bracket for every opening one; brackets must be balanced."""
    pairs: dict[int, int] = {}
    opened: list[int] = []
    for index, token in enumerate(tokens):
        if token.word in CLOSERS:
            opened.append(index)
        elif token.word in CLOSERS.values():
            pairs[opened.pop()] = index
    return pairs


def outside_brackets(tokens: Sequence[Token]) -> Iterator[int]:
    """The indexes of the tokens outside of brackets and of CASE ... END."""
    brackets = cases = 0
    for index, token in enumerate(tokens):
        brackets -= token.word in CLOSERS.values()
        after_dot = index > 0 and tokens[index - 1].word == "."
        if brackets == 0 and not after_dot:
            cases += token.word == "CASE"
            if cases == 0:
                yield index
            cases -= token.word == "END" and cases > 0
        brackets += token.word in CLOSERS

"""Tokens of a CQL text, and a cursor over them.

sqlglot's Spark tokeniser does the lexical work (comments, escapes, backquotes), so that CQL and the
Spark expressions inside of it agree on where every token begins and ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from sqlglot.dialects import Spark
from sqlglot.errors import TokenError
from sqlglot.tokens import Token as SqlglotToken
from sqlglot.tokens import TokenType

from headgate.cql.statement import Name
from headgate.cql.wording import one_line
from headgate.errors import QueryError, Span

CLOSERS = {"(": ")", "[": "]"}

# words that begin or join clauses: as names they would hide a clause that was forgotten
_RESERVED_WORDS = (
    "SELECT FROM WHERE HAVING UNION INTO JOIN ON AS INNER LEFT RIGHT FULL CROSS NATURAL OUTER SEMI ANTI "
    "USING LIMIT WITH OPTIONS CREATE EXCEPT INTERSECT LATERAL QUALIFY AND OR NOT DISTINCT"
)
RESERVED = frozenset(_RESERVED_WORDS.split())

_LITERALS = frozenset({TokenType.STRING, TokenType.RAW_STRING, TokenType.NUMBER, TokenType.HEX_STRING})

_QUOTED_OR_COMMENT = re.compile(
    r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|(?P<open>/\*|['\"`])|.", re.DOTALL
)


@dataclass(frozen=True)
class Token:
    """One token: ``word`` is its text in upper case, empty for quoted names and literals."""

    kind: TokenType
    value: str
    word: str
    span: Span
    parts: tuple[SqlglotToken, ...]

    @property
    def is_string(self) -> bool:
        """Whether it is a quoted string."""
        return self.kind in (TokenType.STRING, TokenType.RAW_STRING)

    @property
    def is_name(self) -> bool:
        """Whether it can name something: backquoted, or a word that begins no clause."""
        if self.kind is TokenType.IDENTIFIER:
            return True
        return self.word not in RESERVED and self.word.isidentifier()

    @property
    def shown(self) -> str:
        """The token as it appears in a one-line message."""
        flat = one_line(self.span.excerpt)
        return flat if flat.startswith(("'", '"', "`")) else f"'{flat}'"


def cover(first: Span, last: Span) -> Span:
    """The stretch from the beginning of one span to the end of another."""
    return Span(first.text, first.start, last.end, first.origin)


def span_of(tokens: Sequence[Token]) -> Span:
    """The stretch that some neighbouring tokens take."""
    return cover(tokens[0].span, tokens[-1].span)


def tokenise(text: str, origin: str) -> Cursor:
    """Cut the text into tokens."""
    try:
        raw = Spark().tokenize(text)
    except TokenError:
        raise _unclosed(text, origin) from None
    # 10L arrives as three tokens (a number, a cast, a type) in one place: for us it is one
    groups = [tuple(group) for _, group in groupby(raw, key=lambda token: token.start)]
    return Cursor(text, origin, [_token(group, text, origin) for group in groups])


def _token(parts: tuple[SqlglotToken, ...], text: str, origin: str) -> Token:
    first = parts[0]
    span = Span(text, first.start, parts[-1].end + 1, origin)
    literal = first.token_type in _LITERALS or first.token_type is TokenType.IDENTIFIER
    word = "" if literal else " ".join(first.text.upper().split())
    return Token(first.token_type, first.text, word, span, parts)


def _unclosed(text: str, origin: str) -> QueryError:
    for match in _QUOTED_OR_COMMENT.finditer(text):
        if opener := match["open"]:
            what, closer = ("comment", "*/") if opener == "/*" else ("quote", opener)
            return QueryError(
                f"the {what} {opener} is never closed; add {closer}", Span(text, *match.span(), origin)
            )
    return QueryError(
        "this text cannot be cut into tokens; check its quotes and comments", end_of(text, origin)
    )


def end_of(text: str, origin: str) -> Span:
    """The last character that is no white space."""
    end = len(text.rstrip())
    return Span(text, max(0, end - 1), end, origin)


class Cursor:
    """A place in the token list that moves forward only."""

    def __init__(self, text: str, origin: str, tokens: Sequence[Token]) -> None:
        self._text = text
        self._origin = origin
        self._tokens = tokens
        self._index = 0

    @property
    def current(self) -> Token | None:
        """The token to be read next, None at the end of the text."""
        return self.ahead(0)

    @property
    def previous(self) -> Token:
        """The token read last."""
        return self._tokens[self._index - 1]

    def ahead(self, distance: int) -> Token | None:
        """The token so far ahead (or behind, when negative) of the current one."""
        index = self._index + distance
        return self._tokens[index] if 0 <= index < len(self._tokens) else None

    def word(self, distance: int = 0) -> str:
        """The word of a token near by, empty when there is none."""
        token = self.ahead(distance)
        return token.word if token else ""

    def at(self, *words: str) -> bool:
        """Whether the next tokens are these words."""
        return all(self.word(distance) == word for distance, word in enumerate(words))

    @property
    def at_end(self) -> bool:
        """Whether the statement ends here."""
        return self.current is None or self.at(";")

    def take(self) -> Token:
        """Read a token, of which there must be one."""
        token = self._tokens[self._index]
        self._index += 1
        return token

    def accept(self, *words: str) -> bool:
        """Read these words if they come next."""
        if not self.at(*words):
            return False
        self._index += len(words)
        return True

    def expect(self, word: str, hint: str = "") -> Token:
        """Read this word, or fail."""
        if not self.at(word):
            raise self.expected(f"{word if word[0].isalpha() else repr(word)}{hint}")
        return self.take()

    def name(self, what: str) -> Name:
        """Read an identifier, or fail saying what it should name."""
        token = self.current
        if token is None or not token.is_name:
            unusual = token is not None and (token.is_string or token.word in RESERVED)
            raise self.expected(f"{what} (an unusual name goes into backquotes)" if unusual else what)
        self.take()
        return Name(token.value, token.span)

    def fail(self, message: str) -> QueryError:
        """An error at the current token; at the end of the text, at its last character."""
        return QueryError(message, self.current.span if self.current else self._end())

    def expected(self, what: str) -> QueryError:
        """An error that says what should stand here."""
        found = self.current.shown if self.current else "the end of the text"
        return self.fail(f"expected {what}, found {found}")

    def since(self, first: Span) -> Span:
        """The stretch from there to the token read last."""
        return cover(first, self.previous.span)

    def stretch(self, stops: Callable[[Cursor], bool]) -> list[Token]:
        """Read up to the next comma, closing bracket or stop that is in no bracket itself."""
        taken: list[Token] = []
        open_brackets: list[Token] = []
        while not self.at_end and (open_brackets or not (self.word() in {",", ")", "]"} or stops(self))):
            token = self.take()
            taken.append(token)
            if token.word in CLOSERS:
                open_brackets.append(token)
            elif token.word in CLOSERS.values() and CLOSERS[open_brackets.pop().word] != token.word:
                raise QueryError(f"{token.shown} closes nothing; check the brackets before it", token.span)
        if open_brackets:
            raise never_closed(open_brackets[-1])
        return taken

    def _end(self) -> Span:
        if not self._tokens:
            return end_of(self._text, self._origin)
        last = self._tokens[-1].span
        return Span(last.text, last.end - 1, last.end, last.origin)


def new_name(cursor: Cursor, kind: str) -> Name:
    """Read the name of something that a statement creates."""
    name = cursor.name(f"a name for the {kind}")
    if cursor.at("."):
        raise cursor.fail(f"the name of a {kind} has no dots; write one name")
    return name


def never_closed(opener: Token) -> QueryError:
    """The error of a bracket without its partner."""
    return QueryError(f"{opener.shown} is never closed; add '{CLOSERS[opener.word]}'", opener.span)

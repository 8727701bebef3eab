"""Expressions as text: cut into tokens, compared without regard to spelling, changed by span."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from headgate.errors import Span

_TOKEN = re.compile(
    r"""
      (?P<blank> (?: \s+ | --[^\n]* | /\*.*?\*/ )+ )
    | (?P<string> [rR]'[^']*' | [rR]"[^"]*" | '(?: [^'\\] | \\. | '' )*' | "(?: [^"\\] | \\. | "" )*" )
    | `(?: [^`] | `` )*`
    | \w+
    | <=> | >>> | << | >> | <= | >= | <> | != | == | \|\| | :: | -> | =>
    | .
    """,
    re.VERBOSE | re.DOTALL,
)
# what a terminal would obey, or a reader take for the end of a line; behind a backslash it stands for itself
_CONTROL = re.compile(r"\\(?P<escaped>.)|(?P<plain>[\x00-\x1f\x7f-\x9f\u2028\u2029])", re.DOTALL)
_NAMED_CONTROLS = {"\n": r"\n", "\t": r"\t", "\r": r"\r"}


@dataclass(frozen=True)
class Token:
    """A token at ``start`` to ``end`` of a text; ``key`` is equal for what Spark takes for equal."""

    key: str
    start: int
    end: int


@dataclass(frozen=True)
class Replacement:
    """New text for a stretch of an expression as the user wrote it."""

    span: Span
    text: str


def quoted(name: str) -> str:
    """The name as Spark reads it whatever its characters are."""
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


def tokens_of(text: str) -> list[Token]:
    """All tokens but blanks and comments."""
    tokens: list[Token] = []
    for match in _TOKEN.finditer(text):
        if match.lastgroup == "blank":
            continue
        key = match[0] if match.lastgroup == "string" else match[0].lower()
        # a field can do without quotes, where a name could be a keyword
        if tokens and tokens[-1].key == ".":
            key = key.strip("`")
        tokens.append(Token(key, match.start(), match.end()))
    return tokens


def signature(text: str) -> tuple[str, ...]:
    """Equal for expressions that differ in blanks, comments and case only."""
    return tuple(token.key for token in tokens_of(text))


def on_one_line(text: str) -> str:
    """The text with every run of blanks and comments made one space, and control characters escaped."""
    return "".join(map(_on_one_line, _TOKEN.finditer(text))).strip()


def _on_one_line(token: re.Match[str]) -> str:
    if token.lastgroup == "blank":
        return " "
    return _escaped(token[0]) if token.lastgroup == "string" else token[0]


def _escaped(literal: str) -> str:
    """The same string, without a character that would break a line."""
    if literal.isprintable():
        return literal
    if literal[0] in "rR":
        literal = literal[1] + literal[2:].replace("\\", r"\\")
    return _CONTROL.sub(_escaped_control, literal)


def _escaped_control(match: re.Match[str]) -> str:
    character = match["plain"] or match["escaped"]
    if not _CONTROL.fullmatch(character):
        return match[0]
    return _NAMED_CONTROLS.get(character, f"\\u{ord(character):04x}")


def replaced(span: Span, replacements: Iterable[Replacement]) -> tuple[str, list[int]]:
    """The text of ``span`` with all replacements made, and where in it each of them begins."""
    text, done, starts = "", span.start, []
    for replacement in sorted(replacements, key=lambda r: r.span.start):
        text += span.text[done : replacement.span.start]
        starts.append(len(text))
        text += replacement.text
        done = replacement.span.end
    return text + span.text[done : span.end], starts

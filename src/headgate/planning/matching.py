"""Find group keys inside of expressions, where replacing them keeps the meaning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headgate.planning.text import Token, tokens_of

# how tightly operators bind in Spark SQL; an unknown word may be an operator that binds tightest
_DELIMITERS = ("(", ")", "[", "]", ",", "->", "case", "when", "then", "else", "end", "from", "as")
_COMPARISONS = ("=", "==", "<=>", "<", ">", "<=", ">=", "<>", "!=", "!")
_TIGHTNESS = {
    **dict.fromkeys(_DELIMITERS, -1),
    "or": 1,
    "and": 2,
    "not": 3,
    **dict.fromkeys(_COMPARISONS, 4),
    **dict.fromkeys(("like", "ilike", "rlike", "regexp", "in", "is", "between", "escape"), 4),
    "|": 5,
    "^": 6,
    "&": 7,
    **dict.fromkeys(("<<", ">>", ">>>"), 8),
    **dict.fromkeys(("+", "-", "||"), 9),
    **dict.fromkeys(("*", "/", "%", "div"), 10),
}
_OPENING = frozenset({"(", "[", "case"})
_CLOSING = frozenset({")", "]", "end"})
_SIGN = 11
_UNKNOWN = 11
_ATOM = 12


@dataclass(frozen=True)
class Match:
    """A stretch of a text that is the key number ``key``."""

    start: int
    end: int
    key: int


def find_keys(text: str, keys: Sequence[str]) -> list[Match]:
    """The places of the keys in the text, longest keys first, none within another."""
    tokens = tokens_of(text)
    wanted = {number: tokens_of(key) for number, key in enumerate(keys)}
    matches: list[Match] = []
    for number in sorted(wanted, key=lambda n: -len(wanted[n])):
        for match in _occurrences(tokens, wanted[number], number):
            if all(match.end <= other.start or other.end <= match.start for other in matches):
                matches.append(match)
    return sorted(matches, key=lambda match: match.start)


def _occurrences(tokens: Sequence[Token], key: Sequence[Token], number: int) -> Iterator[Match]:
    words, level = [token.key for token in key], _level(key)
    for first in range(len(tokens) - len(key) + 1):
        last = first + len(key) - 1
        if [token.key for token in tokens[first : last + 1]] != words:
            continue
        if _left(tokens, first) < level and _right(tokens, last) <= level:
            yield Match(tokens[first].start, tokens[last].end, number)


def _left(tokens: Sequence[Token], first: int) -> int:
    if first == 0:
        return -1
    before = tokens[first - 1].key
    is_sign = before in ("+", "-") and (first == 1 or tokens[first - 2].key in _TIGHTNESS.keys() - _CLOSING)
    if is_sign:
        # one sign may stand before another, but before no product
        return _SIGN - 1
    return _ATOM if before == "." else _TIGHTNESS.get(before, _UNKNOWN)


def _right(tokens: Sequence[Token], last: int) -> int:
    if last + 1 == len(tokens):
        return -1
    after = tokens[last + 1].key
    return _ATOM if after in ("(", "[", ".") else _TIGHTNESS.get(after, _ATOM)


def has_or(text: str) -> bool:
    """Whether the expression is an OR, not in brackets."""
    return any(token.key == "or" for token in _outside_brackets(tokens_of(text)))


def _level(key: Sequence[Token]) -> int:
    """How tightly the loosest operator outside of brackets binds; 0 for syntax not known here."""
    level, after_operand = _ATOM, False
    for token in _outside_brackets(key):
        if token.key in _TIGHTNESS and token.key not in _OPENING | _CLOSING:
            is_sign = token.key in ("+", "-") and not after_operand
            level = min(level, _SIGN if is_sign else max(0, _TIGHTNESS[token.key]))
            after_operand = False
        elif token.key == "." or token.key in _OPENING:
            after_operand = False
        else:
            if after_operand and token.key not in _CLOSING:
                level = 0
            after_operand = True
    return level


def _outside_brackets(tokens: Sequence[Token]) -> Iterator[Token]:
    """The tokens that stand in no bracket and in no CASE, and the brackets around those that do."""
    depth, before = 0, ""
    for token in tokens:
        # a field can be called end
        is_word = before != "."
        depth -= token.key in _CLOSING and is_word
        if depth == 0:
            yield token
        depth += token.key in _OPENING and is_word
        before = token.key

"""Where brackets, and CASE ... END, begin and end in a list of tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headgate.cql.tokens import CLOSERS, Token


def partners(tokens: Sequence[Token]) -> dict[int, int]:
    """The index of the closing bracket for that of every opening one; brackets must be balanced."""
    pairs: dict[int, int] = {}
    opened: list[int] = []
    for index, token in enumerate(tokens):
        if token.word in CLOSERS:
            opened.append(index)
        elif token.word in CLOSERS.values():
            pairs[opened.pop()] = index
    return pairs


def outside_brackets(tokens: Sequence[Token]) -> Iterator[int]:
    """The indexes of the tokens that stand in no bracket and in no CASE ... END."""
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

"""Conditions of WHERE and ON, split at AND."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.cql.brackets import outside_brackets, partners
from headgate.cql.expressions import scalar_without_aggregates
from headgate.cql.statement import ScalarExpression
from headgate.cql.tokens import Token
from headgate.errors import QueryError


def conjuncts(tokens: Sequence[Token], clause: str) -> list[ScalarExpression]:
    """The condition, split at the ANDs that are not inside of anything else."""
    return [scalar_without_aggregates(term, clause) for term in _terms(tokens)]


def _terms(tokens: Sequence[Token]) -> list[Sequence[Token]]:
    terms: list[Sequence[Token]] = []
    pending = [tokens]
    while pending:
        term = pending.pop()
        parts = _cut_at_and(_unwrapped(term))
        if len(parts) == 1:
            terms.append(term)
        else:
            pending.extend(reversed(parts))
    return terms


def _unwrapped(tokens: Sequence[Token]) -> Sequence[Token]:
    pairs = partners(tokens)
    first, last = 0, len(tokens) - 1
    while last - first > 1 and pairs.get(first) == last:
        first, last = first + 1, last - 1
    return tokens[first : last + 1]


def _cut_at_and(tokens: Sequence[Token]) -> list[Sequence[Token]]:
    parts: list[Sequence[Token]] = []
    start = betweens = 0
    for index in outside_brackets(tokens):
        token = tokens[index]
        # OR binds weaker than AND; a comma or an arrow makes it a list or a lambda, no condition
        if token.word in ("OR", ",", "->"):
            return [tokens]
        betweens += token.word == "BETWEEN"
        if token.word == "AND":
            if betweens:
                betweens -= 1
                continue
            parts.append(_operand(tokens[start:index], token))
            start = index + 1
    if parts:
        return [*parts, _operand(tokens[start:], tokens[start - 1])]
    return [tokens]


def _operand(tokens: Sequence[Token], conjunction: Token) -> Sequence[Token]:
    if not tokens:
        raise QueryError("AND needs a condition on both sides; add it", conjunction.span)
    return tokens

"""Calls of placed functions: found in predicates, and taken apart so that a pool can be asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from headgate.errors import QueryError
from headgate.model.expression import Expression
from headgate.model.operator import ByComparison, ByTruth, PlacedPredicate
from headgate.model.pool import FunctionDefinition
from headgate.planning.placements import Placements
from headgate.planning.text import Token, tokens_of

_MIRRORED = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_SPELLINGS = {"==": "=", "!=": "<>"}
# what binds no tighter than a comparison cannot stand beside one
_LOOSE = frozenset({*_MIRRORED, *_SPELLINGS, "<=>", "!", "and", "or", "not"}) | frozenset(
    {"between", "in", "is", "like", "ilike", "rlike", "regexp", "escape"}
)
_TRUTHS = ("true", "false", "CAST(NULL AS BOOLEAN)")


@dataclass(frozen=True)
class _Call:
    """A call of a placed function: the tokens from its name to its closing bracket."""

    function: FunctionDefinition
    pool: str
    first: int
    last: int


def marked(predicate: Expression, placements: Placements) -> Expression:
    """The conjunct with the pool that it needs; a QueryError if it cannot be asked of a pool."""
    calls = _calls(tokens_of(predicate.text), placements)
    if not calls:
        return predicate
    if len(calls) > 1:
        names = f"{calls[0].function.name} and {calls[1].function.name}"
        message = f"{names} are placed on pools and called in one condition; write one call between ANDs"
        raise QueryError(message, predicate.span)
    found = replace(predicate, pool=calls[0].pool)
    placed_predicate(found, placements)
    return found


def refuse(expression: Expression, placements: Placements) -> Expression:
    """The expression, if it calls no placed function."""
    if calls := _calls(tokens_of(expression.text), placements):
        call = calls[0]
        message = f"{call.function.name} is placed on pool {call.pool} and can be called in WHERE only"
        raise QueryError(message, expression.span)
    return expression


def placed_predicate(predicate: Expression, placements: Placements) -> PlacedPredicate:
    """A marked conjunct taken apart: the call, its arguments, and what its result decides."""
    tokens = tokens_of(predicate.text)
    [call] = _calls(tokens, placements)
    verdict = (
        _by_truth(predicate, tokens, call)
        if call.function.is_boolean
        else _by_comparison(predicate, tokens, call)
    )
    return PlacedPredicate(
        text=predicate.text,
        function=call.function.name,
        arguments=tuple(
            replace(predicate, text=text, pool=None) for text in _arguments(predicate.text, tokens, call)
        ),
        verdict=verdict,
        pool=call.pool,
    )


def _calls(tokens: Sequence[Token], placements: Placements) -> list[_Call]:
    calls = []
    for place, token in enumerate(tokens[:-1]):
        # behind a dot it is a field
        if tokens[place + 1].key != "(" or (place and tokens[place - 1].key == "."):
            continue
        if found := placements.placed(token.key.strip("`")):
            calls.append(_Call(*found, place, _closing(tokens, place + 1)))
    return calls


def _closing(tokens: Sequence[Token], opening: int) -> int:
    depth = 0
    for place in range(opening, len(tokens)):
        depth += tokens[place].key in ("(", "[")
        depth -= tokens[place].key in (")", "]")
        if depth == 0:
            return place
    return len(tokens) - 1


def _arguments(text: str, tokens: Sequence[Token], call: _Call) -> list[str]:
    first, found, depth = tokens[call.first + 1].end, [], 0
    for token in tokens[call.first + 2 : call.last]:
        depth += token.key in ("(", "[")
        depth -= token.key in (")", "]")
        if token.key == "," and depth == 0:
            found.append(text[first : token.start].strip())
            first = token.end
    last = text[first : tokens[call.last].start].strip()
    return [*found, last] if last else []


def _by_truth(predicate: Expression, tokens: Sequence[Token], call: _Call) -> ByTruth:
    before, after = predicate.text[: tokens[call.first].start], predicate.text[tokens[call.last].end :]
    return ByTruth(*(replace(predicate, text=f"{before}{t}{after}", pool=None) for t in _TRUTHS))


def _by_comparison(predicate: Expression, tokens: Sequence[Token], call: _Call) -> ByComparison:
    first, last = 0, len(tokens) - 1
    while tokens[first].key == "(" and first < call.first and _closing(tokens, first) == last:
        first, last = first + 1, last - 1
    if call.first == first and call.last + 1 < last:
        sign, other = tokens[call.last + 1], tokens[call.last + 2 : last + 1]
        mirrored = False
    elif call.last == last and call.first - 1 > first:
        sign, other = tokens[call.first - 1], tokens[first : call.first - 1]
        mirrored = True
    else:
        raise _no_comparison(predicate, call)
    comparison = _SPELLINGS.get(sign.key, sign.key)
    if comparison not in _MIRRORED or _is_loose(other):
        raise _no_comparison(predicate, call)
    text = predicate.text[other[0].start : other[-1].end]
    return ByComparison(
        _MIRRORED[comparison] if mirrored else comparison, replace(predicate, text=text, pool=None)
    )


def _is_loose(tokens: Sequence[Token]) -> bool:
    depth = 0
    for token in tokens:
        depth -= token.key in (")", "]", "end")
        if depth == 0 and token.key in _LOOSE:
            return True
        depth += token.key in ("(", "[", "case")
    return False


def _no_comparison(predicate: Expression, call: _Call) -> QueryError:
    name = call.function.name
    return QueryError(
        f"{name} is placed on pool {call.pool} and returns {call.function.returns}; "
        f"write {name}(...) = something, or a function that RETURNS BOOLEAN",
        predicate.span,
    )

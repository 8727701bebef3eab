"""Predicates told apart by what they say, whatever the order of sides, blanks, case and quotes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from headgate.model.expression import Expression, column_of
from headgate.planning.logical import RelationScan, StreamScan
from headgate.planning.text import signature, tokens_of

Form = tuple[str, ...]

_MIRRORED = {"=": "=", "<=>": "<=>", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_SPELLINGS = {"==": "=", "!=": "<>"}
_LOOSER = frozenset({"and", "or", "not", "between", "case"})
_VOLATILE = re.compile(r"rand|randn|random|uuid|uniform|randstr|shuffle|monotonically_increasing_id")
Scan = StreamScan | RelationScan
Running = Callable[[str], str]


@dataclass(frozen=True)
class Asked:
    """A predicate whose figures are wanted: how it can be written, and where in the network it is asked.

    ``plan_text`` is how the plan has it.
    """

    text: str
    forms: tuple[Form, ...]
    operator: str
    plan_text: str = ""


def asked_of(predicates: Iterable[Expression], scans: Iterable[Scan], operator: str) -> list[Asked]:
    """The predicates of an operator, as figures are looked for."""
    own = tuple(scans)
    return [Asked(shown(p, own), forms_of(p, own), operator, p.text) for p in predicates]


def form_of(text: str) -> Form:
    """Equal for predicates that say the same."""
    return _canonical([token.key.strip("`") for token in tokens_of(text)])


def forms_of(predicate: Expression, scans: Iterable[Scan]) -> tuple[Form, ...]:
    """All ways to write a predicate of a plan: as it is written, by alias, by stream, by column alone."""
    scans = tuple(scans)
    names = [_name(scan) for scan in scans]
    forms = [_named(predicate, {_key(scan, c): (scan.alias, c) for scan in scans for c in scan.columns})]
    if len(set(names)) == len(names):
        forms.append(_named(predicate, {_key(s, c): (_name(s), c) for s in scans for c in s.columns}))
    if len(scans) == 1:
        forms.append(_named(predicate, {_key(s, c): (c,) for s in scans for c in s.columns}))
    if predicate.span is not None:
        forms.append(form_of(predicate.span.excerpt))
    return tuple(dict.fromkeys(forms))


def is_volatile(expression: Expression) -> bool:
    """Whether it may say something else when it is asked again."""
    return any(_VOLATILE.fullmatch(token) for token in signature(expression.text))


def shown(predicate: Expression, scans: Iterable[Scan]) -> str:
    """The predicate with its columns as a user would write them."""
    text = predicate.text
    for scan in scans:
        for column in scan.columns:
            text = text.replace(f"`{column_of(scan.alias, column)}`", f"{scan.alias}.{column}")
    return text


def _named(predicate: Expression, names: Mapping[str, tuple[str, ...]]) -> Form:
    keys: list[str] = []
    for token in tokens_of(predicate.text):
        word = token.key.strip("`")
        for number, part in enumerate(names.get(word, (word,))):
            keys += [".", part.lower()] if number else [part.lower() if word in names else part]
    return _canonical(keys)


def _canonical(keys: list[str]) -> Form:
    keys = [_SPELLINGS.get(key, key) for key in keys]
    while len(keys) > 2 and keys[0] == "(" and _closing(keys) == len(keys) - 1:
        keys = keys[1:-1]
    outside = [place for place, depth in enumerate(_depths(keys)) if depth == 0]
    comparisons = [place for place in outside if keys[place] in _MIRRORED]
    if len(comparisons) != 1 or any(keys[place] in _LOOSER for place in outside):
        return tuple(keys)
    [place] = comparisons
    left, right = tuple(keys[:place]), tuple(keys[place + 1 :])
    return (*left, keys[place], *right) if left <= right else (*right, _MIRRORED[keys[place]], *left)


def _depths(keys: list[str]) -> list[int]:
    depths, depth = [], 0
    for key in keys:
        depth -= key in (")", "]")
        depths.append(depth)
        depth += key in ("(", "[")
    return depths


def _closing(keys: list[str]) -> int:
    """Where the bracket that opens first is closed."""
    depths = _depths(keys)
    return next((place for place in range(1, len(keys)) if depths[place] == 0), -1)


def _key(scan: Scan, column: str) -> str:
    return column_of(scan.alias, column).lower()


def _name(scan: Scan) -> str:
    return scan.stream if isinstance(scan, StreamScan) else scan.relation

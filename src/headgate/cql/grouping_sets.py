"""ROLLUP, CUBE and GROUPING SETS: a SELECT for each grouping, with UNION ALL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain, combinations
from math import prod

from sqlglot import exp

from headgate.cql.expressions import grouping_calls, scalar_without_aggregates
from headgate.cql.syntax import ScalarExpression, Select, SelectItem
from headgate.cql.tokens import Cursor, Token, one_line
from headgate.cql.windows import SPARK_WINDOWS
from headgate.errors import QueryError, Span
from headgate.model.sql_tree import tree_key

Keys = tuple[ScalarExpression, ...]
_WORDS = ("ROLLUP", "CUBE", "GROUPING SETS")
# each is an aggregate of its own
_MOST_SETS = 32
# more are not worth a number
_MANY = 1_000_000


@dataclass(frozen=True)
class Groupings:
    """What GROUP BY states: the keys of every grouping, and the sets beside them, if there are several.

    ``listed`` are keys of sets, in the order in which GROUPING_ID has their bits.
    """

    keys: Keys = ()
    sets: tuple[Keys, ...] | None = None
    listed: Keys = ()


class GroupingSetReader(Cursor):
    """Reads the sets of keys that rows are grouped by."""

    def expression(self, what: str) -> list[Token]:
        """The tokens of an expression, up to a comma, a closing bracket or the next clause."""
        raise NotImplementedError

    def at_grouping_sets(self) -> bool:
        return self.word() in _WORDS and self.word(1) == "("

    def groupings(self) -> Groupings:
        """What stands behind GROUP BY."""
        first = self.span
        parts = self.several(self._part)
        keys = tuple(part for part in parts if isinstance(part, ScalarExpression))
        sets = [part for part in parts if not isinstance(part, ScalarExpression)]
        words = ("GROUPING SETS", "WITH ROLLUP", "WITH CUBE")
        word = next((one for one in words if self.at(*([one] if one in _WORDS else one.split()))), "")
        if not word:
            _check_number("GROUP BY", prod(map(len, sets)), self.since(first))
            return Groupings(keys, _combined(sets) if sets else None)
        if sets:
            message = f"{word} takes the keys before it, which are sets already"
            raise QueryError(f"{message}; write GROUP BY a, ROLLUP (b, c)", self.since(first))
        if word == "GROUPING SETS":
            return Groupings((), self._sets_of(keys), keys)
        span = self.take().span
        return Groupings((), _expanded(self.take().word, [((key,),) for key in keys], span), keys)

    def _part(self) -> ScalarExpression | tuple[Keys, ...]:
        if self.at_grouping_sets():
            return self.grouping_sets()
        return ((),) if self.accept("(", ")") else self._key()

    def _sets_of(self, keys: Keys) -> tuple[Keys, ...]:
        """``GROUPING SETS ((a), (b))`` behind the keys, as Spark has it; each is in one of the sets."""
        sets = self.grouping_sets()
        known = {tree_key(key.tree) for key in chain.from_iterable(sets)}
        for key in keys:
            if tree_key(key.tree) not in known:
                message = f"{one_line(key.text)} is in none of the GROUPING SETS; leave it out"
                raise QueryError(f"{message}, or add it to each", key.span)
        return sets

    def grouping_sets(self) -> tuple[Keys, ...]:
        """``ROLLUP (a, b)`` and the like: the sets of keys that it stands for, each once."""
        first, word = self.span, self.take().word
        self.expect("(")
        elements = self.several(self._sets if word == "GROUPING SETS" else self._one_set)
        self.expect(")", f" or ',' in {word}")
        return _expanded(word, elements, first)

    def _sets(self) -> tuple[Keys, ...]:
        return self.grouping_sets() if self.at_grouping_sets() else self._one_set()

    def _one_set(self) -> tuple[Keys, ...]:
        """``a``, ``(a, b)`` or ``()``."""
        if not self.at("("):
            return ((self._key(),),)
        if self.accept("(", ")"):
            return ((),)
        closing = self._after_brackets()
        if closing not in (",", ")"):
            # an expression that begins with a bracket
            return ((self._key(),),)
        self.expect("(")
        keys = self.several(self._key)
        self.expect(")", " or ',' after the key")
        return (keys,)

    def _after_brackets(self) -> str:
        """The word behind the bracket that closes the one here."""
        depth, distance = 0, 0
        while (token := self.ahead(distance)) is not None:
            depth += (token.word == "(") - (token.word == ")")
            distance += 1
            if depth == 0:
                break
        return self.word(distance)

    def _key(self) -> ScalarExpression:
        return scalar_without_aggregates(self.expression("an expression after GROUP BY"), "GROUP BY")


_FEWER = f"write at most {_MOST_SETS}, with GROUPING SETS (...)"


def _check_number(what: str, number: int, span: Span) -> None:
    if number > _MOST_SETS:
        shown = number if number < _MANY else "too many"
        raise QueryError(f"{what} has {shown} groupings; {_FEWER}", span)


def _expanded(word: str, elements: Sequence[tuple[Keys, ...]], span: Span) -> tuple[Keys, ...]:
    """The sets of keys that ROLLUP, CUBE or GROUPING SETS of these elements stands for."""
    lists = [keys for sets in elements for keys in sets]
    if word == "GROUPING SETS":
        _check_number(word, len(lists), span)
        return tuple(lists)
    number = len(lists) + 1 if word == "ROLLUP" else 2 ** len(lists)
    _check_number(f"{word} of {len(lists)} keys", number, span)
    lengths = range(len(lists), -1, -1)
    if word == "ROLLUP":
        chosen: Iterable[Sequence[Keys]] = (lists[:length] for length in lengths)
    else:
        chosen = chain.from_iterable(combinations(lists, length) for length in lengths)
    return tuple(_once(chain.from_iterable(some)) for some in chosen)


def _combined(parts: Sequence[tuple[Keys, ...]]) -> tuple[Keys, ...]:
    """The sets of ``GROUP BY part, part``: every one of the first with every one of the next."""
    return reduce(lambda found, more: tuple(_once((*a, *b)) for a in found for b in more), parts, ((),))


def _once(keys: Iterable[ScalarExpression]) -> Keys:
    return tuple({tree_key(key.tree): key for key in keys}.values())


def selects_of(select: Select, groupings: Groupings) -> tuple[Select, ...]:
    """A SELECT for each grouping; keys of others are NULL in it."""
    sets = groupings.sets
    if sets is None:
        _check_grouping_calls(select)
        return (select,)
    if select.ranking is not None:
        message = "a ranking is of one grouping; write the groupings as a subquery, and rank its rows with"
        hint = "ROW_NUMBER() OVER (PARTITION BY window_end ORDER BY n DESC)"
        raise QueryError(f"{message} {hint}", select.ranking.span)
    every = _once((*select.group_by, *groupings.listed, *chain.from_iterable(sets)))
    if not (every or select.aggregates):
        message = "GROUP BY () makes one group of all tuples; select an aggregate, or leave it out"
        raise QueryError(message, select.span)
    return tuple(replace(select, group_by=_once((*select.group_by, *keys)), all_keys=every) for keys in sets)


def check_windows_of_sets(groupings: Groupings) -> None:
    """Reject windows that only some groupings would have: results are those of one window."""
    for key in chain.from_iterable(groupings.sets or ()):
        if isinstance(key.tree, exp.Anonymous) and key.tree.name.lower() in SPARK_WINDOWS:
            message = f"{one_line(key.text)} is a key of every grouping, since results are of one window"
            raise QueryError(f"{message}; write GROUP BY {one_line(key.text)}, ROLLUP (a, b)", key.span)


def _check_grouping_calls(select: Select) -> None:
    """Reject GROUPING(a) where every row has all keys."""
    having = () if select.having is None else (select.having,)
    items = (item.expression for item in select.items if isinstance(item, SelectItem))
    ranking = select.ranking
    ranked = () if ranking is None else (*ranking.keys, *(key.expression for key in ranking.order))
    for expression in (*items, *having, *ranked):
        for name in grouping_calls(expression):
            message = f"{name} tells groupings apart, and here is one"
            raise QueryError(f"{message}; write GROUP BY ROLLUP (a, b), or leave it out", expression.span)

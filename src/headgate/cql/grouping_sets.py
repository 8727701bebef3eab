"""ROLLUP, CUBE and GROUPING SETS: a SELECT for each grouping, with UNION ALL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import chain, combinations

from sqlglot import exp

from headgate.cql.expressions import scalar_without_aggregates
from headgate.cql.syntax import ScalarExpression, Select, SelectItem
from headgate.cql.tokens import Cursor, Token, one_line
from headgate.cql.windows import SPARK_WINDOWS
from headgate.errors import QueryError
from headgate.model.sql_tree import tree_key

Keys = tuple[ScalarExpression, ...]
GROUPING_CALLS = ("grouping", "grouping_id")
_WORDS = ("ROLLUP", "CUBE", "GROUPING SETS")
# each is an aggregate of its own
_MOST_SETS = 32


class GroupingSetReader(Cursor):
    """Reads the sets of keys that rows are grouped by."""

    def expression(self, what: str) -> list[Token]:
        """The tokens of an expression, up to a comma, a closing bracket or the next clause."""
        raise NotImplementedError

    def at_grouping_sets(self) -> bool:
        return self.word() in _WORDS and self.word(1) == "("

    def grouping_sets(self) -> tuple[Keys, ...]:
        """``ROLLUP (a, b)`` and the like: the sets of keys that it stands for, each once."""
        first, word = self.span, self.take().word
        self.expect("(")
        elements = self.several(self._sets if word == "GROUPING SETS" else self._one_set)
        self.expect(")", f" or ',' in {word}")
        if word == "CUBE" and 2 ** len(elements) > _MOST_SETS:
            message = f"CUBE of {len(elements)} keys has {2 ** len(elements)} groupings"
            raise QueryError(f"{message}; {_FEWER}", first)
        return tuple(expanded(word, elements))

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
        return scalar_without_aggregates(self.expression("a key to group by"), "GROUP BY")


_FEWER = f"write at most {_MOST_SETS}, with GROUPING SETS (...)"


def expanded(word: str, elements: Sequence[tuple[Keys, ...]]) -> Iterator[Keys]:
    """The sets of keys that ROLLUP, CUBE or GROUPING SETS of these elements stands for."""
    if word == "GROUPING SETS":
        yield from (keys for sets in elements for keys in sets)
        return
    lists = [keys for sets in elements for keys in sets]
    if word == "ROLLUP":
        chosen: Iterable[Sequence[Keys]] = (lists[:length] for length in range(len(lists), -1, -1))
    else:
        chosen = chain.from_iterable(combinations(lists, length) for length in range(len(lists), -1, -1))
    yield from (_once(chain.from_iterable(some)) for some in chosen)


def combined(parts: Sequence[tuple[Keys, ...]]) -> tuple[Keys, ...]:
    """The sets of ``GROUP BY part, part``: every one of the first with every one of the next."""
    return reduce(lambda found, more: tuple(_once((*a, *b)) for a in found for b in more), parts, ((),))


def _once(keys: Iterable[ScalarExpression]) -> Keys:
    return tuple({tree_key(key.tree): key for key in keys}.values())


def selects_of(select: Select, sets: tuple[Keys, ...]) -> tuple[Select, ...]:
    """A SELECT for each grouping; keys of others are NULL in it."""
    if select.ranking is not None:
        message = "a ranking is of one grouping; write the groupings as a subquery, and rank its rows with"
        hint = "ROW_NUMBER() OVER (PARTITION BY window_end ORDER BY n DESC)"
        raise QueryError(f"{message} {hint}", select.ranking.span)
    if len(sets) > _MOST_SETS:
        raise QueryError(f"GROUP BY has {len(sets)} groupings; {_FEWER}", select.span)
    every = _once((*select.group_by, *(key for keys in sets for key in keys)))
    return tuple(replace(select, group_by=_once((*select.group_by, *keys)), all_keys=every) for keys in sets)


def check_windows_of_sets(sets: Iterable[Keys]) -> None:
    """Reject windows that only some groupings would have: results are those of one window."""
    for key in chain.from_iterable(sets):
        if isinstance(key.tree, exp.Anonymous) and key.tree.name.lower() in SPARK_WINDOWS:
            message = f"{one_line(key.text)} is a key of every grouping, since results are of one window"
            raise QueryError(f"{message}; write GROUP BY {one_line(key.text)}, ROLLUP (a, b)", key.span)


def check_grouping_calls(select: Select) -> None:
    """Reject GROUPING(a) where every row has all keys."""
    having = () if select.having is None else (select.having,)
    items = (item.expression for item in select.items if isinstance(item, SelectItem))
    for expression in (*items, *having):
        for call in expression.tree.find_all(exp.Anonymous):
            if call.name.lower() in GROUPING_CALLS:
                message = f"{call.name.upper()} tells groupings apart, and here is one"
                raise QueryError(f"{message}; write GROUP BY ROLLUP (a, b), or leave it out", expression.span)

"""Conditions between the timestamps of streams bound how long a join has to keep tuples.

``b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 MINUTES`` keeps a tuple of ``a`` for five minutes and one of ``b``
for its own instant: an unbounded window gives the same results as ``[RANGE 5 MINUTES]`` and ``[NOW]``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import inf

from sqlglot import exp

from headgate.cql.measure import LARGEST, MeasureError, signed_duration_us
from headgate.model.expression import Expression
from headgate.model.window import TimeWindow, UnboundedWindow
from headgate.planning.logical import StreamScan

_SECOND_US = 1_000_000
# a comparison: whether its sides are exchanged, and how many microseconds they differ at least
_BELOW: dict[type[exp.Expr], tuple[bool, int]] = {
    exp.LTE: (False, 0),
    exp.LT: (False, 1),
    exp.GTE: (True, 0),
    exp.GT: (True, 1),
}
_MEASURES = re.compile(r"\s*([+-]?\s*[0-9.]+)\s*([a-z]+)", re.IGNORECASE)


@dataclass(frozen=True)
class Timestamps:
    """The plan columns that tell timestamps: whose, and how much later; numbers are whole seconds."""

    columns: Mapping[str, tuple[str, int]]
    are_numbers: bool


@dataclass(frozen=True)
class _Sum:
    """Timestamps, each so many times, and a time."""

    times: Counter[str]
    added_us: int

    def plus(self, other: _Sum, sign: int) -> _Sum:
        times = Counter(self.times)
        for alias, count in other.times.items():
            times[alias] += sign * count
        return _Sum(times, self.added_us + sign * other.added_us)


@dataclass(frozen=True)
class _Limit:
    """A tuple of ``later`` comes at most so long after one of ``earlier``; before it, if that is negative."""

    later: str
    earlier: str
    most_us: float


def bounded_by_conditions(
    scans: Sequence[StreamScan], conditions: Iterable[Expression], timestamps: Timestamps
) -> tuple[StreamScan, ...]:
    """The streams of a join; unbounded windows end where no later tuple can fulfil the conditions."""
    aliases = [scan.alias for scan in scans]
    limits = [limit for one in conditions for limit in _limits(one.tree.unnest(), timestamps)]
    for scan in scans:
        if isinstance(scan.window, TimeWindow):
            limits += [_Limit(other, scan.alias, scan.window.reach_us) for other in aliases]
    most_us = _implied(aliases, limits)
    found = []
    for scan in scans:
        kept_us = max(most_us[other, scan.alias] for other in aliases)
        is_bounded = isinstance(scan.window, UnboundedWindow) and kept_us < LARGEST
        found.append(replace(scan, window=TimeWindow(int(kept_us))) if is_bounded else scan)
    return tuple(found)


def _implied(aliases: Sequence[str], limits: Iterable[_Limit]) -> dict[tuple[str, str], float]:
    """What limits say of any two streams, also by way of others: the shortest paths between them."""
    most_us = {pair: 0.0 if pair[0] == pair[1] else inf for pair in product(aliases, aliases)}
    for limit in limits:
        pair = limit.later, limit.earlier
        if pair[0] != pair[1]:
            most_us[pair] = min(most_us[pair], limit.most_us)
    for between, later, earlier in product(aliases, aliases, aliases):
        if later != earlier:
            way_us = most_us[later, between] + most_us[between, earlier]
            most_us[later, earlier] = min(most_us[later, earlier], way_us)
    return most_us


def _limits(tree: exp.Expr, timestamps: Timestamps) -> Iterator[_Limit]:
    """What a condition states of the time between tuples of two streams."""
    if isinstance(tree, exp.Between):
        yield from _limits(exp.GTE(this=tree.this.copy(), expression=tree.args["low"].copy()), timestamps)
        yield from _limits(exp.LTE(this=tree.this.copy(), expression=tree.args["high"].copy()), timestamps)
    elif isinstance(tree, exp.EQ):
        for kind in (exp.LTE, exp.GTE):
            yield from _limits(kind(this=tree.this.copy(), expression=tree.expression.copy()), timestamps)
    elif type(tree) in _BELOW:
        is_exchanged, apart_us = _BELOW[type(tree)]
        sides = (tree.expression, tree.this) if is_exchanged else (tree.this, tree.expression)
        low, high = (_sum(side, timestamps) for side in sides)
        if low is not None and high is not None:
            difference = low.plus(high, -1)
            later = [alias for alias, count in difference.times.items() if count == 1]
            earlier = [alias for alias, count in difference.times.items() if count == -1]
            others = [alias for alias, count in difference.times.items() if abs(count) > 1]
            if len(later) == len(earlier) == 1 and not others:
                yield _Limit(later[0], earlier[0], -difference.added_us - apart_us)


def _sum(tree: exp.Expr, timestamps: Timestamps) -> _Sum | None:
    """An expression of timestamps and constant times; None if it is another."""
    tree = tree.unnest()
    if isinstance(tree, (exp.Add, exp.Sub)):
        left, right = _sum(tree.this, timestamps), _sum(tree.expression, timestamps)
        if left is None or right is None:
            return None
        return left.plus(right, 1 if isinstance(tree, exp.Add) else -1)
    if isinstance(tree, exp.Column):
        found = timestamps.columns.get(tree.name)
        return None if found is None else _Sum(Counter({found[0]: 1}), found[1])
    if isinstance(tree, exp.Neg):
        value = _sum(tree.this, timestamps)
        return None if value is None else _Sum(Counter(), 0).plus(value, -1)
    time_us = _constant_us(tree, timestamps.are_numbers)
    return None if time_us is None else _Sum(Counter(), time_us)


def _constant_us(tree: exp.Expr, is_number: bool) -> int | None:
    if is_number:
        return int(tree.name) * _SECOND_US if isinstance(tree, exp.Literal) and tree.name.isdigit() else None
    word, _, text = tree.name.partition(" ")
    return _interval_us(text) if isinstance(tree, exp.Var) and word.upper() == "INTERVAL" else None


def _interval_us(text: str) -> int | None:
    """``1 HOUR 30 MINUTES``, ``'5' MINUTE``; None for months and years, whose lengths differ."""
    text = text.replace("'", " ").replace('"', " ").strip()
    measures = [match.group() for match in _MEASURES.finditer(text)]
    if "".join(measures) != text:
        return None
    try:
        return sum(signed_duration_us(measure, write="") for measure in measures)
    except MeasureError:
        return None

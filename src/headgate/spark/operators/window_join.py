"""The window join as SQL.

A result is a combination of one tuple from each side. It is emitted when its last tuple arrives, and
only if each of the others is inside its window at that instant. So one residual condition over the
timestamps is enough, and any tick boundaries give the same results: a tick emits exactly the
combinations whose last tuple lies between the join's old and new progress.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from headgate.model.joins import JoinSide, WindowJoin, aliases_of, connected_order
from headgate.model.window import HopWindow, RowWindow, TimeWindow, UnboundedWindow, UntilWindow, Window
from headgate.spark import sql
from headgate.spark.operators.row_window import EXPIRY
from headgate.spark.sql import TS, UNTIL

# wide buckets duplicate few tuples near their edges; narrow ones yield few candidates that fail
_WINDOWS_PER_BUCKET = 10
_SMALLEST_BUCKET_US = 1_000_000
_BUCKETS = 2**30
# up to this many tuples are sent to every task rather than shuffled
BROADCAST_ROWS = 20_000

WHOLE, NEW, OLD = "whole", "new", "old"
# stand for inputs and bounds in prepared text; no SQL that a user writes holds them
_SIDE, _OLD, _OLD_OF_SIDE = "\ue000side {}\ue000", "\ue000old\ue000", "\ue000old of side\ue000"


class Tasks(Enum):
    """How many tasks execute a join."""

    MANY = "many"
    ONE = "one"
    """Every input is the work of one task as it is."""
    ONE_BY_HINT = "one by hint"
    """Inputs of many tasks become the work of one."""


@dataclass(frozen=True)
class SideQuery:
    """One side below the new progress, row windows with their expiry: its text, and rough counts."""

    query: str
    user_columns: tuple[str, ...]
    old_rows: float
    new_rows: float


@dataclass(frozen=True)
class JoinShape:
    """What decides the text of a join, apart from its inputs and bounds."""

    operator: WindowJoin
    order: tuple[int, ...]
    parts: tuple[str, ...]
    """By side: whether the whole of it takes part, or new or old tuples alone."""
    hints: tuple[str, ...]
    tasks: Tasks

    @property
    def is_bucketed(self) -> bool:
        """In one task there is no shuffle to keep small, and a bucket only doubles tuples."""
        return self.tasks is Tasks.MANY and bucket_us(self.operator) is not None


def window_join(
    operator: WindowJoin,
    inputs: Sequence[SideQuery],
    old: sql.Bound,
    aliases: Sequence[str] | None = None,
    tasks: Tasks = Tasks.MANY,
) -> str:
    """All results whose timestamp lies between old and new progress.

    ``aliases`` is the order in which sides are joined; of no consequence for the results. In one task there
    is no shuffle.
    """
    in_one_task = tasks is not Tasks.MANY
    order = tuple(connected_order(operator) if aliases is None else _places(operator, aliases))
    results = []
    for parts in _choices(inputs, order, in_one_task):
        hints = tuple(_hint(inputs[i], parts[i], in_one_task) for i in range(len(inputs)))
        shape = JoinShape(operator, order, parts, hints, tasks)
        columns = tuple(one.user_columns for one in inputs)
        text = _template(shape, columns)
        text = text.replace(_OLD, old.at(sql.name(f"{TS}0"))).replace(_OLD_OF_SIDE, old.at(sql.name(TS)))
        for number, one in enumerate(inputs):
            text = text.replace(_SIDE.format(number), sql.indented(sql.relation(one.query)))
        results.append(text)
    joined = sql.union(results)
    assert joined is not None
    return joined


def _hint(one: SideQuery, part: str, in_one_task: bool) -> str:
    is_small = part == NEW and one.new_rows <= BROADCAST_ROWS and not in_one_task
    return "BROADCAST" if is_small else "SHUFFLE_HASH"


def _choices(inputs: Sequence[SideQuery], order: Sequence[int], in_one_task: bool) -> list[tuple[str, ...]]:
    """Which tuples of each side to join, so that every combination with a new tuple appears exactly once.

    When most tuples are new, or all are few, one join over everything beats several over parts.
    """
    new, old = sum(s.new_rows for s in inputs), sum(s.old_rows for s in inputs)
    if in_one_task or new >= old / 2:
        return [(WHOLE,) * len(inputs)]
    choices = []
    for first_new, side in enumerate(order):
        choice = {other: OLD for other in order[:first_new]}
        choice |= {side: NEW} | {other: WHOLE for other in order[first_new + 1 :]}
        choices.append(tuple(choice[i] for i in range(len(inputs))))
    return choices


def _places(operator: WindowJoin, aliases: Sequence[str]) -> list[int]:
    known = [side.alias for side in operator.sides]
    return [known.index(alias) for alias in aliases]


def bucket_us(operator: WindowJoin) -> int | None:
    """Width of the time buckets that are part of the join key; None if a row window reaches further."""
    reaches = [side.window.reach_us for side in operator.sides if isinstance(side.window, TimeWindow)]
    if len(reaches) < len(operator.sides):
        return None
    return max(_SMALLEST_BUCKET_US, _WINDOWS_PER_BUCKET * max(reaches))


@lru_cache(maxsize=1024)
def _template(shape: JoinShape, columns: tuple[tuple[str, ...], ...]) -> str:
    """The text of a join, prepared once per shape; inputs and bounds are filled in tick by tick."""
    operator, order = shape.operator, shape.order
    # each tuple of the anchor is in one bucket only; as the build side of the first join they fill its table
    anchor = order[1] if len(order) > 1 else order[0]
    sides = [_side(shape, number, columns[number], number == anchor) for number in range(len(columns))]
    aliases = [side.alias for side in operator.sides]
    waiting = list(operator.predicates)
    known = [order[0]]
    text = f"{sides[order[0]]} AS s{order[0]}"
    for number in order[1:]:
        reachable = {aliases[i] for i in [*known, number]}
        usable = [p for p in waiting if aliases_of(p, aliases) <= reachable]
        waiting = [p for p in waiting if p not in usable]
        conditions = [f"({p.text})" for p in usable]
        if shape.is_bucketed:
            other = order[0] if number == anchor else anchor
            conditions.append(f"`$bucket{other}` = `$bucket{number}`")
        for other in known:
            conditions += [*_within_reach(operator, other, number), *_within_reach(operator, number, other)]
        known.append(number)
        text += f"\nJOIN {sides[number]} AS s{number}\n  ON {sql.all_of(conditions)}"
    hints = [f"{shape.hints[i]}(s{i})" for i in order[1:]]
    if shape.hints[order[0]] == "BROADCAST":
        hints.append(f"BROADCAST(s{order[0]})")
    items = [f"{last_ts(operator)} AS {sql.name(TS)}", *(sql.name(c) for own in columns for c in own)]
    where = [*inside_windows(operator), f"{last_ts(operator)} >= {_OLD}"]
    hint = f"/*+ {', '.join(hints)} */ " if hints else ""
    return f"SELECT {hint}{sql.listed(items)}\nFROM {text}\nWHERE {sql.all_of(where)}"


def _side(shape: JoinShape, number: int, columns: Sequence[str], is_anchor: bool) -> str:
    side, width = shape.operator.sides[number], bucket_us(shape.operator)
    items = [*renamed_times(side.window, number), *sql.names(columns)]
    if shape.is_bucketed and width is not None:
        items.append(f"{buckets(width, is_anchor)} AS `$bucket{number}`")
    own, part = sql.name(TS), shape.parts[number]
    where = {WHOLE: [], NEW: [f"{own} >= {_OLD_OF_SIDE}"], OLD: [f"{own} < {_OLD_OF_SIDE}"]}[part]
    # what knows when tuples leave a row window is in one task already
    is_hinted = shape.tasks is Tasks.ONE_BY_HINT and not isinstance(side.window, RowWindow)
    return sql.relation(sql.select(items, _SIDE.format(number), where, sql.IN_ONE_TASK if is_hinted else ""))


def renamed_times(window: Window | None, number: int) -> list[str]:
    """What decides when a tuple of a side is inside its window, under names of that side."""
    columns = [TS]
    if isinstance(window, RowWindow):
        columns.append(EXPIRY)
    elif isinstance(window, UntilWindow):
        columns.append(UNTIL)
    return [f"{sql.name(c)} AS {sql.name(f'{c}{number}')}" for c in columns]


def buckets(width_us: int, is_anchor: bool) -> str:
    """The bucket of an anchor tuple; every bucket in which another side's tuple may meet one."""
    own = sql.name(TS)
    if is_anchor:
        return _bucket(own, width_us)
    reach = width_us // _WINDOWS_PER_BUCKET
    low, high = _bucket(f"({own} - {reach}L)", width_us), _bucket(f"({own} + {reach}L)", width_us)
    return f"explode(IF({low} = {high}, array({low}), array({low}, {high})))"


def _bucket(at: str, width_us: int) -> str:
    # counted modulo a number that fits an INT: beside an INT key it makes one 8-byte key, which Spark
    # hashes faster; buckets that share a number lie years apart, and the residual condition tells them apart
    return f"CAST(pmod({at} div {width_us}L, {_BUCKETS}L) AS INT)"


def _within_reach(operator: WindowJoin, one: int, later: int) -> list[str]:
    """A tuple can be in its window only if no other one of the combination is much later."""
    window = operator.sides[one].window
    if isinstance(window, UntilWindow):
        return [f"`{TS}{later}` <= `{UNTIL}{one}`"]
    if not isinstance(window, TimeWindow):
        return []
    return [f"`{TS}{later}` - `{TS}{one}` <= {window.reach_us}L"]


def matching(operator: WindowJoin) -> list[str]:
    """Conditions for tuples of two sides, named as in a join, to match at some instant."""
    conditions = [f"({predicate.text})" for predicate in operator.predicates]
    reach = [*_within_reach(operator, 0, 1), *_within_reach(operator, 1, 0)]
    return [*conditions, *reach, *inside_windows(operator)]


def last_ts(operator: WindowJoin) -> str:
    """The timestamp of a combination: that of its last tuple."""
    own = [f"`{TS}{i}`" for i in range(len(operator.sides))]
    return f"greatest({', '.join(own)})" if len(own) > 1 else own[0]


def inside_windows(operator: WindowJoin) -> list[str]:
    """Conditions for every tuple but the last to be inside its window when the last one arrives.

    For a time window without a slide, and for tuples with ends of their own, being within reach of all others
    is the same.
    """
    last = last_ts(operator)
    return [_inside(operator, i, last) for i, side in enumerate(operator.sides) if not _is_plain(side.window)]


def _is_plain(window: Window) -> bool:
    """Whether the reach of a window decides what is inside."""
    if isinstance(window, TimeWindow):
        return window.slide_us is None
    return isinstance(window, (UnboundedWindow, UntilWindow))


def _inside(operator: WindowJoin, number: int, last: str) -> str:
    side: JoinSide = operator.sides[number]
    own = f"`{TS}{number}`"
    # tuples of equal timestamps arrive in the order of their streams
    behind = [i for i, other in enumerate(operator.sides) if other.order > side.order]
    overtaken = " OR ".join(f"`{TS}{i}` = {last}" for i in behind) or "FALSE"
    if isinstance(side.window, RowWindow):
        expiry = f"`{EXPIRY}{number}`"
        return f"({expiry} IS NULL OR {expiry} > {last} OR ({expiry} = {last} AND NOT ({overtaken})))"
    assert isinstance(side.window, TimeWindow) and side.window.slide_us is not None
    if isinstance(side.window, HopWindow):
        length = f"{side.window.range_us}L"
        return f"{own} - pmod({own}, {length}) = {last} - pmod({last}, {length})"
    seen = f"({last} - pmod({last}, {side.window.slide_us}L))"
    is_last = f"({own} = {last} AND NOT ({overtaken}))"
    return f"({is_last} OR ({own} <= {seen} AND {seen} - {own} <= {side.window.range_us}L))"

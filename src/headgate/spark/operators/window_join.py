"""The window join as SQL.

A result is a combination of one tuple from each side. It is emitted when its last tuple arrives, and
only if each of the others is inside its window at that instant. So one residual condition over the
timestamps is enough, and any tick boundaries give the same results: a tick emits exactly the
combinations whose last tuple lies between the join's old and new progress.

A step that no predicate links is a cross product: its smaller side is sent to every task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache, reduce
from itertools import product

from headgate.model.join_order import JoinOrder
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

# a side, or the two sides of a join
Tree = int | tuple["Tree", "Tree"]

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
    tree: Tree
    parts: tuple[str, ...]
    """By side: whether the whole of it takes part, or new or old tuples alone."""
    hints: tuple[str, ...]
    tasks: Tasks
    crossed: frozenset[int] = frozenset()
    """The sides that cross products send to every task."""

    @property
    def bucketed(self) -> tuple[int, ...]:
        """The sides that meet by time bucket, which keeps shuffles small.

        In one task there is none, nor for a side that every task has, and a bucket would only double tuples.
        """
        if self.tasks is not Tasks.MANY or bucket_us(self.operator) is None:
            return ()
        sides = tuple(side for side in leaves(self.tree) if side not in self.crossed)
        return sides if len(sides) > 1 else ()

    @property
    def anchor(self) -> int | None:
        """The side whose tuples are in one bucket only; they fill the table of the first join."""
        return self.bucketed[1] if self.bucketed else None


def window_join(
    operator: WindowJoin,
    inputs: Sequence[SideQuery],
    old: sql.Bound,
    order: JoinOrder | None = None,
    tasks: Tasks = Tasks.MANY,
) -> str:
    """All results whose timestamp lies between old and new progress.

    ``order`` is of no consequence for the results. In one task there is no shuffle.
    """
    in_one_task = tasks is not Tasks.MANY
    tree = _left_deep(connected_order(operator)) if order is None else _tree(operator, order)
    results = []
    for parts in _choices(inputs, leaves(tree), in_one_task):
        rows = [_rows(one, part) for one, part in zip(inputs, parts, strict=True)]
        crossed = frozenset() if in_one_task else _crossed(operator, tree, rows)
        hints = tuple(
            "BROADCAST" if side in crossed else _hint(one, part, in_one_task)
            for side, (one, part) in enumerate(zip(inputs, parts, strict=True))
        )
        shape = JoinShape(operator, tree, parts, hints, tasks, crossed)
        columns = tuple(one.user_columns for one in inputs)
        text = _template(shape, columns)
        text = text.replace(_OLD, old.at(sql.name(f"{TS}0"))).replace(_OLD_OF_SIDE, old.at(sql.name(TS)))
        for number, one in enumerate(inputs):
            text = text.replace(_SIDE.format(number), sql.indented(sql.relation(one.query)))
        results.append(text)
    joined = sql.union(results)
    assert joined is not None
    return joined


def leaves(tree: Tree) -> tuple[int, ...]:
    """The sides of a tree from left to right."""
    return (tree,) if isinstance(tree, int) else (*leaves(tree[0]), *leaves(tree[1]))


def _left_deep(trees: Sequence[Tree]) -> Tree:
    return reduce(lambda left, right: (left, right), trees)


def _tree(operator: WindowJoin, order: JoinOrder) -> Tree:
    known = [side.alias for side in operator.sides]
    return _left_deep(
        [known.index(item) if isinstance(item, str) else _tree(operator, item) for item in order]
    )


def _rows(one: SideQuery, part: str) -> float:
    return (one.old_rows if part != NEW else 0.0) + (one.new_rows if part != OLD else 0.0)


def _crossed(operator: WindowJoin, tree: Tree, rows: Sequence[float]) -> frozenset[int]:
    """The smaller side of every cross product, where it is a window that fits into every task."""
    if isinstance(tree, int):
        return frozenset()
    left, right = tree
    below = _crossed(operator, left, rows) | _crossed(operator, right, rows)
    if _links(operator, leaves(left), leaves(right)):
        return below
    small = [side for side in tree if isinstance(side, int) and rows[side] <= BROADCAST_ROWS]
    return below | {min(small, key=lambda side: rows[side])} if small else below


def _links(operator: WindowJoin, left: Sequence[int], right: Sequence[int]) -> bool:
    """Whether a predicate over these sides reads some of both."""
    aliases = [side.alias for side in operator.sides]
    of_left, of_right = {aliases[i] for i in left}, {aliases[i] for i in right}
    read = [aliases_of(predicate, aliases) for predicate in operator.predicates]
    return any(own & of_left and own & of_right and own <= of_left | of_right for own in read)


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


def bucket_us(operator: WindowJoin) -> int | None:
    """Width of the time buckets that are part of the join key; None if a row window reaches further."""
    reaches = [side.window.reach_us for side in operator.sides if isinstance(side.window, TimeWindow)]
    if len(reaches) < len(operator.sides):
        return None
    return max(_SMALLEST_BUCKET_US, _WINDOWS_PER_BUCKET * max(reaches))


@lru_cache(maxsize=1024)
def _template(shape: JoinShape, columns: tuple[tuple[str, ...], ...]) -> str:
    """The text of a join, prepared once per shape; inputs and bounds are filled in tick by tick."""
    operator = shape.operator
    items = [f"{last_ts(operator)} AS {sql.name(TS)}", *(sql.name(c) for own in columns for c in own)]
    where = [*inside_windows(operator), f"{last_ts(operator)} >= {_OLD}"]
    return f"{_TreeText(shape, columns).select(items, shape.tree)}\nWHERE {sql.all_of(where)}"


class _TreeText:
    """The text of the joins of a tree; each predicate is evaluated once all that it reads is joined."""

    def __init__(self, shape: JoinShape, columns: tuple[tuple[str, ...], ...]) -> None:
        self._shape = shape
        self._columns = columns
        self._aliases = [side.alias for side in shape.operator.sides]
        self._waiting = list(shape.operator.predicates)

    def select(self, items: Sequence[str], tree: Tree) -> str:
        hints, text = self._joined(tree)
        first = leaves(tree)[0]
        if self._shape.hints[first] == "BROADCAST":
            hints.append(f"BROADCAST(s{first})")
        hint = f"/*+ {', '.join(hints)} */ " if hints else ""
        return f"SELECT {hint}{sql.listed(items)}\nFROM {text}"

    def _joined(self, tree: Tree) -> tuple[list[str], str]:
        """Hints of the build sides, and the text of FROM."""
        if isinstance(tree, int):
            return [], f"{_side(self._shape, tree, self._columns[tree])} AS s{tree}"
        left, right = tree
        hints, text = self._joined(left)
        hint, built = self._build_side(right)
        conditions = self._conditions(leaves(left), leaves(right))
        return [*hints, hint], f"{text}\nJOIN {built}\n  ON {sql.all_of(conditions)}"

    def _build_side(self, tree: Tree) -> tuple[str, str]:
        if isinstance(tree, int):
            _, text = self._joined(tree)
            return f"{self._shape.hints[tree]}(s{tree})", text
        # a query of its own, so that a hint can name it
        name = "_".join(f"s{side}" for side in leaves(tree))
        return f"SHUFFLE_HASH({name})", f"{sql.relation(self.select(['*'], tree))} AS {name}"

    def _conditions(self, left: Sequence[int], right: Sequence[int]) -> list[str]:
        operator, reachable = self._shape.operator, {self._aliases[i] for i in (*left, *right)}
        usable = [p for p in self._waiting if aliases_of(p, self._aliases) <= reachable]
        self._waiting = [p for p in self._waiting if p not in usable]
        conditions = [f"({p.text})" for p in usable]
        buckets = [self._bucket_of(sides) for sides in (left, right)]
        if None not in buckets:
            conditions.append(" = ".join(f"`$bucket{side}`" for side in buckets))
        for one, other in product(left, right):
            conditions += [*_within_reach(operator, one, other), *_within_reach(operator, other, one)]
        return conditions

    def _bucket_of(self, sides: Sequence[int]) -> int | None:
        """The side whose bucket stands for all of these."""
        bucketed = [side for side in sides if side in self._shape.bucketed]
        anchor = self._shape.anchor
        return anchor if anchor in bucketed else next(iter(bucketed), None)


def _side(shape: JoinShape, number: int, columns: Sequence[str]) -> str:
    side, width = shape.operator.sides[number], bucket_us(shape.operator)
    items = [*renamed_times(side.window, number), *sql.names(columns)]
    if number in shape.bucketed and width is not None:
        items.append(f"{buckets(width, number == shape.anchor)} AS `$bucket{number}`")
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

"""The window join on blocks.

A result is a combination of one tuple from each side. It is emitted when its last tuple arrives, and
only if each of the others is inside of its window at that instant. So one residual condition over the
timestamps says it all, and any tick boundaries give the same results: a tick emits exactly the
combinations whose last tuple lies between the join's old and new frontier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headgate.model.joining import aliases_of, connected_order
from headgate.model.operator import JoinSide, WindowJoin
from headgate.model.window import RowWindow, TimeWindow, Window
from headgate.spark.columns import ARRIVED, TS, tick_constant
from headgate.spark.plans.rows import BROADCAST_ROWS, EXPIRY
from headgate.spark.plans.side import union
from headgate.spark.plans.simple import expression, user_columns

# a bucket this many windows wide: few tuples stand near its edge and are doubled, few candidates fail
_WINDOWS_PER_BUCKET = 10
_SMALLEST_BUCKET_US = 1_000_000
_BUCKETS = 2**30


@dataclass(frozen=True)
class JoinInput:
    """One side's tuples below the new frontier, row windows with their expiry, and rough counts."""

    tuples: DataFrame
    old_rows: float
    new_rows: float


def window_join(
    operator: WindowJoin,
    inputs: Sequence[JoinInput | None],
    old_ts: int,
    new_ts: int,
    aliases: Sequence[str] | None = None,
) -> DataFrame | None:
    """All results whose timestamp lies in ``[old_ts, new_ts)``; None if there can be none.

    ``aliases`` is the order in which sides are joined; of no consequence for the results.
    """
    if any(side is None for side in inputs):
        return None
    sides = [side for side in inputs if side is not None]
    order = connected_order(operator) if aliases is None else _places(operator, aliases)
    bucket_us = _bucket_us(operator)
    # the anchor's tuples stand in one bucket each; as the build side of the first join they fill its table
    anchor = order[1]
    results: list[DataFrame | None] = []
    for choice in _choices(sides, order):
        frames = [
            _prepared(operator.sides[i], i, _chosen(sides[i], choice[i], old_ts), bucket_us, i == anchor)
            for i in range(len(sides))
        ]
        small = [choice[i] == "new" and sides[i].new_rows <= BROADCAST_ROWS for i in range(len(sides))]
        results.append(_joined(operator, frames, order, anchor, small, bucket_us is not None, old_ts))
    return union(results)


def _choices(sides: Sequence[JoinInput], order: Sequence[int]) -> list[dict[int, str]]:
    """Which part of each side takes part, so that every combination with a new tuple comes up once.

    When most tuples are new, one join over everything beats several over parts.
    """
    new, old = sum(s.new_rows for s in sides), sum(s.old_rows for s in sides)
    if new >= old / 2:
        return [dict.fromkeys(order, "all")]
    choices = []
    for first_new, side in enumerate(order):
        choice = {other: "old" for other in order[:first_new]}
        choice |= {side: "new"} | {other: "all" for other in order[first_new + 1 :]}
        choices.append(choice)
    return choices


def _chosen(side: JoinInput, part: str, old_ts: int) -> DataFrame:
    if part == "all":
        return side.tuples
    limit = tick_constant(old_ts)
    return side.tuples.where(F.col(TS) >= limit if part == "new" else F.col(TS) < limit)


def _places(operator: WindowJoin, aliases: Sequence[str]) -> list[int]:
    known = [side.alias for side in operator.sides]
    return [known.index(alias) for alias in aliases]


def _bucket_us(operator: WindowJoin) -> int | None:
    """Width of the time buckets that are part of the join key; None if a row window reaches further."""
    reaches = [_reach_us(side) for side in operator.sides]
    if any(reach is None for reach in reaches):
        return None
    return max(_SMALLEST_BUCKET_US, _WINDOWS_PER_BUCKET * max(r for r in reaches if r is not None))


def _reach_us(side: JoinSide) -> int | None:
    if not isinstance(side.window, TimeWindow):
        return None
    return side.window.reach_us


def _prepared(
    side: JoinSide, number: int, tuples: DataFrame, bucket_us: int | None, anchor: bool
) -> DataFrame:
    system = [TS, ARRIVED] + ([EXPIRY] if isinstance(side.window, RowWindow) else [])
    user = user_columns(tuples)
    columns = [*[F.col(name).alias(f"{name}{number}") for name in system], *user]
    if bucket_us is not None:
        columns.append(_buckets(bucket_us, anchor).alias(f"$bucket{number}"))
    return tuples.select(*columns)


def _buckets(bucket_us: int, anchor: bool) -> Column:
    """The bucket of an anchor tuple; every bucket in which another side's tuple may meet one."""
    if anchor:
        return _bucket(f"`{TS}`", bucket_us)
    reach = bucket_us // _WINDOWS_PER_BUCKET
    low, high = _bucket(f"(`{TS}` - {reach})", bucket_us), _bucket(f"(`{TS}` + {reach})", bucket_us)
    return F.explode(F.when(low == high, F.array(low)).otherwise(F.array(low, high)))


def _bucket(at: str, width_us: int) -> Column:
    # counted modulo a number that fits an INT: beside an INT key it makes one 8-byte key, which Spark
    # hashes faster; buckets that share a number lie years apart, and their tuples are told by time
    return F.expr(f"CAST(pmod({at} div {width_us}L, {_BUCKETS}L) AS INT)")


def _joined(
    operator: WindowJoin,
    frames: Sequence[DataFrame],
    order: Sequence[int],
    anchor: int,
    small: Sequence[bool],
    bucketed: bool,
    old_ts: int,
) -> DataFrame:
    aliases = [side.alias for side in operator.sides]
    waiting = list(operator.predicates)
    joined, known = frames[order[0]], [order[0]]
    if small[order[0]]:
        joined = joined.hint("broadcast")
    for number in order[1:]:
        usable = [p for p in waiting if aliases_of(p, aliases) <= {aliases[i] for i in [*known, number]}]
        waiting = [p for p in waiting if p not in usable]
        conditions = [expression(p) for p in usable]
        if bucketed:
            other = order[0] if number == anchor else anchor
            conditions.append(F.col(f"$bucket{other}") == F.col(f"$bucket{number}"))
        for other in known:
            conditions += [*_within_reach(operator, other, number), *_within_reach(operator, number, other)]
        known.append(number)
        hint = "broadcast" if small[number] else "shuffle_hash"
        on = reduce(lambda a, b: a & b, conditions, F.lit(True))
        joined = joined.join(frames[number].hint(hint), on, "inner")
    kept = joined.where(inside_windows(operator)).where(_last_ts(operator) >= tick_constant(old_ts, f"{TS}0"))
    user = user_columns(kept)
    arrived = F.greatest(*[F.col(f"{ARRIVED}{i}") for i in range(len(frames))])
    return kept.select(_last_ts(operator).alias(TS), arrived.alias(ARRIVED), *user)


def _within_reach(operator: WindowJoin, one: int, later: int) -> list[Column]:
    """A tuple can be in its time window only if no other one of the combination is much later."""
    reach_us = _reach_us(operator.sides[one])
    if reach_us is None:
        return []
    return [F.col(f"{TS}{later}") - F.col(f"{TS}{one}") <= F.lit(reach_us)]


def _last_ts(operator: WindowJoin) -> Column:
    return F.greatest(*[F.col(f"{TS}{i}") for i in range(len(operator.sides))])


def inside_windows(operator: WindowJoin) -> Column:
    """Whether every tuple but the last is inside of its window when the last one arrives.

    For a time window without a slide, being within reach of all others says as much.
    """
    last = _last_ts(operator)
    return reduce(
        lambda a, b: a & b,
        [_inside(operator, i, last) for i, side in enumerate(operator.sides) if not _is_plain(side.window)],
        F.lit(True),
    )


def _is_plain(window: Window) -> bool:
    return isinstance(window, TimeWindow) and window.slide_us is None


def _inside(operator: WindowJoin, number: int, last: Column) -> Column:
    side = operator.sides[number]
    own = F.col(f"{TS}{number}")
    # tuples of equal timestamps arrive in the order of their streams
    behind = [i for i, other in enumerate(operator.sides) if other.order > side.order]
    overtaken = reduce(lambda a, b: a | b, [F.col(f"{TS}{i}") == last for i in behind], F.lit(False))
    if isinstance(side.window, RowWindow):
        expiry = F.col(f"{EXPIRY}{number}")
        return expiry.isNull() | (expiry > last) | ((expiry == last) & ~overtaken)
    assert isinstance(side.window, TimeWindow) and side.window.slide_us is not None
    seen = last - F.pmod(last, F.lit(side.window.slide_us))
    is_last = (own == last) & ~overtaken
    return is_last | ((own <= seen) & (seen - own <= F.lit(side.window.range_us)))

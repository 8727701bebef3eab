"""Aggregates over windows.

With a slide, every group is emitted at each boundary. Without, each arriving tuple emits the new value
of its group, over the tuples that are in the window at that instant.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, WindowSpec
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F

from headgate.model.expression import AggregateExpression
from headgate.model.operator import Aggregate
from headgate.model.window import RowWindow, TimeWindow
from headgate.spark.columns import ARRIVED, SEQ, TS, WINDOW_SEQ, tick_constant
from headgate.spark.plans.rows import EXPIRY_SEQ
from headgate.spark.plans.simple import blaming, expression

# room for this many tuples of one microsecond and group; see _instant
_TIES = 2**20


def sliding(operator: Aggregate, tuples: DataFrame, old_ts: int, new_ts: int) -> DataFrame:
    """Every group at each boundary in ``[old_ts, new_ts)``."""
    window = operator.window
    assert isinstance(window, TimeWindow) and window.slide_us is not None
    slide, reach = window.slide_us, window.range_us
    own = f"`{TS}`"
    first = f"({own} + pmod(-{own}, {slide}L))"
    last = f"({own} + {reach}L - pmod({own} + {reach}L, {slide}L))"
    earliest, latest = tick_constant(_ceil_to(old_ts, slide)), tick_constant(_ceil_to(new_ts, slide) - slide)
    low, high = F.greatest(F.expr(first), earliest), F.least(F.expr(last), latest)
    seen = tuples.where(low <= high).withColumn(
        "$boundary", F.explode(F.sequence(low, high, F.lit(slide).cast("bigint")))
    )
    keyed = _keyed(operator, seen)
    names = [key.name for key in operator.keys]
    grouped = keyed.groupBy("$boundary", *names).agg(
        *[_plain(call).alias(call.name) for call in operator.aggregates], F.max(ARRIVED).alias(ARRIVED)
    )
    return grouped.withColumnRenamed("$boundary", TS)


def _ceil_to(ts: int, slide: int) -> int:
    return -(-ts // slide) * slide


def per_tuple(operator: Aggregate, tuples: DataFrame, old_ts: int) -> DataFrame:
    """The new value of its group for every tuple from ``old_ts`` on.

    ``tuples`` hold all that may be in a window; those of row windows with their expiry.
    """
    window = operator.window
    keyed = _keyed(operator, tuples)
    groups = [f"`{key.name}`" for key in operator.keys]
    if isinstance(window, TimeWindow):
        keyed, frame = _time_frame(keyed, groups, window)
    elif isinstance(window, RowWindow) and not window.keys:
        frame = SparkWindow.partitionBy(*groups).orderBy(SEQ).rangeBetween(1 - window.rows, 0)
    else:
        return _by_lifetime(operator, keyed, groups, old_ts)
    values = [_framed(call, frame).alias(call.name) for call in operator.aggregates]
    everything = keyed.select(TS, ARRIVED, *groups, *values)
    return everything.where(F.col(TS) >= tick_constant(old_ts))


def _time_frame(keyed: DataFrame, groups: list[str], window: TimeWindow) -> tuple[DataFrame, WindowSpec]:
    """A frame over an instant that also orders tuples of equal timestamps.

    The instant is timestamp * 2 * TIES + rank among equals; a reach of half a microsecond more than the
    window takes in all ranks of its first microsecond and none of the one before.
    """
    spread = keyed.repartition(*groups) if groups else keyed
    rank = F.row_number().over(SparkWindow.partitionBy(*groups, TS).orderBy(SEQ)) - 1
    instant = F.col(TS).cast("decimal(38,0)") * F.lit(2 * _TIES).cast("decimal(10,0)") + rank
    timed = spread.withColumn("$instant", instant.cast("decimal(38,0)"))
    order = SparkWindow.partitionBy(*groups).orderBy("$instant")
    reach = window.range_us * 2 * _TIES + _TIES
    return timed, order.rangeBetween(-reach, 0)


def _by_lifetime(operator: Aggregate, keyed: DataFrame, groups: list[str], old_ts: int) -> DataFrame:
    """Join each arriving tuple with those of its group that it finds alive."""
    arriving = keyed.where(F.col(TS) >= tick_constant(old_ts)).select(
        F.col(TS),
        F.col(ARRIVED),
        F.col(SEQ).alias("$now"),
        *[F.col(g).alias(f"$g{i}") for i, g in enumerate(groups)],
    )
    alive = keyed.select(SEQ, EXPIRY_SEQ, *groups, *[f"`$arg{i}`" for i in range(len(operator.aggregates))])
    together = (F.col(SEQ) <= F.col("$now")) & (
        F.col(EXPIRY_SEQ).isNull() | (F.col(EXPIRY_SEQ) > F.col("$now"))
    )
    for position, group in enumerate(groups):
        together = together & F.col(f"$g{position}").eqNullSafe(F.col(group))
    joined = arriving.join(alive, together, "inner")
    values = [_plain(call).alias(call.name) for call in operator.aggregates]
    return joined.groupBy(TS, ARRIVED, "$now", *groups).agg(*values).drop("$now")


def _keyed(operator: Aggregate, tuples: DataFrame) -> DataFrame:
    """Group keys and aggregate arguments as columns."""
    system = [c for c in (TS, ARRIVED, SEQ, WINDOW_SEQ, EXPIRY_SEQ, "$boundary") if c in tuples.columns]
    keys = [expression(key.expression).alias(key.name) for key in operator.keys]
    arguments = [
        (F.lit(1) if call.argument is None else expression(call.argument)).alias(f"$arg{position}")
        for position, call in enumerate(operator.aggregates)
    ]
    numbered = {call.name: position for position, call in enumerate(operator.aggregates)}
    assert len(numbered) == len(operator.aggregates)
    return blaming(
        lambda: tuples.select(*system, *keys, *arguments),
        tuples,
        [
            *(key.expression for key in operator.keys),
            *(call.argument for call in operator.aggregates if call.argument is not None),
        ],
    )


def _argument(call: AggregateExpression) -> Column:
    return F.col(f"$arg{int(call.name[1:])}")


def _plain(call: AggregateExpression) -> Column:
    argument = _argument(call)
    if call.distinct:
        return F.count_distinct(argument)
    return {"COUNT": F.count, "SUM": F.sum, "AVG": F.avg, "MIN": F.min, "MAX": F.max}[call.function](argument)


def _framed(call: AggregateExpression, frame: WindowSpec) -> Column:
    if call.distinct:
        # Spark has no DISTINCT over a frame
        return F.size(F.collect_set(_argument(call)).over(frame)).cast("bigint")
    return _plain(call).over(frame)

"""A job of a placed probe: its share of tuples, looked up in the window of one side.

The last tuple of a combination finds all others: a probe looks at tuples that came before the one it is
for, and are inside of their window when that one comes. So a window's part of a result depends on no other
window, and probes commute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from headgate.model.expression import Expression
from headgate.model.joining import aliases_of
from headgate.model.operator import JoinEddy, PlacedProbe
from headgate.spark.blocks import PLAIN, BlockStore
from headgate.spark.columns import SIDE, TS, is_system
from headgate.spark.eddies.layout import Layout
from headgate.spark.eddies.line import Share
from headgate.spark.eddies.parts import Parts, is_on_its_way, measured, measures
from headgate.spark.eddies.task import DONE, NEXT
from headgate.spark.eddies.turning import Weights, turned
from headgate.spark.eddies.ways import parents
from headgate.spark.manifest import BlockRef
from headgate.spark.operators.check import expression
from headgate.spark.operators.window_join import BROADCAST_ROWS

_PARTNER_TS = "$partner_ts"


@dataclass(frozen=True)
class ProbeTask:
    """A probe by its step, the tuples on their way to it, and the blocks of its window that they can meet."""

    step: int
    share: Share
    window: tuple[BlockRef, ...]


def probe_task(eddy: JoinEddy, step: int, share: Share, blocks: Sequence[BlockRef]) -> ProbeTask:
    """What a job has to read; blocks that no tuple can meet may be gone before it does."""
    first_ts = min(block.min_ts for block in share.blocks) - eddy.probes[step].window.reach_us
    last_ts = max(block.max_ts for block in share.blocks)
    met = tuple(block for block in blocks if block.max_ts >= first_ts and block.min_ts <= last_ts)
    return ProbeTask(step, share, met)


def run_probe(
    store: BlockStore, layout: Layout, task: ProbeTask, weights: Weights, path: str, full_path: str
) -> Parts:
    """Run it, and say what came out; ``full_path`` is ``path`` as Spark reads it."""
    ways, share = layout.ways, task.share
    seen = Observation(f"probe of {layout.eddy.name}")
    tuples = store.read(share.files, layout.stored).where(is_on_its_way(ways, task.step))
    window = store.read(task.window, layout.windows[task.step])
    found = turned(_met(layout, task, tuples, window), ways, weights)
    observed = found.select(*layout.stored.names).observe(seen, *measures(ways))
    observed.coalesce(store.parallelism).write.mode("overwrite").options(**PLAIN).parquet(full_path)
    return measured(ways, seen.get, path, share.bytes_per_tuple, share.arrived_us)


def _met(layout: Layout, task: ProbeTask, tuples: DataFrame, window: DataFrame) -> DataFrame:
    """The tuples with their partners in the window, with nothing said about where they go next."""
    eddy = layout.eddy
    assert isinstance(eddy, JoinEddy)
    names = [name for name in window.columns if not is_system(name)]
    partners = window.select(F.col(TS).alias(_PARTNER_TS), *(F.col(f"`{name}`") for name in names))
    lone = tuples.drop(NEXT, *names)
    hint = "broadcast" if task.share.rows <= BROADCAST_ROWS else "shuffle_hash"
    joined = []
    for parent, sides in _by_parent(eddy, task.step).items():
        on = _condition(eddy, task.step, parent)
        joined.append(partners.join(lone.where(F.col(SIDE).isin(sides)).hint(hint), on, "inner"))
    together = reduce(DataFrame.unionByName, joined)
    done = F.col(DONE).bitwiseOR(F.lit(1 << task.step))
    return together.withColumn(DONE, done).drop(_PARTNER_TS)


def _by_parent(eddy: JoinEddy, step: int) -> dict[int | None, list[int]]:
    """The sides whose tuples look the window up with the same columns, so that Spark joins by equal keys."""
    found: dict[int | None, list[int]] = {}
    for side in range(len(eddy.probes)):
        if side != step:
            found.setdefault(parents(eddy, side)[step], []).append(side)
    return found


def _condition(eddy: JoinEddy, step: int, parent: int | None) -> Column:
    aliases = [probe.alias for probe in eddy.probes]
    own = [p for p in eddy.matches if aliases[step] in aliases_of(p, aliases)]
    conditions = [_came_before(eddy, step), _is_inside(eddy.probes[step])]
    for predicate in own:
        others = [aliases.index(alias) for alias in aliases_of(predicate, aliases) if alias != aliases[step]]
        if others == [parent]:
            conditions.append(expression(predicate))
        else:
            conditions.append(_if_there(predicate, sum(1 << other for other in others)))
    return reduce(lambda a, b: a & b, conditions)


def _if_there(predicate: Expression, others: int) -> Column:
    """A predicate that also looks at windows which a tuple may visit later; then it is asked there."""
    return (F.col(DONE).bitwiseAND(F.lit(others)) != others) | expression(predicate)


def _came_before(eddy: JoinEddy, step: int) -> Column:
    # tuples of equal timestamps come in the order of their streams
    order = eddy.probes[step].order
    behind = [side for side, other in enumerate(eddy.probes) if other.order > order]
    ts, partner_ts = F.col(TS), F.col(_PARTNER_TS)
    return (partner_ts < ts) | ((partner_ts == ts) & F.col(SIDE).isin(behind))


def _is_inside(probe: PlacedProbe) -> Column:
    ts, partner_ts = F.col(TS), F.col(_PARTNER_TS)
    if probe.window.slide_us is None:
        return ts - partner_ts <= F.lit(probe.window.range_us)
    seen = ts - F.pmod(ts, F.lit(probe.window.slide_us))
    return (partner_ts <= seen) & (seen - partner_ts <= F.lit(probe.window.range_us))

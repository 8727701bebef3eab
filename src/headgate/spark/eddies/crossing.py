"""An eddy in a tick: what comes goes into its line, what has come through flows on."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.model.network import Network
from headgate.model.operator import JoinEddy
from headgate.spark.columns import BEGINNING_US, END_US
from headgate.spark.eddies.eddies import Eddies
from headgate.spark.eddies.line import Standing
from headgate.spark.flow import Flow, StoreTask, TickPlan


def add_eddy(eddies: Eddies, name: str, flow: Flow, standing: Standing, plan: TickPlan) -> None:
    """Plan an eddy's part of a tick; its predicates are no work of ticks."""
    plan.frontiers[name] = BEGINNING_US
    plan.kept[name] = [list(standing.inside)]
    if flow.tuples is not None:
        plan.stores.append(
            StoreTask(name, 0, eddies.entering(name, flow.tuples), max(flow.rows, flow.made_of))
        )
    finished = standing.finished
    comes = [flow.min_ts] if flow.tuples is not None else []
    oldest_ts = min([block.min_ts for block in standing.inside] + comes, default=END_US)
    plan.flows[name] = Flow(
        tuples=eddies.finished(name, standing),
        rows=sum(block.rows for block in finished),
        min_ts=min((block.min_ts for block in finished), default=END_US),
        max_ts=max((block.max_ts for block in finished), default=BEGINNING_US),
        # whoever keeps order waits for what is still inside
        complete_ts=min(flow.complete_ts, oldest_ts),
        released=flow.released and oldest_ts == END_US,
        spreads=tuple(block.spread for block in finished),
    )


def probed_since(network: Network, name: str, old_ts: int, standings: Mapping[str, Standing]) -> list[int]:
    """From when on tuples may still look into the windows of an operator; nothing if no probe is placed.

    Those that come out of it now have timestamps from ``old_ts`` on.
    """
    probing = [reader for reader in network.readers(name) if isinstance(network.operators[reader], JoinEddy)]
    inside = [block.min_ts for reader in probing for block in standings[reader].inside]
    return [old_ts, *inside] if probing else []

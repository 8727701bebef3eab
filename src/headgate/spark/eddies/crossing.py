"""From when on tuples inside an eddy may still look into the windows below it."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.model.network import Network
from headgate.model.operator import JoinEddy
from headgate.spark.eddies.line import Standing


def probed_since(network: Network, name: str, old_ts: int, standings: Mapping[str, Standing]) -> list[int]:
    """From when on tuples may still look into the windows of an operator; nothing if no probe is placed.

    Those that come out of it now have timestamps from ``old_ts`` on.
    """
    probing = [reader for reader in network.readers(name) if isinstance(network.operators[reader], JoinEddy)]
    inside = [block.min_ts for reader in probing for block in standings[reader].inside]
    return [old_ts, *inside] if probing else []

"""The table ``[simulation]`` of a routing network: how long, with what messages, links and load sharing."""

from __future__ import annotations

from headgate.routing.network import SHARED
from headgate.routing.statistics import Intervals
from headgate.simulator.eddies.setting import EddyRun, Links, LoadSharing
from headgate.simulator.network_file import NetworkFile
from headgate.simulator.table import Table, is_number, shown

_KEYS = ("seconds", "warm_up", "service", "message_seconds", "message_tuples", "ticket_limit", "solve_every")
_LINK_KEYS = ("bytes_per_second", "page_tuples", "tuple_bytes", "page_timer")
_SHARING_KEYS = ("split_at", "accept_below")


def eddy_run(read: NetworkFile, policy: str, rate: float, seed: int) -> EddyRun:
    """The run that a file describes; a shared resource moves between operators, whatever else it says."""
    table = read.simulation
    table.only(*_KEYS, "links", "sharing")
    seconds = table.number("seconds", 450.0, above=True)
    warm_up_s = table.number("warm_up", 0.0)
    if warm_up_s >= seconds:
        raise table.error("warm_up", f"= {warm_up_s:g} leaves nothing of {seconds:g} seconds; write less")
    return EddyRun(
        network=read.network,
        policy=policy,
        rate=rate,
        seconds=seconds,
        seed=seed,
        warm_up_s=warm_up_s,
        links=_links(table),
        sharing=_sharing(table, is_default=SHARED in read.network.servers),
        intervals=Intervals(
            seconds=table.number("message_seconds", Intervals.seconds, above=True),
            tuples=table.whole("message_tuples", int(Intervals.tuples), least=1),
        ),
        overloaded_at=table.whole("ticket_limit", EddyRun.overloaded_at, least=1),
        service=table.choice("service", ("exponential", "constant")),
        source_nodes=read.source_nodes,
        solve_every_s=table.number("solve_every", EddyRun.solve_every_s, above=True),
    )


def _links(table: Table) -> Links | None:
    links = _inner(table, "links", "links = { bytes_per_second = [1e6, 1e8] }")
    if links is None:
        return None
    links.only(*_LINK_KEYS)
    return Links(
        bytes_per_s=_span(links),
        page_tuples=links.whole("page_tuples", Links.page_tuples, least=1),
        tuple_bytes=links.number("tuple_bytes", Links.tuple_bytes, above=True),
        page_timer_s=links.number("page_timer", Links.page_timer_s, above=True),
    )


def _span(links: Table) -> tuple[float, float]:
    value = links.raw("bytes_per_second", "", list(Links.bytes_per_s))
    both = value if isinstance(value, list) else [value, value]
    if len(both) != 2 or not all(is_number(v) and v > 0 for v in both) or both[0] > both[1]:
        raise links.error("bytes_per_second", f"= {shown(value)} is wrong; write 1e6, or [least, most]")
    return float(both[0]), float(both[1])


def _sharing(table: Table, is_default: bool) -> LoadSharing | None:
    sharing = _inner(table, "sharing", "sharing = { split_at = 300 }")
    if sharing is None:
        return LoadSharing() if is_default else None
    sharing.only(*_SHARING_KEYS)
    return LoadSharing(
        split_at=sharing.whole("split_at", LoadSharing.split_at, least=1),
        accept_below=sharing.whole("accept_below", LoadSharing.accept_below, least=1),
    )


def _inner(table: Table, key: str, example: str) -> Table | None:
    content = table.raw(key, "", None)
    if content is None:
        return None
    if not isinstance(content, dict):
        raise table.error(key, f"is no table; write {example}")
    return Table(content, table.file, table.at(key))

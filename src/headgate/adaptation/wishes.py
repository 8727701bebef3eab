"""What callers ask of a run beside its queries: shares to keep, orders of joins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headgate.errors import SetupError, known_names
from headgate.model.network import Network
from headgate.model.operator import WindowJoin
from headgate.model.shedding import DropBox


@dataclass(frozen=True)
class Wishes:
    """``orders`` go by the operators that join."""

    keep: Mapping[str, float]
    seed: int | None
    orders: Mapping[str, tuple[str, ...]]

    @staticmethod
    def checked(
        network: Network, keep: Mapping[str, float], seed: int | None, orders: Mapping[str, Sequence[str]]
    ) -> Wishes:
        """Refuse what this network cannot do; orders go by query here."""
        check_shares(network, keep)
        return Wishes(keep, seed, _by_operator(network, orders))


def check_shares(network: Network, keep: Mapping[str, float]) -> None:
    """Refuse shares that are none, and streams that may not be shed."""
    for stream, share in keep.items():
        if stream not in network.streams:
            raise SetupError(f"unknown stream {stream}; known: {known_names(list(network.streams))}")
        DropBox(stream, share)
        if share < 1 and stream not in network.sheddable():
            reader = next(
                q.name
                for q in network.queries.values()
                if q.overload != "shed" and stream in network.streams_of(q.name)
            )
            raise SetupError(
                f"stream {stream} cannot be shed: query {reader} reads it; "
                f"write CREATE QUERY {reader} WITH (overload = 'shed')"
            )


def _by_operator(network: Network, orders: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    checked: dict[str, tuple[str, ...]] = {}
    for query, order in orders.items():
        name = network.running(f"{query}.join")
        join = network.operators.get(name)
        aliases = [side.alias for side in join.sides] if isinstance(join, WindowJoin) else []
        if sorted(aliases) != sorted(order):
            has = ", ".join(aliases) or "no join in ticks"
            raise SetupError(f"the order {', '.join(order)} does not fit query {query}, which has {has}")
        if checked.setdefault(name, tuple(order)) != tuple(order):
            others = ", ".join(other for other in network.queries_of(name) if other != query)
            raise SetupError(f"query {query} shares its join with {others}; give all of them one order")
    return checked

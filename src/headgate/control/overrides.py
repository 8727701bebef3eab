"""Controllers that choose nothing themselves, and overrides by hand that go before any controller."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headgate.errors import SetupError, unknown_name
from headgate.model.event import TickCommitted
from headgate.model.join_order import JoinOrder
from headgate.model.joins import WindowJoin
from headgate.model.network import Network
from headgate.model.shedding import DropBox, TickSettings
from headgate.runtime.drive import Controller, SettingsDecision

_SAMPLE_EVERY = 4


class FixedController:
    """Keeps everything and joins in the order of FROM; may sample how often tuples match, nothing else."""

    def __init__(self, samples: bool = False) -> None:
        self._samples = samples
        self._ticks = 0

    def first(self) -> TickSettings:
        return TickSettings()

    def decide(self, tick: TickCommitted, settings: TickSettings) -> SettingsDecision:
        del tick
        self._ticks += 1
        return SettingsDecision(settings)

    def wants_samples(self) -> bool:
        """In few ticks: sampling takes time in ticks that are being timed."""
        return self._samples and self._ticks % _SAMPLE_EVERY == 0


def has_orders(network: Network) -> bool:
    """Whether there is a join of three or more, whose order can be chosen."""
    return any(isinstance(o, WindowJoin) and len(o.sides) > 2 for o in network.operators.values())


@dataclass(frozen=True)
class Overrides:
    """What a user fixes for a run: keep ratios by stream, the seed of drop boxes, join orders by operator."""

    keep: Mapping[str, float] = field(default_factory=dict)
    seed: int | None = None
    orders: Mapping[str, JoinOrder] = field(default_factory=dict)

    @staticmethod
    def checked(
        network: Network, keep: Mapping[str, float], seed: int | None, orders: Mapping[str, JoinOrder]
    ) -> Overrides:
        """Refuse what this network cannot do; ``orders`` are by query."""
        check_keep_ratios(network, keep)
        return Overrides(keep, seed, _by_operator(network, orders))

    def within(self, network: Network) -> Overrides:
        """What of them another network allows."""
        sheddable, operators = network.sheddable(), network.operators
        keep = {stream: ratio for stream, ratio in self.keep.items() if stream in sheddable}
        orders = {name: order for name, order in self.orders.items() if name in operators}
        return replace(self, keep=keep, orders=orders)


class ManualController:
    """Keep ratios set by hand replace those of another controller."""

    def __init__(self, controller: Controller, overrides: Overrides | None = None) -> None:
        overrides = overrides or Overrides()
        self._lock = threading.Lock()
        self._controller = controller
        self._keep = dict(overrides.keep)
        self._seed = overrides.seed

    def first(self) -> TickSettings:
        settings = replace(self._controller.first(), keep=dict(self._keep), seed=self._seed or 0)
        return replace(settings, most_rows=None) if self._keep else settings

    def shed(self, keep: Mapping[str, float]) -> None:
        """Set the keep ratios of streams until they are set again; any thread may call it."""
        with self._lock:
            self._keep.update(keep)

    def decide(self, tick: TickCommitted, settings: TickSettings) -> SettingsDecision:
        decision = self._controller.decide(tick, settings)
        with self._lock:
            manual = dict(self._keep)
        wanted = {**decision.settings.keep, **manual}
        changed = {s: ratio for s, ratio in wanted.items() if settings.keep_ratio(s) != ratio}
        seed = settings.seed if self._seed is None else self._seed
        # ratios set by hand are kept to, whatever ticks take
        most_rows = None if manual else decision.settings.most_rows
        keep = {**settings.keep, **changed}
        after = replace(decision.settings, keep=keep, seed=seed, most_rows=most_rows)
        reasons = []
        if changed.keys() & manual or after.seed != settings.seed:
            reasons.append("set by hand")
        if changed.keys() - manual or after.orders != settings.orders:
            reasons.append(decision.reason)
        return replace(decision, settings=after, reason="; ".join(reasons))

    def wants_samples(self) -> bool:
        return self._controller.wants_samples()


def check_keep_ratios(network: Network, keep: Mapping[str, float]) -> None:
    """Refuse ratios out of range, and streams that may not be shed."""
    for stream, ratio in keep.items():
        if stream not in network.streams:
            raise SetupError(unknown_name("stream", stream, network.streams))
        DropBox(stream, ratio)
        if ratio < 1 and stream not in network.sheddable():
            held = [q.name for q in network.queries.values() if q.overload != "shed"]
            reader = next(query for query in held if stream in network.streams_of(query))
            raise SetupError(
                f"stream {stream} cannot be shed: query {reader} reads it; "
                f"write CREATE QUERY {reader} WITH (overload = 'shed')"
            )


def _by_operator(network: Network, orders: Mapping[str, JoinOrder]) -> dict[str, JoinOrder]:
    checked: dict[str, JoinOrder] = {}
    for query, order in orders.items():
        if query not in network.queries:
            raise SetupError(unknown_name("query", query, network.queries))
        name = network.running(f"{query}.join")
        join = network.operators.get(name)
        aliases = [side.alias for side in join.sides] if isinstance(join, WindowJoin) else []
        if sorted(aliases) != sorted(order.aliases):
            has = ", ".join(aliases) or "no join in ticks"
            raise SetupError(f"the order {order} does not fit query {query}, which has {has}")
        if checked.setdefault(name, order) != order:
            others = ", ".join(other for other in network.queries_of(name) if other != query)
            raise SetupError(f"query {query} shares its join with {others}; give all of them one order")
    return checked

"""Path flows seen from inside the network: what tuples of one history do next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.routing.network import RoutingNetwork


@dataclass(frozen=True)
class Choice:
    """Where tuples of one plan and history go next."""

    plan: str
    state: int
    done: tuple[str, ...]
    rate: float
    """Tuples a second, per tuple a second of all sources together."""
    weights: Mapping[str, float]
    """By operator that the tuples are ready for; they sum to 1."""


@dataclass(frozen=True)
class Histories:
    """All histories that occur, fewer operators first; and how tuples move from operator to operator."""

    choices: tuple[Choice, ...]
    weights: Mapping[str, Mapping[str, float]]
    """From a source or operator to an operator, among tuples that had a choice there (or all)."""

    @classmethod
    def of(cls, network: RoutingNetwork, flows: Mapping[str, Mapping[tuple[str, ...], float]]) -> Histories:
        """Follow every path; paths of the same history mix."""
        shares = network.shares()
        choices: list[Choice] = []
        freely: dict[str, dict[str, float]] = {}
        anyway: dict[str, dict[str, float]] = {}
        for name, plan in network.plans.items():
            rates: dict[int, dict[str, float]] = {}
            came_from: dict[int, dict[str, float]] = {}
            for order, amount in flows.get(name, {}).items():
                state, at, reached = 0, plan.source, amount * shares[plan.source]
                for operator in order:
                    _add(rates, state, operator, reached)
                    _add(came_from, state, at, reached)
                    state = dict(plan.moves(state))[operator]
                    reached *= network.operators[operator].selectivity_of(plan.source)
                    at = operator
            for state in sorted(rates, key=lambda s: len(plan.done(s))):
                total = sum(rates[state].values())
                if total <= 0:
                    continue
                weights = {operator: rate / total for operator, rate in rates[state].items()}
                choices.append(Choice(name, state, plan.done(state), total, weights))
                moved = freely if len(plan.moves(state)) > 1 else anyway
                for at, rate in came_from[state].items():
                    for operator, weight in weights.items():
                        _add(moved, at, operator, rate * weight)
        origins = dict.fromkeys([*network.rates, *network.operators])
        moves = {at: freely.get(at) or anyway[at] for at in origins if at in freely or at in anyway}
        return cls(
            tuple(choices),
            {
                at: {to: rate / sum(rates.values()) for to, rate in rates.items()}
                for at, rates in moves.items()
            },
        )


def _add(table: dict, key: object, inner: str, amount: float) -> None:  # type: ignore[type-arg]
    row = table.setdefault(key, {})
    row[inner] = row.get(inner, 0.0) + amount

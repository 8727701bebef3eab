"""Profiles of operators that were not measured, estimated from like ones and marked as estimates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from headgate.model.joins import WindowUpdate
from headgate.model.network import Network
from headgate.model.operator import Aggregate, Operator
from headgate.model.operator_inputs import OperatorInput, StreamInput
from headgate.model.profile import Profile, Profiles
from headgate.model.window import RowWindow, TimeWindow, Window
from headgate.statistics.completeness import missing_operators, with_idle_operators
from headgate.statistics.profile_file import Measured

Estimates = Mapping[str, str]
"""Operators that were estimated, and the measured operator that stands for each."""


def with_estimates(measured: Measured, network: Network) -> tuple[Measured, Estimates]:
    """The profile with those of operators that it lacks, and which ones these are.

    An operator that has changed is taken to be as it was; any other one to be as the nearest of its kind in
    the network that was measured. Where there is none of its kind, it stays unknown.
    """
    missing = missing_operators(measured, network)
    known = with_idle_operators(measured, network).profiles
    found: dict[str, Profile] = {}
    likes: dict[str, str] = {}
    for name in missing:
        own = measured.profiles.get(name)
        like = name if own is not None else _nearest(name, network, known)
        if like is not None:
            likes[name] = like
            found[name] = _as_estimate(own or known[like], [known[n] for n in _like(name, network, known)])
    # what is stated has no definition that it could differ from
    definitions = {name: text for name, text in measured.definitions.items() if name not in found}
    return replace(measured, profiles={**measured.profiles, **found}, definitions=definitions), likes


def _like(name: str, network: Network, known: Profiles) -> list[str]:
    """Measured operators of the same kind."""
    kind = type(network.operators[name])
    return [other for other, own in network.operators.items() if type(own) is kind and other in known]


def _nearest(name: str, network: Network, known: Profiles) -> str | None:
    """The one over the same streams, with windows of about the same length and as many expressions."""

    def distance(other: str) -> tuple[float, float, int, str]:
        one, two = network.operators[name], network.operators[other]
        streams = len(_streams(name, network) ^ _streams(other, network))
        longer = abs(math.log(_window_length(one) / _window_length(two)))
        return streams, longer, abs(_expressions(one) - _expressions(two)), other

    return min(_like(name, network, known), key=distance, default=None)


def _as_estimate(like: Profile, others: list[Profile]) -> Profile:
    """The profile of a like operator, with an error as large as its cost, or as others of its kind differ."""
    costs = [like.seconds_per_tuple, *(own.seconds_per_tuple for own in others)]
    error = max(like.seconds_per_tuple, max(costs) - min(costs))
    return replace(like, samples=0, seconds_per_tuple_error=error, selectivity_error=like.selectivity)


def _streams(operator: str, network: Network) -> frozenset[str]:
    inputs = network.operators[operator].inputs
    own = frozenset(source.stream for source in inputs if isinstance(source, StreamInput))
    return own.union(*(_streams(i.operator, network) for i in inputs if isinstance(i, OperatorInput)))


def _window_length(operator: Operator) -> float:
    """Of all windows together: seconds or rows, which are compared with their like by kind and stream."""
    windows: list[Window] = []
    if isinstance(operator, WindowUpdate):
        windows = [side.window for side in operator.sides]
    elif isinstance(operator, Aggregate):
        windows = [operator.window]
    return 1.0 + sum(
        own.range_us / 1e6 if isinstance(own, TimeWindow) else float(own.rows)
        for own in windows
        if isinstance(own, (TimeWindow, RowWindow))
    )


def _expressions(operator: Operator) -> int:
    """How many conditions and columns it computes."""
    return sum(len(getattr(operator, name, ())) for name in ("predicates", "items", "aggregates", "keys"))

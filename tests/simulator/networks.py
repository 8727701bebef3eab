"""Scenarios for tests of the simulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headgate.model.network import Network, QueryDefinition, SinkDefinition, StreamDefinition
from headgate.model.operator import Synthetic
from headgate.model.operator_inputs import Input, OperatorInput, StreamInput
from headgate.simulator import Behaviour, Scenario


def scenario(
    arrivals: Mapping[str, Sequence[float]],
    operators: Mapping[str, tuple[str, Behaviour]],
    queries: Mapping[str, str],
    ordered: Sequence[str] = (),
    **settings: Any,
) -> Scenario:
    """Operators are ``name: ("input input", behaviour)``; queries are ``name: "operator operator"``."""

    def source(name: str) -> Input:
        return StreamInput(name, name, ()) if name in arrivals else OperatorInput(name)

    network = Network(
        tuple(StreamDefinition(name, "synthetic", None) for name in arrivals),
        (),
        tuple(
            Synthetic(name, tuple(map(source, inputs.split())), name in ordered)
            for name, (inputs, _) in operators.items()
        ),
        tuple(QueryDefinition(n, tuple(o.split()), SinkDefinition("none")) for n, o in queries.items()),
    )
    behaviours = {name: behaviour for name, (_, behaviour) in operators.items()}
    times = {name: np.array(times, np.float64) for name, times in arrivals.items()}
    return Scenario(network, behaviours, times, **settings)


def two_operators(**settings: Any) -> Scenario:
    """The worked example of progress charts."""
    return scenario(
        {"s": range(7)},
        {"a": ("s", Behaviour(1, 0.2)), "b": ("a", Behaviour(5, 0.0))},
        {"q": "b"},
        **{"time_unit_s": 1.0, **settings},
    )


def two_streams(**settings: Any) -> Scenario:
    """The worked example of segments."""
    return scenario(
        {"s1": [1, 3], "s2": [2, 3]},
        {
            "1": ("s1", Behaviour(1, 0.2)),
            "2": ("s2", Behaviour(1, 0.2)),
            "3": ("1 2", Behaviour(5, 0.8)),
        },
        {"q": "3"},
        **{"time_unit_s": 1.0, **settings},
    )

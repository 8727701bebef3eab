"""Random scenarios: chains, trees, shared operators, joins in timestamp order; few and small numbers."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from tests.simulator.networks import scenario

from headgate.simulator import Behaviour, OnePerOperator, Pool, Scenario

_SECONDS = st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.5, 1.0, 1.7, 3.0])
_SELECTIVITY = st.sampled_from([0.0, 0.1, 0.2, 0.5, 0.9, 1.0, 1.0, 1.5, 2.2])


@st.composite
def behaviours(draw: Any) -> Behaviour:
    return Behaviour(
        draw(_SECONDS),
        draw(_SELECTIVITY),
        draw(st.sampled_from([1.0, 1.0, 0.5, 3.0])),
        draw(st.sampled_from(["constant", "constant", "exponential"])),
    )


@st.composite
def scenarios(draw: Any, processors: Any = None, most_inputs: int = 2) -> Scenario:
    times = st.lists(st.integers(0, 60), max_size=8).map(lambda tenths: sorted(t / 10 for t in tenths))
    streams = {f"s{i}": draw(times) for i in range(draw(st.integers(1, 3)))}
    operators: dict[str, tuple[str, Behaviour]] = {}
    ordered = []
    for number in range(draw(st.integers(1, 6))):
        sources = st.sampled_from([*streams, *operators])
        inputs = draw(st.lists(sources, min_size=1, max_size=draw(st.sampled_from([1, 1, most_inputs]))))
        operators[f"o{number}"] = (" ".join(inputs), draw(behaviours()))
        if len(inputs) > 1 and draw(st.booleans()):
            ordered.append(f"o{number}")
    read = {name for inputs, _ in operators.values() for name in inputs.split()}
    queries = {f"q{name}": name for name in operators if name not in read or draw(st.booleans())}
    pool = st.sampled_from([Pool(1), Pool(1), Pool(2), Pool(3), OnePerOperator()])
    return scenario(
        streams,
        operators,
        queries,
        ordered,
        time_unit_s=draw(st.sampled_from([None, 1.0, 0.5, 0.3])),
        processors=draw(pool if processors is None else processors),
        fate=draw(st.sampled_from(["page", "random"])),
        seed=draw(st.integers(0, 3)),
    )

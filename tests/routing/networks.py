"""Random networks."""

from __future__ import annotations

from hypothesis import strategies as st

from headgate.routing.routing_network import AnyOrder, PlacedOperator, RoutingNetwork


@st.composite
def random_networks(draw: st.DrawFn, most: int = 6) -> RoutingNetwork:
    """One or two plans over up to six operators, some on nodes, some with order constraints."""
    size = draw(st.integers(1, most))
    names = [f"o{number}" for number in range(size)]
    figure = st.floats(0.05, 2.0).map(lambda value: round(value, 3))
    operators = {
        name: PlacedOperator(
            name,
            draw(figure),
            draw(st.sampled_from([0.0, 1.0, 1.3]) | figure),
            *draw(st.sampled_from([(3.0, None), (7.0, None), (None, "n"), (None, None)])),
        )
        for name in names
    }
    plans = {"p": AnyOrder("p", "s", tuple(names), draw(_before(names)))}
    if draw(st.booleans()):
        chosen = names[: draw(st.integers(1, size))]
        plans["q"] = AnyOrder("q", "t", tuple(chosen), draw(_before(chosen)))
    rates = {plan.source: draw(st.floats(1.0, 9.0)) for plan in plans.values()}
    is_sharing = any(op.resource is None and op.node is None for op in operators.values())
    return RoutingNetwork(
        rates, operators, plans, nodes={"n": 5.0}, total_resource=11.0 if is_sharing else None
    )


def _before(names: list[str]) -> st.SearchStrategy[tuple[tuple[str, str], ...]]:
    if len(names) < 2:
        return st.just(())
    # from a lower to a higher number: there is no cycle
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    return st.lists(st.sampled_from(pairs), max_size=3, unique=True).map(tuple)

"""Strategy and bounds can be changed between two decisions."""

from __future__ import annotations

from tests.runtime.networks import chains

from headgate.model.network import Network
from headgate.model.profile import Profile, Profiles
from headgate.model.view import QueueView, SystemView, Turn
from headgate.runtime.drive import ReplaceableStrategy
from headgate.scheduling import strategy_named

NETWORK = chains(2, 1)
PROFILES = {name: Profile(1e-3, 0.5) for name in NETWORK.operators}
VIEW = SystemView(5.0, {n: QueueView(n, 3.0, 3.0, 10.0, 0.0) for n in NETWORK.operators})


class Noting:
    name = "noting"

    def __init__(self) -> None:
        self.bounds: list[dict[str, float | None]] = []

    def prepare(self, network: Network, profiles: Profiles) -> None:
        self.bounds.append({q.name: q.latency_s for q in network.queries.values()})

    def choose(self, view: SystemView) -> Turn | None:
        return None


def test_another_strategy_takes_over_at_the_next_decision() -> None:
    replaceable = ReplaceableStrategy(strategy_named("fifo"))
    replaceable.prepare(NETWORK, PROFILES)
    assert replaceable.choose(VIEW) is not None
    noting = Noting()
    replaceable.use(noting)
    assert replaceable.name == "noting"
    assert noting.bounds == []
    assert replaceable.choose(VIEW) is None
    assert noting.bounds == [{"q0": None, "q1": None}]


def test_changed_bounds_stay_when_profiles_change() -> None:
    noting = Noting()
    replaceable = ReplaceableStrategy(noting)
    replaceable.prepare(NETWORK, PROFILES)
    replaceable.set_latency_bounds({"q1": 2.0})
    replaceable.choose(VIEW)
    replaceable.choose(VIEW)
    replaceable.prepare(NETWORK, PROFILES)
    assert noting.bounds == [{"q0": None, "q1": None}, {"q0": None, "q1": 2.0}, {"q0": None, "q1": 2.0}]

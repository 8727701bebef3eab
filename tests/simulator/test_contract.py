"""The engine in virtual time keeps the contract of engines."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import pytest
from tests.runtime.engine_contract import EngineContract
from tests.simulator.networks import scenario

from headgate.runtime.drive import Engine
from headgate.simulator import Behaviour, OnePerOperator, Pool, Scenario
from headgate.simulator.virtual_engine import VirtualEngine


def plan(**settings: object) -> Scenario:
    """Selections, an ordered join above them, an operator shared by two queries."""
    return scenario(
        {"s": [0, 0.5, 1, 1.5, 2], "t": [0.25, 1.75]},
        {
            "a": ("s", Behaviour(0.4, 0.5)),
            "b": ("t", Behaviour(0.3, 0.8)),
            "j": ("a b", Behaviour(0.7, 1.6)),
            "c": ("a", Behaviour(0.2)),
        },
        {"q": "j", "r": "c"},
        ordered=["j"],
        **settings,
    )


class TestOnePage(EngineContract):
    scenario = plan()

    def started(self) -> AbstractContextManager[Engine]:
        return nullcontext(VirtualEngine(self.scenario))

    def arrivals(self) -> dict[str, int]:
        return {"s": 5, "t": 2}


class TestTimeUnits(TestOnePage):
    scenario = plan(time_unit_s=0.25)


class TestRandomFates(TestOnePage):
    scenario = plan(fate="random", processors=Pool(2))


class TestServersOfTheirOwn(TestOnePage):
    scenario = plan(processors=OnePerOperator())


def test_the_contract_itself_starts_no_engine() -> None:
    with pytest.raises(NotImplementedError):
        EngineContract().started()

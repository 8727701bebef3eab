"""Overrides by hand: join orders of queries that share a join, and keep ratios before any controller's."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.planning.support import catalog_of

from headgate.control.overrides import FixedController, ManualController, Overrides
from headgate.errors import SetupError
from headgate.model.event import TickCommitted
from headgate.model.join_order import JoinOrder
from headgate.model.shedding import TickSettings
from headgate.planning.lower import Stages
from headgate.runtime.drive import SettingsDecision

TEXT = "".join(
    f"""CREATE QUERY {query} AS SELECT p.{column} FROM packets [ROWS 9] p, flows [ROWS 5] f
      WHERE p.src = f.src;"""
    for query, column in (("one", "src"), ("two", "dst"))
)


def test_queries_that_share_a_join_have_one_order() -> None:
    catalog = catalog_of(TEXT)
    network = Stages.of(catalog).lowered
    assert Overrides.checked(network, {}, None, {"two": JoinOrder("fp")}).orders == {"one.join": ("f", "p")}
    both = {"one": JoinOrder("pf"), "two": JoinOrder("fp")}
    with pytest.raises(SetupError, match="query two shares its join with one; give all of them one order"):
        Overrides.checked(network, {}, None, both)
    with pytest.raises(SetupError, match="the order p does not fit query two, which has p, f"):
        Overrides.checked(network, {}, None, {"two": JoinOrder("p")})


class Opening(FixedController):
    """Always finds room, as the adaptive controller does where nothing is shed."""

    def __init__(self, **keep: float) -> None:
        super().__init__()
        self.keep = keep

    def decide(self, tick: TickCommitted, settings: TickSettings) -> SettingsDecision:
        after = TickSettings({**settings.keep, **self.keep}, settings.seed)
        return SettingsDecision(after, "there is room again")


TICK = TickCommitted(1.0, 0, 1.0, {}, {}, 0, 0, 0)


def test_a_keep_ratio_set_by_hand_is_reported_as_such_and_stays() -> None:
    manual = ManualController(Opening(a=1.0, b=1.0))
    settings = manual.first()
    assert manual.decide(TICK, settings).settings == settings
    manual.shed({"a": 0.5})
    decision = manual.decide(TICK, settings)
    assert decision.reason == "set by hand"
    assert decision.settings.keep == {"a": 0.5}
    assert manual.decide(TICK, decision.settings).settings == decision.settings
    manual.shed({"a": 1.0})
    opened = manual.decide(TICK, decision.settings)
    assert opened.reason == "set by hand" and opened.settings.keep == {"a": 1.0}


def test_reasons_name_the_hand_and_the_controller_where_both_change_something() -> None:
    opening = Opening(a=1.0, b=1.0)
    manual = ManualController(opening)
    manual.shed({"a": 0.5})
    both = manual.decide(TICK, TickSettings({"b": 0.25}))
    assert both.reason == "set by hand; there is room again"
    assert both.settings.keep == {"a": 0.5, "b": 1.0}
    opening.keep["b"] = 0.75
    assert manual.decide(TICK, both.settings).reason == "there is room again"


class Limiting(FixedController):
    """Lets a few rows in."""

    def first(self) -> TickSettings:
        return TickSettings(most_rows=10)

    def decide(self, tick: TickCommitted, settings: TickSettings) -> SettingsDecision:
        return SettingsDecision(replace(settings, most_rows=20))


def test_ratios_set_by_hand_are_kept_to_however_many_rows_there_are() -> None:
    manual = ManualController(Limiting())
    assert manual.first().most_rows == 10
    assert manual.decide(TICK, manual.first()).settings.most_rows == 20
    manual.shed({"a": 0.5})
    assert manual.first() == TickSettings({"a": 0.5})
    assert manual.decide(TICK, manual.first()).settings == TickSettings({"a": 0.5})

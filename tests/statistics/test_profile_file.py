"""Profile files: what was measured, written and read again."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.model.profile import Profile, TickCosts
from headgate.statistics.profile_file import Measured, beside


def test_a_profile_survives_being_written() -> None:
    ticks = TickCosts(0.2, 1e-6, 0.5)
    measured = Measured({"a": Profile(2e-6, 0.25, 33.0, 12, 1e-7, 0.004)}, {"s": 100.0}, ticks)
    assert Measured.from_json(measured.to_json(), "p") == measured


@pytest.mark.parametrize("script", ["q.sql", "folder/q.cql", "q"])
def test_a_profile_lies_beside_its_script(script: str) -> None:
    assert beside(Path(script)) == Path(script).parent / "q.profile.json"

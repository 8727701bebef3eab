"""What share of tuples results are based on, as far back as windows reach."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.planning.support import bound, catalog_of

from headgate.model.event import StreamCounts
from headgate.planning.lower import lower
from headgate.planning.rules import optimize
from headgate.spark.result_quality import KeepRatios

QUERIES = """
CREATE QUERY now AS SELECT src FROM packets;
CREATE QUERY wide AS SELECT COUNT(*) AS n FROM packets [RANGE 10 SECONDS SLIDE 1 SECOND];
CREATE QUERY ever AS SELECT COUNT(*) AS n FROM packets;
"""


def tick(second: int, rows_in: int, shed: int, totals: StreamCounts) -> dict[str, Any]:
    counts = StreamCounts(rows_in, shed=shed)
    state = SimpleNamespace(totals=totals, max_ts=second * 1_000_000)
    return {"packets": SimpleNamespace(counts=counts, state=state)}


def test_shares_reach_back_as_far_as_windows_do() -> None:
    catalog = catalog_of(QUERIES)
    shares = KeepRatios(lower([optimize(plan) for plan in bound(QUERIES, catalog)], catalog))
    assert shares.add(tick(0, 100, 50, StreamCounts(100, shed=50)))["now"] == 0.5
    found = shares.add(tick(5, 100, 0, StreamCounts(200, shed=50)))
    assert found == pytest.approx({"now": 1.0, "wide": 0.75, "ever": 0.75})
    found = shares.add(tick(60, 100, 0, StreamCounts(300, shed=50)))
    assert found == pytest.approx({"now": 1.0, "wide": 1.0, "ever": 5 / 6})
    # nothing came: results are of what there was
    found = shares.add(tick(70, 0, 0, StreamCounts(300, shed=50)))
    assert found["now"] == 1.0

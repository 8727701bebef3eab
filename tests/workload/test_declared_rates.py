"""Rates that streams declare by their options."""

from __future__ import annotations

import pytest

from headgate.model.network import StreamDefinition
from headgate.workload.declared_rates import declared_rate, declared_rates


@pytest.mark.parametrize(
    ("format", "options", "rates"),
    [
        ("rate", {}, (1.0,)),
        ("rate", {"rowsPerSecond": "250"}, (250.0,)),
        ("burst", {"rate": "500"}, (500.0,)),
        ("burst", {"rate": "500", "speed": "3"}, (1500.0,)),
        # by its own time, however fast it is read
        ("burst", {"rate": "500", "speed": "max", "duration": "9 s"}, (500.0,)),
        ("burst", {"rate": "500, 2000 from 60 s"}, (500.0, 2000.0)),
        # 46 of 50 events are bids
        ("nexmark", {"table": "bid", "rate": "1000"}, (920.0,)),
        ("csv", {"path": "in/"}, ()),
        ("dataframe", {}, ()),
    ],
)
def test_streams_declare_rates(format: str, options: dict[str, str], rates: tuple[float, ...]) -> None:
    stream = StreamDefinition("s", format, None, tuple(options.items()))
    assert declared_rates(stream) == pytest.approx(rates)
    assert declared_rate(stream) == (pytest.approx(rates[0]) if len(rates) == 1 else None)

"""The limits of a run: what was asked for, or else what bounds of queries allow."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.planning.support import bound, catalog_of

from headgate.control.controller import TICK_OF_BOUND
from headgate.errors import SetupError
from headgate.handle import Launcher, RunSettings, _memory_bytes, locate
from headgate.model.network import Network
from headgate.planning.lower import lower
from headgate.planning.rules import optimize
from headgate.scheduling.baselines import Fifo
from headgate.statistics.profile_file import Measured
from headgate.statistics.store import StatisticsStore

FREE = "CREATE QUERY q AS SELECT src FROM packets;"
BOUNDED = "CREATE QUERY q WITH (latency = '4 s', memory = '1 MB') AS SELECT src FROM packets;"


def network_of(query: str) -> Network:
    catalog = catalog_of(query)
    return lower([optimize(plan) for plan in bound(query, catalog)], catalog)


def budget_s(query: str, is_file: bool = False, **settings: Any) -> float:
    network = network_of(query)
    launcher = Launcher(None, SimpleNamespace(is_file_stream=lambda definition: is_file), {}, {})
    return launcher._budget_s(
        network, RunSettings(Fifo(), StatisticsStore(network, Measured({})), **settings)
    )


def test_a_given_budget_counts_whatever_the_bounds_are() -> None:
    assert budget_s(BOUNDED, tick_budget="500 ms") == 0.5
    assert budget_s(FREE, tick_budget=2) == 2.0
    with pytest.raises(SetupError, match="more than 0 s"):
        budget_s(FREE, tick_budget=0)


def test_without_a_budget_latency_bounds_decide_and_without_bounds_ticks_are_short() -> None:
    assert budget_s(BOUNDED) == TICK_OF_BOUND * 4.0
    assert budget_s(FREE) == 1.0


def test_files_read_to_their_end_have_no_budget_to_keep() -> None:
    assert budget_s(FREE, is_file=True, until_done=True) == float("inf")
    assert budget_s(FREE, is_file=True) == 1.0


def test_the_limit_of_a_run_replaces_those_of_its_queries() -> None:
    assert _memory_bytes(None, network_of(FREE)) == float("inf")
    assert _memory_bytes(None, network_of(BOUNDED)) == 2**20
    assert _memory_bytes("2 MB", network_of(BOUNDED)) == 2**21


def test_addresses_stay_and_local_paths_become_absolute() -> None:
    assert locate("s3a://bucket/state") == "s3a://bucket/state"
    assert locate("state").startswith("/")

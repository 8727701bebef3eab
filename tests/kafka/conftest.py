"""A broker for all tests of this folder, if its jars are cached."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kafka.broker import Broker
from tools import fetch_jars


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    if missing := [jar for jar in fetch_jars.missing() if jar.role != "jdbc"]:
        pytest.skip(f"{missing[0].coordinates} is not cached; make kafka fetches it")
    found = Broker(tmp_path_factory.mktemp("broker"), fetch_jars.cache() / "broker")
    found.start()
    yield found
    found.stop()


@pytest.fixture(scope="session")
def connector() -> list[Path]:
    """The jars of Spark's connector."""
    return [jar.path for jar in fetch_jars.listed() if jar.role == "connector"]

"""A broker for all tests of this folder, if its jars are cached."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cached_jars import cached_jars
from tests.kafka.broker import Broker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    jars = cached_jars("broker", "connector")
    found = Broker(tmp_path_factory.mktemp("broker"), jars[0].parent)
    found.start()
    yield found
    found.stop()


@pytest.fixture(scope="session")
def connector() -> list[Path]:
    """The jars of Spark's connector."""
    return cached_jars("connector")

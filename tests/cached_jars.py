"""Jars that some tests need, which ``make jars`` fetches into a cache."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.lengths import IS_LONG
from tools import fetch_jars


def cached_jars(*roles: str) -> list[Path]:
    """The jars of some roles; the test is skipped unless all are cached."""
    if missing := fetch_jars.missing(*roles):
        recipe = "HEADGATE_LONG_TESTS=1 make jars" if IS_LONG else "make jars"
        pytest.skip(f"{missing[0].coordinates} is not cached; {recipe} fetches it")
    return [jar.path for jar in fetch_jars.listed(*roles)]

"""The recorded traffic, for tests that use it where it is: it is no part of the project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

TRACE = Path(
    os.environ.get("HEADGATE_TRACE", Path(__file__).parents[2] / "shared" / "data" / "dec-pkt-1-udp.parquet")
)
with_trace = pytest.mark.skipif(not TRACE.is_file(), reason="no recorded trace; set HEADGATE_TRACE")

"""The version, whether the package is installed or only on the path."""

from __future__ import annotations

import sys


def version() -> str:
    """The version that ``headgate`` itself states."""
    return str(sys.modules["headgate"].__version__)

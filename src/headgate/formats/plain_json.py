"""JSON that every reader accepts: it has no word for NaN and infinity, which become null."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def finite(value: Any) -> Any:
    """The value with None in place of every number that is not finite, however deep."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(own) for key, own in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(own) for own in value]
    return value


def json_text(document: Any, indent: int | None = 2) -> str:
    """The text of a document."""
    try:
        return json.dumps(document, indent=indent, allow_nan=False)
    except ValueError:
        # most documents are finite, and some have a million numbers: copying them takes longer than writing
        return json.dumps(finite(document), indent=indent, allow_nan=False)

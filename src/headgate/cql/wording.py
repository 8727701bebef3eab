"""Pieces of the user's text inside of one-line messages."""

from __future__ import annotations

_LONGEST = 30


def one_line(text: str) -> str:
    """The text without line breaks, cut if it is long."""
    flat = " ".join(text.split())
    return flat if len(flat) <= _LONGEST else f"{flat[: _LONGEST - 3]}..."

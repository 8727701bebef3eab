"""Scripts of studies, with figures to fill in."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files


def filled(text: str, values: Mapping[str, object]) -> str:
    """A text with every name replaced by its value."""
    for name, value in values.items():
        text = text.replace(name, str(value))
    return text


def script(file: str, values: Mapping[str, object]) -> str:
    """The script of a study, filled in."""
    return filled((files("headgate.experiments") / file).read_text(encoding="utf-8"), values)

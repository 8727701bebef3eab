"""Windows: which tuples of a stream count at an instant.

A window is always taken over the stream as declared, before any selection.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RowWindow:
    """The latest ``rows`` tuples; with ``keys`` the latest of every key."""

    rows: int
    keys: tuple[str, ...] = ()

    def __str__(self) -> str:
        by = f"PARTITION BY {', '.join(self.keys)} " if self.keys else ""
        return f"[{by}ROWS {self.rows}]"


@dataclass(frozen=True)
class TimeWindow:
    """Tuples no older than ``range_us``; with a slide, as seen at its last multiple.

    ``[NOW]`` is a range of 0.
    """

    range_us: int
    slide_us: int | None = None

    @property
    def reach_us(self) -> int:
        """How much older than an arriving tuple those that it meets can be."""
        return self.range_us + (self.slide_us or 0)

    def __str__(self) -> str:
        slide = f" SLIDE {self.slide_us / 1e6:g} s" if self.slide_us else ""
        return f"[RANGE {self.range_us / 1e6:g} s{slide}]" if self.range_us else "[NOW]"


@dataclass(frozen=True)
class UnboundedWindow:
    """Every tuple so far."""

    def __str__(self) -> str:
        return "[UNBOUNDED]"


Window = RowWindow | TimeWindow | UnboundedWindow

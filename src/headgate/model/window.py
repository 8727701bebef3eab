"""Windows: the tuples of a stream, before any selection, that are current at an instant."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.model.expression import Expression


@dataclass(frozen=True)
class RowWindow:
    """The latest ``rows`` tuples; with ``keys`` the latest of every key."""

    rows: int
    keys: tuple[str, ...] = ()

    def __str__(self) -> str:
        by = f"PARTITION BY {', '.join(self.keys)} " if self.keys else ""
        return f"[{by}ROWS {self.rows}]"


@dataclass(frozen=True)
class SlidingRowWindow(RowWindow):
    """The latest ``rows`` tuples, emitted as a whole with each whose number is a multiple of ``slide``."""

    slide: int = 1

    def __str__(self) -> str:
        return f"[ROWS {self.rows} SLIDE {self.slide}]"


@dataclass(frozen=True)
class TimeWindow:
    """Tuples no older than ``range_us``, 0 for ``[NOW]``; with a slide, as of its last multiple."""

    range_us: int
    slide_us: int | None = None

    @property
    def reach_us(self) -> int:
        """By how much a tuple can be older than an arriving one that joins it."""
        return self.range_us + (self.slide_us or 0)

    def __str__(self) -> str:
        slide = f" SLIDE {self.slide_us / 1e6:g} s" if self.slide_us else ""
        return f"[RANGE {self.range_us / 1e6:g} s{slide}]" if self.range_us else "[NOW]"


@dataclass(frozen=True)
class HopWindow(TimeWindow):
    """Tuples of ``[end - range, end)``, for every end that is a multiple of the slide.

    In a join, where range and slide are equal, it is the one whose end is still to come.
    """

    @property
    def is_tumbling(self) -> bool:
        """Whether every tuple is in exactly one window."""
        return self.range_us == self.slide_us

    def __str__(self) -> str:
        assert self.slide_us is not None
        length = f"{self.range_us / 1e6:g} s"
        return f"[TUMBLE {length}]" if self.is_tumbling else f"[HOP {length} EVERY {self.slide_us / 1e6:g} s]"


@dataclass(frozen=True)
class UnboundedWindow:
    """Every tuple so far."""

    def __str__(self) -> str:
        return "[UNBOUNDED]"


@dataclass(frozen=True)
class LandmarkWindow(UnboundedWindow):
    """Every tuple so far, emitted as a whole at each multiple of ``slide_us``."""

    slide_us: int

    def __str__(self) -> str:
        return f"[UNBOUNDED SLIDE {self.slide_us / 1e6:g} s]"


@dataclass(frozen=True)
class UntilWindow:
    """Tuples from their timestamp until ``end``, a time that each of them brings, both included.

    ``end`` is over the columns of the stream as declared. With a slide, it is emitted as a whole at each
    multiple of it.
    """

    end: Expression
    slide_us: int | None = None

    def __str__(self) -> str:
        slide = f" SLIDE {self.slide_us / 1e6:g} s" if self.slide_us else ""
        return f"[UNTIL {self.end}{slide}]"


@dataclass(frozen=True)
class SessionWindow:
    """Tuples of a group, each less than ``gap_us`` after the one before it."""

    gap_us: int

    def __str__(self) -> str:
        return f"[SESSION {self.gap_us / 1e6:g} s]"


Window = RowWindow | TimeWindow | UnboundedWindow | UntilWindow | SessionWindow


def is_emitted_whole(window: Window) -> bool:
    """Whether results are those of a window, once it is complete, rather than of every tuple."""
    if isinstance(window, (TimeWindow, UntilWindow)):
        return window.slide_us is not None
    return isinstance(window, (SessionWindow, SlidingRowWindow, LandmarkWindow))


def columns_read(window: Window) -> tuple[str, ...]:
    """The columns of the stream as declared that decide what is inside."""
    if isinstance(window, UntilWindow):
        return window.end.columns
    return window.keys if isinstance(window, RowWindow) else ()

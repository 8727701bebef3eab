"""Errors, sorted by whose fault they are.

``QueryError``, ``SetupError`` and ``UserCodeError`` are the user's to mend, ``DamagedStateError`` is the
disk's doing, ``OverloadError`` and ``StalledError`` are the system's state, ``InternalError`` is a defect
of ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches


class HeadgateError(Exception):
    """Anything Headgate raises on purpose; its text is one line that a user can act on."""


@dataclass(frozen=True)
class Span:
    """A stretch of a CQL text: offsets ``start`` (inclusive) to ``end`` (exclusive)."""

    text: str = field(repr=False)
    start: int
    end: int
    origin: str = "<cql>"

    @property
    def line(self) -> int:
        """Line of the first character, counted from 1."""
        return self.text.count("\n", 0, self.start) + 1

    @property
    def column(self) -> int:
        """Column of the first character, counted from 1."""
        return self.start - (self.text.rfind("\n", 0, self.start) + 1) + 1

    @property
    def excerpt(self) -> str:
        return self.text[self.start : self.end]

    def underlined(self) -> str:
        """The line of the span with a row of carets below it."""
        begin = self.text.rfind("\n", 0, self.start) + 1
        end = self.text.find("\n", self.start)
        source_line = self.text[begin : end if end >= 0 else len(self.text)]
        width = max(1, min(self.end, begin + len(source_line)) - self.start)
        # tabs stay tabs in the margin, so that the carets stand below the right characters
        margin = "".join("\t" if c == "\t" else " " for c in self.text[begin : self.start])
        return f"{source_line}\n{margin}{'^' * width}"


class QueryError(HeadgateError):
    """The query text is wrong; ``span`` says where."""

    def __init__(self, message: str, span: Span | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.span = span

    def __str__(self) -> str:
        if self.span is None:
            return self.message
        return f"{self.span.origin}:{self.span.line}:{self.span.column}: {self.message}"

    def detailed(self) -> str:
        """The one-line error, with the place underlined below it."""
        return str(self) if self.span is None else f"{self}\n{self.span.underlined()}"


class SetupError(HeadgateError):
    """Something around the query is wrong: a missing file, no Java, a foreign checkpoint."""


class DamagedStateError(HeadgateError):
    """Durable state was lost or changed behind our back; nothing is computed over it."""


class UserCodeError(HeadgateError):
    """Python code of the user's has failed: a callback, observer, function, strategy or router."""


class OverloadError(HeadgateError):
    """More work arrives than fits into the budget."""


class StalledError(HeadgateError):
    """Work is queued, but nothing can run."""


class InternalError(HeadgateError):
    """A defect in Headgate."""


# of names in a message; the user knows the others
_MOST_NAMES = 30


def known_names(names: Iterable[str]) -> str:
    """The names a user may have meant, for the end of an error message."""
    known = sorted(names)
    more = len(known) - _MOST_NAMES
    return ", ".join(known[:_MOST_NAMES] + ([f"and {more:,} more"] if more > 0 else [])) or "none"


def nearest(name: str, names: Iterable[str]) -> str:
    """A question for the likeliest of the names; nothing if none is alike."""
    # comparing takes time by the square of the length
    alike = get_close_matches(name[:50], list(names)[:1000], n=1)
    return f"did you mean {alike[0]}? " if alike else ""

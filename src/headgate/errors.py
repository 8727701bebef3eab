"""Errors, sorted by whose fault they are.

``QueryError``, ``SetupError`` and ``UserCodeError`` are the user's to mend, ``DamagedStateError`` is the
disk's doing, ``SparkError``, ``OverloadError``, ``StalledError`` and ``OutputClosedError`` are the system's
state, ``InternalError`` is a defect of ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import islice

# what would end a line, or what a terminal would obey
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_LONGEST_BEGINNING, _LONGEST_END = 1200, 300


class HeadgateError(Exception):
    """Anything Headgate raises on purpose; its text is one line that a user can act on."""

    def __str__(self) -> str:
        return _readable(super().__str__())


def _readable(text: str) -> str:
    """A message in one line that can be read: what users pass in may have line breaks, and any length."""
    line = _CONTROLS.sub(" ", text)
    if len(line) <= _LONGEST_BEGINNING + _LONGEST_END:
        return line
    # it begins with the place, and ends with what would be right
    return f"{line[:_LONGEST_BEGINNING]} ... {line[-_LONGEST_END:]}"


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
    """The query text is wrong; ``span`` states where."""

    def __init__(self, message: str, span: Span | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.span = span

    def __str__(self) -> str:
        if self.span is None:
            return super().__str__()
        place = f"{self.span.origin}:{self.span.line}:{self.span.column}"
        return _readable(f"{place}: {self.message}")

    def detailed(self) -> str:
        """The one-line error, with the place underlined below it."""
        return str(self) if self.span is None else f"{self}\n{self.span.underlined()}"


class SetupError(HeadgateError):
    """Something around the query is wrong: a missing file, no Java, a foreign checkpoint."""


class OutputClosedError(HeadgateError):
    """Nobody reads what a query prints."""


class DamagedStateError(HeadgateError):
    """Durable state was lost or changed behind our back; nothing is computed over it."""


class UserCodeError(HeadgateError):
    """Python code of the user's has failed: a callback, observer, function, strategy or router."""


class SparkError(HeadgateError):
    """Spark has failed; the text is its innermost cause, and ``__cause__`` the error of Spark."""


class OverloadError(HeadgateError):
    """More work arrives than fits into the budget."""


class StalledError(HeadgateError):
    """Work is queued, but nothing can run."""


class InternalError(HeadgateError):
    """A defect in Headgate."""


# of names in a message; the user knows the others
_MOST_NAMES = 40
_MOST_COMPARED = 1000


def known_names(names: Iterable[str]) -> str:
    """The names a user may have meant, for the end of an error message."""
    known = sorted(names)
    more = len(known) - _MOST_NAMES
    return ", ".join(known[:_MOST_NAMES] + ([f"and {more:,} more"] if more > 0 else [])) or "none"


# a longer one is a mistake of another kind
_LONGEST_NAME = 50


def closest(name: str, names: Iterable[str]) -> str | None:
    """The name that was probably meant, whatever its case; None if none is near."""
    # comparing takes time by their number, and by the square of the length
    known = {known.lower(): known for known in islice(names, _MOST_COMPARED)}
    near = get_close_matches(name[:_LONGEST_NAME].lower(), known, n=1)
    return known[near[0]] if near else None


def suggestion(name: str, names: Iterable[str], otherwise: str) -> str:
    """The end of a message about an unknown name: the one that was probably meant, or something else."""
    near = closest(name, names)
    return otherwise if near is None else f"did you mean {near}?"


def nearest(name: str, names: Iterable[str]) -> str:
    """A question for the name that was probably meant, and a space; nothing if none is near."""
    near = closest(name, names)
    return "" if near is None else f"did you mean {near}? "


def unknown_name(kind: str, name: str, names: Iterable[str]) -> str:
    """The message about a name that is none of those known, with the one that was probably meant."""
    known = list(names)
    shown = " ".join(name.split())[:_LONGEST_NAME]
    return f"unknown {kind} {shown}; {nearest(name, known)}known: {known_names(known)}"

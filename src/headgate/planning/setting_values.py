"""Values of settings and options in statements, read and checked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from headgate.cql.statement import Setting
from headgate.cql.syntax import Name
from headgate.errors import QueryError, SetupError, Span, known_names


@contextmanager
def reported_at(span: Span | None) -> Iterator[None]:
    """Errors inside name a place in the text."""
    try:
        yield
    except SetupError as error:
        raise QueryError(str(error), span) from None


def by_key(settings: Sequence[Setting]) -> dict[str, Setting]:
    """Settings by key in lower case, in the order written; the parser rejects duplicates."""
    return {setting.key.text.lower(): setting for setting in settings}


def pairs(settings: dict[str, Setting]) -> tuple[tuple[str, str], ...]:
    return tuple((name, setting.value) for name, setting in settings.items())


def measured(setting: Setting, read: Callable[[str], int]) -> int:
    try:
        return read(setting.value)
    except ValueError as error:
        raise QueryError(f"{setting.key.text}: {error}", setting.span) from None


def format_of(written: Name, known: Collection[str] | None, role: str) -> str:
    """The format's name; short names are case-insensitive, class names are not."""
    if known is not None and written.text.lower() not in {name.lower() for name in known}:
        message = f"unknown {role} format {written.text}; known: {known_names(list(known))}"
        raise QueryError(message, written.span)
    return written.text if "." in written.text else written.text.lower()


def one_of(setting: Setting, values: tuple[str, ...]) -> str:
    if setting.value.lower() not in values:
        choice = " or ".join(f"'{value}'" for value in values)
        raise QueryError(f"{setting.key.text} is {choice}, not '{setting.value}'", setting.span)
    return setting.value.lower()


def positive(setting: Setting, read: Callable[[str], int]) -> int:
    value = measured(setting, read)
    if value <= 0:
        raise QueryError(f"{setting.key.text} must be more than 0", setting.span)
    return value

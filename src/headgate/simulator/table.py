"""Tables of a workload file, read key by key: every error names the file and the place."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from headgate.errors import SetupError, known_names

_REQUIRED = object()


class Table:
    """One table; ``place`` is its name as in ``operators.b``, empty for the whole file."""

    def __init__(self, content: Mapping[str, Any], file: str, place: str = "") -> None:
        self._content = content
        self.file = file
        self.place = place

    def __contains__(self, key: str) -> bool:
        return key in self._content

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys there are."""
        return tuple(self._content)

    def at(self, key: str) -> str:
        """The name of a place inside of the table."""
        return f"{self.place}.{key}" if self.place else key

    def error(self, key: str, what: str) -> SetupError:
        """What is wrong at a key."""
        return SetupError(f"{self.file}: {self.at(key)} {what}")

    def only(self, *known: str) -> None:
        """Raise at a key that has no meaning."""
        for key in self._content:
            if key not in known:
                raise self.error(key, f"is no known key; known here: {known_names(known)}")

    def raw(self, key: str, what: str, default: object = _REQUIRED) -> Any:
        """The value as it stands."""
        if key in self._content:
            return self._content[key]
        if default is _REQUIRED:
            raise self.error(key, f"is missing; write {what}")
        return default

    def tables(self, key: str, example: str) -> dict[str, Table]:
        """The tables below a key, by name; there must be one at least."""
        content = self.raw(key, example)
        if not isinstance(content, dict):
            raise self.error(key, f"is no table; write {example}")
        if not content:
            raise self.error(key, f"is empty; write {example}")
        for name, inner in content.items():
            if not isinstance(inner, dict):
                raise self.error(f"{key}.{name}", f"is no table; write {example}")
        return {name: Table(inner, self.file, self.at(f"{key}.{name}")) for name, inner in content.items()}

    def number(self, key: str, default: object = _REQUIRED, least: float = 0.0, above: bool = False) -> Any:
        """A finite number of ``least`` or more; or more than that, if it must be ``above``."""
        bound = f"above {least:g}" if above else f"of {least:g} or more"
        value = self.raw(key, f"a number {bound}", default)
        if value is default:
            return value
        if not is_number(value) or not math.isfinite(value):
            raise self.error(key, f"= {shown(value)} is no number; write one {bound}")
        if value < least or (above and value == least):
            raise self.error(key, f"= {value:g} is out of range; write a number {bound}")
        return float(value)

    def whole(self, key: str, default: int, least: int) -> int:
        """A whole number of ``least`` or more."""
        value = self.raw(key, "", default)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self.error(key, f"= {shown(value)} is wrong; write a whole number of {least} or more")
        return value

    def choice(self, key: str, values: tuple[str, ...]) -> Any:
        """One of some words; the first of them if none is given."""
        value = self.raw(key, "", values[0])
        if value not in values:
            allowed = " or ".join(f'"{word}"' for word in values)
            raise self.error(key, f"= {shown(value)} is unknown; write {allowed}")
        return value

    def flag(self, key: str) -> bool:
        """True or false; false if it is not given."""
        value = self.raw(key, "", False)
        if not isinstance(value, bool):
            raise self.error(key, f"= {shown(value)} is wrong; write true or false")
        return value

    def names(self, key: str, example: str) -> tuple[str, ...]:
        """One name, or a list of them."""
        value = self.raw(key, example)
        listed = [value] if isinstance(value, str) else value
        if not isinstance(listed, list) or not listed or not all(isinstance(n, str) for n in listed):
            raise self.error(key, f"= {shown(value)} is wrong; write {example}")
        return tuple(listed)


def is_number(value: object) -> bool:
    """Whether a value is a number; true and false are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def shown(value: object) -> str:
    """A value as the file has it, in short."""
    if isinstance(value, bool):
        return str(value).lower()
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."

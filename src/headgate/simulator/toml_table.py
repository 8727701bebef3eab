"""Tables of a TOML file, read key by key: every error names the file and the key."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headgate.errors import SetupError, known_names

# Python 3.10 has no tomllib; tomli is the same under its first name
_toml: Any = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
_REQUIRED = object()


def toml_content(path: Path, wanted: str = "a workload file (.toml)", hint: str = "") -> dict[str, Any]:
    """The content of a TOML file; errors name what is ``wanted``, and a ``hint`` for a missing file."""
    if path.is_dir():
        raise SetupError(f"{path} is a folder; pass {wanted}")
    try:
        content: dict[str, Any] = _toml.loads(path.read_text(encoding="utf-8"))
        return content
    except FileNotFoundError:
        raise SetupError(f"no such file: {path}{hint}") from None
    except UnicodeDecodeError:
        raise SetupError(f"{path} is not valid UTF-8; pass {wanted}") from None
    except OSError as error:
        raise SetupError(f"{path} cannot be read: {error.strerror}") from None
    except _toml.TOMLDecodeError as error:
        raise SetupError(f"{path} is not valid TOML: {error}") from None


class Table:
    """One table; ``path`` is its name as in ``operators.b``, empty for the whole file."""

    def __init__(self, content: Mapping[str, Any], file: str, path: str = "") -> None:
        self._content = content
        self.file = file
        self.path = path

    def __contains__(self, key: str) -> bool:
        return key in self._content

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self._content)

    def error(self, key: str, what: str) -> SetupError:
        return SetupError(f"{self.file}: {self._at(key)} {what}")

    @contextmanager
    def errors(self, key: str = "") -> Iterator[None]:
        """Errors of what is read inside name the file, and a key if it is given."""
        try:
            yield
        except SetupError as error:
            # an error of a table does already
            if str(error).startswith(self.file):
                raise
            raise (self.error(key, str(error)) if key else SetupError(f"{self.file}: {error}")) from None

    def _at(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def only(self, *known: str) -> Table:
        """This table; raises at an unknown key."""
        for key in self._content:
            if key not in known:
                raise self.error(key, f"is not a known key; known here: {known_names(known)}")
        return self

    def one_of(self, key: str, other: str, problem: str = "exclude each other") -> None:
        """Raise if both keys are given."""
        if key in self and other in self:
            raise self.error(key, f"and {other} {problem}; keep one of them")

    def raw(self, key: str, what: str, default: object = _REQUIRED) -> Any:
        """The value as written; errors say ``what`` to write."""
        if key in self._content:
            return self._content[key]
        if default is _REQUIRED:
            raise self.error(key, f"is missing; write {what}")
        return default

    def table(self, key: str, example: str) -> Table:
        """The table below a key; it is empty if it is not given."""
        content = self.raw(key, example, {})
        if not isinstance(content, dict):
            raise self.error(key, f"is not a table; write {example}")
        return Table(content, self.file, self._at(key))

    def tables(self, key: str, example: str, *known: str) -> dict[str, Table]:
        """The tables below a key, by name; there must be one at least. They have ``known`` keys, if any."""
        self.raw(key, example)
        inner = self.table(key, example)
        if not inner.keys:
            raise self.error(key, f"is empty; write {example}")
        found = {name: inner.table(name, example) for name in inner.keys}
        return {name: table.only(*known) if known else table for name, table in found.items()}

    def number(self, key: str, default: object = _REQUIRED, least: float = 0.0, above: bool = False) -> Any:
        """A finite number of ``least`` or more; or more than that, if it must be ``above``."""
        bound = f"above {least:g}" if above else f"of {least:g} or more"
        value = self.raw(key, f"a number {bound}", default)
        if value is default:
            return value
        if not is_number(value) or not math.isfinite(value):
            raise self.error(key, f"= {quote(value)} is not a number; write one {bound}")
        if value < least or (above and value == least):
            raise self.error(key, f"= {value:g} is out of range; write a number {bound}")
        return float(value)

    def whole(self, key: str, default: int, least: int) -> int:
        value = self.raw(key, "", default)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self.error(key, f"= {quote(value)} is wrong; write a whole number of {least} or more")
        return value

    def choice(self, key: str, values: tuple[str, ...]) -> Any:
        """One of some words; the first of them if none is given."""
        value = self.raw(key, "", values[0])
        if value not in values:
            allowed = " or ".join(f'"{word}"' for word in values)
            raise self.error(key, f"= {quote(value)} is unknown; write {allowed}")
        return value

    def flag(self, key: str) -> bool:
        """False if it is not given."""
        value = self.raw(key, "", False)
        if not isinstance(value, bool):
            raise self.error(key, f"= {quote(value)} is wrong; write true or false")
        return value

    def names(self, key: str, example: str) -> tuple[str, ...]:
        """One name, or a list of them."""
        value = self.raw(key, example)
        listed = [value] if isinstance(value, str) else value
        if not isinstance(listed, list) or not listed or not all(isinstance(n, str) for n in listed):
            raise self.error(key, f"= {quote(value)} is wrong; write {example}")
        return tuple(listed)


def is_number(value: object) -> bool:
    """Whether a value is a number; true and false are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def quote(value: object) -> str:
    """A value as in the file, shortened."""
    if isinstance(value, bool):
        return str(value).lower()
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."

"""Documents of users in TOML and JSON: read within limits, and checked by models.

Every error is one line: the file, the path of the value, and what would be right. This module takes a moment
to import, so only modules that always read a document import it at their top.
"""

from __future__ import annotations

import importlib
import json
import re
import reprlib
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError, core_schema

from headgate.errors import SetupError, known_names, nearest

# Python 3.10 has no tomllib; tomli is the same under its first name
_toml: Any = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

# all of this is parsed in less than a second; dotted keys take time and memory by the square of their parts
_MOST_TOML_BYTES = 1_000_000
_MOST_JSON_BYTES = 10_000_000
_MOST_DOTS = 32
_MOST_TABLES = 1000
_MOST_NAMES = 100

REQUIRED: Any = object()
"""Default of a field that must be given: it is checked like any other value, and reported as missing."""


class Section(BaseModel):
    """A table of a document; unknown keys are refused, and defaults are checked like values."""

    model_config = ConfigDict(strict=True, frozen=True, validate_default=True)
    example: ClassVar[str] = "a table"
    """How it is written, for errors."""

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, given: Any) -> Any:
        if isinstance(given, cls):
            return given
        check_table(given, cls.example)
        for key in given:
            if key not in cls.model_fields:
                known = f"known here: {known_names(cls.model_fields)}"
                raise problem(f"is not a known key; {nearest(key, cls.model_fields)}{known}", key)
        return given


@dataclass(frozen=True)
class Right:
    """An annotation: whatever is wrong with a value, the error states this as what to write."""

    text: str

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return core_schema.custom_error_schema(
            handler(source),
            custom_error_type="wrong",
            custom_error_message="{right}",
            custom_error_context={"right": self.text},
        )


@dataclass(frozen=True)
class NamedTables:
    """An annotation of a table of tables: it has ``least`` to ``most`` entries."""

    most: int = _MOST_TABLES
    example: str = ""
    """That of the inner tables, if it is not given."""
    least: int = 1

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        example = self.example or get_args(source)[1].example

        def check(given: Any) -> Any:
            check_table(given, example)
            if len(given) < self.least:
                raise problem(f"is empty; write {example}")
            if len(given) > self.most:
                raise problem(f"has {len(given):,} entries; write {self.most:,} at most")
            return given

        return core_schema.no_info_before_validator_function(check, handler(source))


def _listed(given: Any) -> Any:
    """Several names as a tuple, or one as a tuple of one."""
    return (given,) if isinstance(given, str) else tuple(given) if isinstance(given, list) else given


Names = Annotated[tuple[str, ...], Field(min_length=1, max_length=_MOST_NAMES), BeforeValidator(_listed)]
"""One name, or a list of them."""


def check_table(given: Any, example: str) -> None:
    if not isinstance(given, dict):
        raise problem(
            f"{'is missing' if given is REQUIRED else f'= {shown(given)} is wrong'}; write {example}"
        )


def problem(text: str, key: str = "") -> PydanticCustomError:
    """What a validator raises; the text follows the path of the value, or of a key below it."""
    text = text if text.startswith(":") else f" {text}"
    return PydanticCustomError("problem", "{text}", {"text": text, "key": key})


def checked(kind: Any, content: Any, where: str) -> Any:
    """The content as a model or another type; raises in one line, which ``where`` begins."""
    try:
        return _adapter(kind).validate_python(content)
    except ValidationError as error:
        raise SetupError(f"{where}: {_line(error.errors(include_url=False)[0], content)}") from None


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


@contextmanager
def naming(where: str) -> Iterator[None]:
    """Errors inside begin with ``where``."""
    try:
        yield
    except SetupError as error:
        raise SetupError(f"{where}: {error}") from None


_RIGHTS = {
    "bool_type": "true or false",
    "string_type": "a text",
    "dict_type": "a table",
    "literal_error": "{expected}",
}


def _line(error: ErrorDetails, content: Any) -> str:
    context, value = error.get("ctx", {}), error["input"]
    path = _path(error["loc"], content, is_missing=value is REQUIRED)
    if error["type"] == "problem":
        place = ".".join(filter(None, (path, context["key"] and _key(context["key"]))))
        return f"{place}{context['text']}".lstrip(": =")
    right = context.get("right") or _RIGHTS[error["type"]].format(**context).replace("'", '"')
    if value is REQUIRED:
        return f"{path} is missing; write {right}"
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    wrong = "is out of range" if is_number and error["type"] == "number" else "is wrong"
    return f"{path} = {shown(value)} {wrong}; write {right}"


def _path(parts: tuple[int | str, ...], content: Any, is_missing: bool) -> str:
    path = ""
    for number, part in enumerate(parts):
        is_list = isinstance(content, list) and isinstance(part, int)
        is_there = is_list or (isinstance(content, dict) and part in content)
        # other parts are names of alternatives, which no document contains
        if is_there or (is_missing and number == len(parts) - 1):
            content = content[part] if is_there else None
            path += f"[{part}]" if is_list else f".{_key(str(part))}"
    return path.removeprefix(".")


def path_of(*names: str) -> str:
    return ".".join(map(_key, names))


def unknown(name: str, what: str, names: Collection[str]) -> str:
    """The end of an error about a name that is none of those known."""
    return f"is not {what}; {nearest(name, names)}known: {known_names(names)}"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[\w.+-]{1,80}", name) else shown(name)


_quoted = json.JSONEncoder(ensure_ascii=False).encode


class _Shown(reprlib.Repr):
    """Values as TOML writes them, shortened."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxlist, self.maxdict, self.maxother = 2, 4, 2, 40

    def repr_bool(self, value: bool, level: int) -> str:
        return str(value).lower()

    def repr_int(self, value: int, level: int) -> str:
        # Python refuses to write numbers of thousands of digits
        return str(value) if value.bit_length() <= 64 else "a number of over 19 digits"

    def repr_str(self, value: str, level: int) -> str:
        return _quoted(value if len(value) <= 40 else f"{value[:37]}...")


shown = _Shown().repr


def read_toml(path: Path, wanted: str, hint: str = "") -> dict[str, Any]:
    """The content of a TOML file; errors name what is ``wanted``, and a ``hint`` for a missing file."""
    text = _text_of(path, _MOST_TOML_BYTES, wanted, hint)
    lines = (line for line in text.splitlines() if line.count(".") > _MOST_DOTS)
    if any(piece.count(".") > _MOST_DOTS for line in lines for piece in line.split(",")):
        raise SetupError(f"{path} has a key of over {_MOST_DOTS} parts; pass {wanted}")
    try:
        content: dict[str, Any] = _toml.loads(text)
        return content
    except RecursionError:
        raise SetupError(f"{path} nests too deeply; pass {wanted}") from None
    # not only those of the parser: a number of thousands of digits is refused by Python
    except ValueError as error:
        raise SetupError(f"{path} is not valid TOML: {' '.join(str(error).split())}") from None


def read_json(path: Path, wanted: str, hint: str = "") -> Any:
    return parse_json(_text_of(path, _MOST_JSON_BYTES, wanted, hint), str(path))


def parse_json(text: str, origin: str) -> Any:
    """The value of a JSON text, in which no key may occur twice."""
    try:
        return json.loads(text, object_pairs_hook=lambda pairs: _object(pairs, origin))
    except RecursionError:
        raise SetupError(f"{origin} nests too deeply to be read as JSON") from None
    except ValueError as error:
        raise SetupError(f"{origin} is not valid JSON: {error}") from None


def _object(pairs: list[tuple[str, Any]], origin: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if found.setdefault(key, value) is not value:
            raise SetupError(f"{origin}: the key {_key(key)} occurs twice in one object; keep one of them")
    return found


def _text_of(path: Path, most_bytes: int, wanted: str, hint: str) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(most_bytes + 1)
        if len(content) > most_bytes:
            raise SetupError(f"{path} is larger than {most_bytes / 1e6:g} MB; pass {wanted}")
        return content.decode("utf-8")
    except FileNotFoundError:
        raise SetupError(f"no such file: {path}{hint}") from None
    except IsADirectoryError:
        raise SetupError(f"{path} is a folder; pass {wanted}") from None
    except UnicodeDecodeError:
        raise SetupError(f"{path} is not valid UTF-8; pass {wanted}") from None
    except OSError as error:
        raise SetupError(f"{path} cannot be read: {error.strerror}") from None
    # a path may have characters that no file has
    except ValueError:
        raise SetupError(f"{shown(str(path))} is not the path of a file; pass {wanted}") from None

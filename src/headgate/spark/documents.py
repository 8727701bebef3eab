"""Durable JSON documents that know themselves: a format version, a checksum, and typed content.

A document is one JSON object: ``version``, its fields, ``checksum``. The checksum covers all before it, in
the spelling of Python, so white space may change and a value may not.
"""

from __future__ import annotations

import hashlib
import json
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from headgate.errors import DamagedStateError, SetupError

Document = dict[str, Any]
Kind = TypeVar("Kind")


def seal(content: Any, version: int) -> str:
    """The text of a document whose content is a dataclass, or a mapping of its fields."""
    body = json.dumps({"version": version, **_plain(content)}, default=_plain)
    # a manifest is written every tick: once is enough
    return f'{body[:-1]}, "checksum": "{_checksum(body)}"}}'


def _plain(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    kind: Any = type(value)
    return {name: getattr(value, name) for name in _field_names(kind)}


@cache
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def unseal(text: str, version: int) -> Document:
    """The content of a document; raises if it is damaged, or written by a later version.

    Documents without a version are of the first one, which had no checksum.
    """
    try:
        document = json.loads(text)
    except ValueError as error:
        raise DamagedStateError("it ends too early" if _is_cut(text) else f"not JSON: {error}") from error
    if not isinstance(document, dict):
        raise DamagedStateError("it is not a JSON object")
    found = document.get("version", 1)
    if not isinstance(found, int) or found > version:
        # whatever its checksum covers
        raise SetupError(f"it has format {found}, of a later version of Headgate; this one reads {version}")
    checksum = document.pop("checksum", None)
    if (found > 1 or checksum is not None) and checksum != _checksum(json.dumps(document)):
        raise DamagedStateError("its checksum does not match its content")
    document.pop("version", None)
    return document


def decode(kind: type[Kind], raw: Any) -> Kind:
    """A dataclass from plain JSON values, by the types of its fields; raises if the fields are others.

    Values that are built already may stand among the plain ones.
    """
    built: Kind = _value(kind, raw, kind.__name__)
    return built


def decode_all(kind: type[Kind], raw: Any) -> tuple[Kind, ...]:
    """Several of them."""
    return tuple(decode(kind, item) for item in _expect(raw, list, kind.__name__))


def _value(kind: Any, raw: Any, place: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        [inner] = [argument for argument in arguments if argument is not type(None)]
        return None if raw is None else _value(inner, raw, place)
    if is_dataclass(kind):
        if isinstance(raw, kind):  # type: ignore[arg-type]
            return raw
        return _built(kind, _expect(raw, dict, place), place)
    if origin is tuple:
        return tuple(_value(arguments[0], item, place) for item in _expect(raw, list, place))
    if origin is not None and issubclass(origin, Mapping):
        named = _expect(raw, dict, place)
        return {name: _value(arguments[1], item, f"{place}.{name}") for name, item in named.items()}
    if kind is float:
        return _expect(raw, (int, float), place)
    return raw if kind is Any else _expect(raw, kind, place)


def _built(kind: Any, raw: Document, place: str) -> Any:
    known = {field.name: field for field in fields(kind)}
    if unknown := sorted(raw.keys() - known.keys()):
        raise _other_version(f"{place} has an unknown field {unknown[0]}")
    needed = {n for n, f in known.items() if f.default is MISSING and f.default_factory is MISSING}
    if missing := sorted(needed - raw.keys()):
        raise _other_version(f"{place} lacks the field {missing[0]}")
    hints = _hints(kind)
    return kind(**{name: _value(hints[name], item, f"{place}.{name}") for name, item in raw.items()})


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _expect(raw: Any, kind: Any, place: str) -> Any:
    if not isinstance(raw, kind):
        raise _other_version(f"{place} is a {type(raw).__name__}")
    return raw


def _other_version(what: str) -> SetupError:
    return SetupError(f"{what}; it was written by another version of Headgate, which can go on from it")


def _checksum(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


def _is_cut(text: str) -> bool:
    return not text.rstrip().endswith("}")

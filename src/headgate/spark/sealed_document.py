"""Durable documents of a checkpoint: JSON with a version and a checksum, decoded into dataclasses.

A document is one JSON object: ``version``, its fields, ``checksum``. The checksum covers everything before it
as Python serialises it, so white space may change but values may not.
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
from headgate.model.join_order import JoinOrder

FORMAT_VERSION = 7
"""Format of documents, incremented whenever the previous version could not read new ones."""

Kind = TypeVar("Kind")


def seal(content: Any) -> str:
    """The text of a document whose content is a dataclass, or a mapping of its fields."""
    body = json.dumps({"version": FORMAT_VERSION, **fields_of(content)}, default=fields_of)
    # a manifest is written every tick, so it is serialised only once
    return f'{body[:-1]}, "checksum": "{_checksum(body)}"}}'


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of a dataclass, or the entries of a mapping."""
    if isinstance(value, Mapping):
        return dict(value)
    # raises for anything but a dataclass
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def unseal(text: str) -> dict[str, Any]:
    """The content of a document; raises if it is damaged or of a later version. The first had no checksum."""
    try:
        document = json.loads(text)
    except ValueError as error:
        is_cut = not text.rstrip().endswith("}")
        raise DamagedStateError("it ends too early" if is_cut else f"not JSON: {error}") from error
    if not isinstance(document, dict):
        raise DamagedStateError("it is not a JSON object")
    found = document.get("version", 1)
    if not isinstance(found, int) or found > FORMAT_VERSION:
        # a later version may compute its checksum in another way
        raise SetupError(
            f"it has format {found}, of a later version of Headgate; this one reads {FORMAT_VERSION}"
        )
    checksum = document.pop("checksum", None)
    if (found > 1 or checksum is not None) and checksum != _checksum(json.dumps(document)):
        raise DamagedStateError("its checksum does not match its content")
    document.pop("version", None)
    return document


def _checksum(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


def decode(kind: type[Kind], raw: Any) -> Kind:
    """A dataclass from JSON values, some of them built already, by its fields; raises if they differ."""
    built: Kind = _value(kind, raw, kind.__name__)
    return built


def _value(kind: Any, raw: Any, place: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        [inner] = [argument for argument in arguments if argument is not type(None)]
        return None if raw is None else _value(inner, raw, place)
    if is_dataclass(kind):
        return raw if isinstance(raw, kind) else _built(kind, raw, place)  # type: ignore[arg-type]
    if kind is JoinOrder:
        try:
            return JoinOrder.of(raw)
        except ValueError:
            raise _other_version(f"{place} is no join order") from None
    if origin is tuple:
        return tuple(_value(arguments[0], item, place) for item in _expect(raw, list, place))
    if origin is not None and issubclass(origin, Mapping):
        named = _expect(raw, dict, place)
        return {name: _value(arguments[1], item, f"{place}.{name}") for name, item in named.items()}
    if kind is float:
        return _expect(raw, (int, float), place)
    return raw if kind is Any else _expect(raw, kind, place)


def _built(kind: Any, raw: Any, place: str) -> Any:
    known = {field.name: field for field in fields(kind)}
    if unknown := sorted(_expect(raw, dict, place).keys() - known.keys()):
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

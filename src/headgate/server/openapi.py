"""The OpenAPI document, made from the table of routes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object", list: "array"}
_ERRORS = {
    "400": "what is wrong with the request",
    "401": "no token, or a wrong one",
    "429": "too many requests",
}


@dataclass(frozen=True)
class Operation:
    """One method of one path: what it does, and what it takes and gives."""

    method: str
    path: str
    handler: Any
    summary: str
    kind: str = "application/json"
    parameters: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, type | tuple[type, ...]] = field(default_factory=dict)
    needs_token: bool = True


def document(operations: Iterable[Operation], version: str) -> dict[str, Any]:
    """All operations, as OpenAPI 3.1 describes them."""
    paths: dict[str, Any] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation)
    error = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Headgate", "version": version},
        "components": {
            "schemas": {"Error": error},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
        "paths": paths,
    }


def _described(operation: Operation) -> dict[str, Any]:
    in_path = [part[1:-1] for part in operation.path.split("/") if part.startswith("{")]
    found: dict[str, Any] = {
        "summary": operation.summary,
        "responses": {
            "200": {"description": "as requested", "content": {operation.kind: {}}},
            **{code: _error(text) for code, text in _ERRORS.items()},
        },
    }
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in in_path
    ]
    parameters += [
        {"name": name, "in": "query", "description": text, "schema": {"type": "string"}}
        for name, text in operation.parameters.items()
    ]
    if parameters:
        found["parameters"] = parameters
    if operation.body:
        found["requestBody"] = {"content": {"application/json": {"schema": _schema(operation.body)}}}
    if not operation.needs_token:
        found["security"] = []
    return found


def _schema(keys: Mapping[str, type | tuple[type, ...]]) -> dict[str, Any]:
    def typed(one: type | tuple[type, ...]) -> Any:
        several = one if isinstance(one, tuple) else (one,)
        names = [_TYPES.get(each, "null") for each in several]
        return names[0] if len(names) == 1 else names

    properties = {key: {"type": typed(one)} for key, one in keys.items()}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _error(text: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Error"}
    return {"description": text, "content": {"application/json": {"schema": schema}}}

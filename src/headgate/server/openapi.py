"""The OpenAPI document, made from the table of routes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headgate.server.bodies import Types

_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object", list: "array"}
_REASONS = {
    303: "to the dashboard, with a cookie",
    400: "the request is wrong",
    401: "no token, or a wrong one",
    403: "a request of another page, or a link that is wrong or was used",
    404: "there is nothing of this name",
    408: "the body did not come in time",
    409: "it would break bounds, or there is no run, or only the record of one",
    413: "the body is too long",
    415: "the body is of another type",
    421: "another host name",
    429: "too many requests",
    500: "Spark has failed, or Headgate has a defect",
    503: "no query runs, or too much is open or waits",
}
_OF_ALL = (400, 421, 429, 500, 503)
_OF_TOKENS = (401, 403)
_OF_BODIES = (408, 413, 415)


@dataclass(frozen=True)
class Operation:
    """One method of one path: what it does, what it takes and gives, and what it may answer instead."""

    method: str
    path: str
    handler: Any
    summary: str
    kinds: tuple[str, ...] = ("application/json",)
    parameters: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Types] = field(default_factory=dict)
    takes_text: bool = False
    needs_token: bool = True
    success: int = 200
    others: tuple[int, ...] = (409,)

    @property
    def codes(self) -> tuple[int, ...]:
        """Every status that it may answer."""
        of_tokens = _OF_TOKENS if self.needs_token else ()
        of_bodies = _OF_BODIES if self.body else ()
        return (self.success, *sorted({*_OF_ALL, *of_tokens, *of_bodies, *self.others}))


def document(operations: Iterable[Operation], version: str, cookie: str) -> dict[str, Any]:
    """All operations, as OpenAPI 3.1 describes them; ``cookie`` is the name of that of pages."""
    paths: dict[str, Any] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation)
    place = {name: {"type": "integer"} for name in ("line", "column", "length")}
    properties = {"error": {"type": "string"}, "kind": {"type": "string"}, **place}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Headgate", "version": version},
        "components": {
            "schemas": {"Error": {"type": "object", "properties": properties, "required": ["error"]}},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": cookie},
            },
        },
        "security": [{"token": []}, {"cookie": []}],
        "paths": paths,
    }


def _described(operation: Operation) -> dict[str, Any]:
    in_path = [part[1:-1] for part in operation.path.split("/") if part.startswith("{")]
    responses = {str(code): _error(_REASONS[code]) for code in operation.codes if code >= 400}
    if 303 in operation.others:
        responses["303"] = {"description": _REASONS[303]}
    content: dict[str, Any] = {kind: {} for kind in operation.kinds}
    responses[str(operation.success)] = {"description": "as requested", "content": content}
    found: dict[str, Any] = {
        "operationId": f"{operation.method.lower()} {operation.path}",
        "summary": operation.summary,
        "responses": dict(sorted(responses.items())),
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
        bodies: dict[str, Any] = {"application/json": {"schema": _schema(operation.body)}}
        if operation.takes_text:
            bodies["text/plain"] = {"schema": {"type": "string"}}
        found["requestBody"] = {"required": True, "content": bodies}
    if not operation.needs_token:
        found["security"] = []
    return found


def _schema(keys: Mapping[str, Types]) -> dict[str, Any]:
    def typed(one: Types) -> Any:
        several = one if isinstance(one, tuple) else (one,)
        names = [_TYPES[each] for each in several]
        return names[0] if len(names) == 1 else names

    properties = {key: {"type": typed(one)} for key, one in keys.items()}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _error(text: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Error"}
    return {"description": text, "content": {"application/json": {"schema": schema}}}

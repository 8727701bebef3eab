"""What requests carry, checked: bodies of bounded size and time, and parameters."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from pydantic_core import from_json
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

MOST_BYTES = 1_000_000
_SECONDS = 10.0
Types = type | tuple[type, ...]
"""Of a value, that of one key."""
_TEXTS = ("text/plain", "application/sql")


async def body_of(request: Request) -> bytes:
    """The body; 413 if it is too long, 408 if it does not come in time."""
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > MOST_BYTES:
        raise HTTPException(413, f"the body has {int(declared):,} bytes; send at most {MOST_BYTES:,}")
    found = bytearray()

    async def read() -> None:
        async for part in request.stream():
            found.extend(part)
            if len(found) > MOST_BYTES:
                raise HTTPException(413, f"the body has more than {MOST_BYTES:,} bytes; send fewer")

    try:
        await asyncio.wait_for(read(), _SECONDS)
    except (asyncio.TimeoutError, TimeoutError):
        raise HTTPException(408, f"the body did not come within {_SECONDS:g} s") from None
    except ClientDisconnect:
        raise HTTPException(400, "the request ended before its body") from None
    return bytes(found)


async def object_of(request: Request, keys: Mapping[str, Types]) -> dict[str, Any]:
    """The JSON object of a request, with no other keys than these, and values of these types."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = await body_of(request)
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise HTTPException(400, "the body is not valid UTF-8") from None
    if kind in _TEXTS and "text" in keys:
        return {"text": text}
    if kind != "application/json":
        also = ", or a statement as text/plain" if "text" in keys else ""
        raise HTTPException(415, f"the body is {kind[:50] or 'of no type'}; send application/json{also}")
    try:
        # unlike Python's own parser, this one refuses half a surrogate pair, which no answer could repeat
        document = from_json(body)
    except ValueError:
        raise HTTPException(400, "the body is not valid JSON") from None
    if not isinstance(document, dict):
        raise HTTPException(400, f"the body is not a JSON object; keys: {', '.join(keys)}")
    for key, value in document.items():
        if key not in keys:
            raise HTTPException(400, f"unknown key {key[:50]!r}; known: {', '.join(keys)}")
        types = keys[key]
        wanted: tuple[type, ...] = types if isinstance(types, tuple) else (types,)
        if type(value) not in wanted:
            names = " or ".join(_JSON_NAMES[one] for one in wanted)
            given = _JSON_NAMES.get(type(value), "of another type")
            raise HTTPException(400, f"{key} is {given}, not {names}")
    return document


_JSON_NAMES: dict[type, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
    type(None): "null",
}


def text_of(document: dict[str, Any]) -> str:
    """The statements of a request."""
    text = document.get("text", "")
    if not text.strip():
        raise HTTPException(400, 'there is no statement; send {"text": "SHOW QUERIES"}')
    found: str = text
    return found


def whole_parameter(request: Request, name: str, default: int, least: int, most: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19 and least <= int(text) <= most):
        raise HTTPException(400, f"{name} is {text[:30]!r}; write a whole number from {least} to {most}")
    return int(text)


def word_parameter(request: Request, name: str, words: tuple[str, ...]) -> str:
    """One of these words, the first if none is given."""
    text = request.query_params.get(name, words[0])
    if text not in words:
        raise HTTPException(400, f"{name} is {text[:30]!r}; write one of {', '.join(words)}")
    return text

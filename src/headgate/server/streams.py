"""Answers that go on: events, and results as JSON lines or Arrow.

They go as fast as they are read, and none buffers more than one tick. A reader that takes nothing for a while
is cut off.
"""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from starlette.responses import StreamingResponse

from headgate.errors import HeadgateError
from headgate.formats.arrow_rows import plain_rows
from headgate.formats.plain_json import json_text
from headgate.server.hub import TICK, Hub

if TYPE_CHECKING:
    from headgate.session.handle import Run

_STILL_ALIVE_S = 15.0
_RUN_LOOK_S = 2.0
_LOOK_AGAIN_S = 10.0
_ROWS_PER_PART = 5_000


class PacedResponse(StreamingResponse):
    """Streams as fast as its reader reads, and ends its source with the connection."""

    def __init__(self, content: AsyncGenerator[bytes, None], kind: str) -> None:
        super().__init__(content, media_type=kind, headers={"x-accel-buffering": "no"})
        self._content = content

    async def stream_response(self, send: Any) -> None:
        try:
            await super().stream_response(send)
        finally:
            await self._content.aclose()


async def events(hub: Hub, after: int) -> AsyncGenerator[bytes, None]:
    """Server-sent events: those that are kept after a number, then all that come."""
    subscription = hub.subscribe()
    try:
        yield b"retry: 2000\n\n"
        # a server that has been started anew counts from the beginning
        last = after if after <= hub.last else 0
        for message in hub.since(last):
            last = message.number
            yield _event(message.number, message.kind, message.text)
        while True:
            try:
                found = await subscription.next(_STILL_ALIVE_S)
            except (asyncio.TimeoutError, TimeoutError):
                yield b": still alive\n\n"
                continue
            if found is None:
                # the browser connects again, and continues after the last number that it has seen
                return
            if found.number > last:
                yield _event(found.number, found.kind, found.text)
    finally:
        hub.unsubscribe(subscription)


def _event(number: int, kind: str, text: str) -> bytes:
    return f"id: {number}\nevent: {kind}\ndata: {text}\n\n".encode()


async def result_tables(
    run: Run, query: str, since: int, follow: bool, hub: Hub, turns: asyncio.Semaphore
) -> AsyncGenerator[tuple[int, Any], None]:
    """Results of every tick after ``since``, as a tick and an Arrow table; then of new ticks."""
    subscription = hub.subscribe() if follow else None
    definition = run.network.queries.get(query)
    last = since
    try:
        # that of a query that is dropped ends
        while query in run.network.queries:
            async with turns:
                ready = await asyncio.to_thread(run.result_ticks, query)
            for tick in (tick for tick in ready if tick > last):
                async with turns:
                    table = await asyncio.to_thread(run.results_of_tick, query, tick)
                last = tick
                yield tick, table
            if subscription is None or not run.is_running:
                return
            if subscription.is_over:
                # it was too slow for notices, not for results: these are on disk, and looked for at once
                hub.unsubscribe(subscription)
                subscription = hub.subscribe()
                continue
            await _wait_for_rows(subscription, query, last, run)
    except HeadgateError:
        # what a query had is gone when it is dropped or replaced
        if run.network.queries.get(query) == definition:
            raise
    finally:
        if subscription is not None:
            hub.unsubscribe(subscription)


async def _wait_for_rows(subscription: Any, query: str, last: int, run: Run) -> None:
    """Wait for a notice of rows, or some seconds: of a busy server, notices may be lost."""
    until_s = time.monotonic() + _LOOK_AGAIN_S
    while run.is_running and time.monotonic() < until_s:
        try:
            message = await subscription.next(_RUN_LOOK_S)
        except (asyncio.TimeoutError, TimeoutError):
            continue
        if message is None or message.kind == "network":
            return
        if message.kind == TICK:
            sample: Mapping[str, Any] = json.loads(message.text)
            if sample["tick"] > last and sample["queries"].get(query, [0])[0]:
                return


async def json_lines(tables: AsyncGenerator[tuple[int, Any], None]) -> AsyncGenerator[bytes, None]:
    """A line for each row, with its tick."""
    # a reader that goes away ends all generators now, not when they are collected
    async with aclosing(tables):
        async for tick, table in tables:
            for begin in range(0, table.num_rows, _ROWS_PER_PART):
                rows = await asyncio.to_thread(plain_rows, table.slice(begin, _ROWS_PER_PART))
                lines = (json_text({"tick": tick, "row": row}, indent=None) for row in rows)
                yield ("\n".join(lines) + "\n").encode()


async def arrow_stream(
    tables: AsyncGenerator[tuple[int, Any], None], schema: pa.Schema
) -> AsyncGenerator[bytes, None]:
    """One Arrow IPC stream of all rows, with its schema also if there are none.

    The metadata of a batch have its tick.
    """
    sink = io.BytesIO()
    writer = pa.ipc.new_stream(sink, schema)
    async with aclosing(tables):
        # a reader that waits for rows knows the columns
        yield _taken(sink)
        async for tick, table in tables:
            try:
                if _columns(table.schema) != _columns(schema):
                    raise pa.ArrowInvalid("other columns")
                # whether they may be null depends on the files
                rows = table.cast(schema)
            except pa.ArrowException:
                # the query was replaced; whoever asks again gets its new columns
                break
            for batch in rows.to_batches(max_chunksize=_ROWS_PER_PART):
                writer.write_batch(batch, custom_metadata={"tick": str(tick)})
                yield _taken(sink)
    writer.close()
    yield _taken(sink)


def _columns(schema: pa.Schema) -> list[tuple[str, int]]:
    return [(field.name, field.type.id) for field in schema]


def _taken(sink: io.BytesIO) -> bytes:
    found = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    return found

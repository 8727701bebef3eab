"""The routes: each is a few lines between a request and the session, its run, or what the hub has kept."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from headgate.formats.plain_json import finite
from headgate.server import bodies, documents, metrics, openapi, streams
from headgate.server.guard import Keys, cookie_name
from headgate.server.hub import Hub
from headgate.server.openapi import Operation
from headgate.server.recording import Recorded, Recording
from headgate.server.run_monitor import RunMonitor
from headgate.server.session_thread import Worker

if TYPE_CHECKING:
    from headgate.session.handle import Run

_MOST_STREAMS = 64
# jobs that read results beside the run
_READERS_AT_ONCE = 2
_KINDS = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_COOKIE_S = 30 * 86_400
_JSON_LINES, _EVENTS = "application/x-ndjson", "text/event-stream"
_ARROW = "application/vnd.apache.arrow.stream"
# keys of bodies
_STATEMENTS: Mapping[str, bodies.Types] = {"text": str, "force": bool, "limit": int}
_PREVIEWED: Mapping[str, bodies.Types] = {"text": str}
_SETTINGS: Mapping[str, bodies.Types] = {
    "strategy": str,
    "memory": (str, int),
    "latency": dict,
    "tick_budget": (str, int, float),
}


@dataclass
class Live:
    """What a server answers from: a session and its run, or the record of a run."""

    session: Worker | None
    monitor: RunMonitor
    keys: Keys
    version: str
    stop: Callable[[], None] = lambda: None
    recording: Recording | None = None
    recorded: Recorded | None = None
    """A run that is over, in place of one that is on."""
    _streams: int = 0
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_READERS_AT_ONCE))

    @property
    def hub(self) -> Hub:
        return self.monitor.hub

    @property
    def worker(self) -> Worker:
        """The thread of the session; 409 if there is none."""
        if self.session is None:
            raise HTTPException(409, "this is the record of a run; start headgate serve to change one")
        return self.session

    def run(self) -> Run:
        """The run; 409 if there is none yet."""
        run = self.worker.run
        if run is None:
            raise HTTPException(409, "no query runs yet; declare one with POST /sql")
        return run

    def operations(self) -> tuple[Operation, ...]:
        """All routes."""
        get, post = "GET", "POST"
        results = {
            "format": "jsonl or arrow",
            "since": "only results of ticks after this one",
            "follow": "true: go on with those of new ticks",
        }
        return (
            Operation(
                get, "/health", self.health, "Whether the process answers", needs_token=False, others=()
            ),
            Operation(get, "/ready", self.ready, "Whether queries run; 503 if not", others=()),
            Operation(
                post,
                "/sql",
                self.sql,
                "Execute statements, or one SELECT over results",
                body=_STATEMENTS,
                takes_text=True,
            ),
            Operation(
                post,
                "/preview",
                self.preview,
                "Plans and advice of statements",
                body=_PREVIEWED,
                takes_text=True,
            ),
            Operation(get, "/names", self.names, "All declared names, by kind"),
            Operation(get, "/status", self.status, "Counts, backlog and latency so far"),
            Operation(get, "/queries", self.queries, "Queries with their bounds and counts"),
            Operation(get, "/queries/{name}", self.query, "One query", others=(404, 409)),
            Operation(
                get,
                "/queries/{name}/results",
                self.results,
                "Results as a stream",
                (_JSON_LINES, _ARROW),
                results,
                others=(404, 409),
            ),
            Operation(get, "/streams", self.streams, "Streams with their counts"),
            Operation(get, "/operators", self.operators, "The network of operators"),
            Operation(get, "/queues", self.queues, "Tuples and bytes before each operator"),
            Operation(get, "/statistics", self.statistics, "All that the run has measured"),
            Operation(get, "/strategy", self.strategy, "Progress charts, segments and profiles"),
            Operation(get, "/pools", self.pools, "Pools of eddies"),
            Operation(get, "/settings", self.settings, "Strategy, budgets and bounds in force"),
            Operation(
                post,
                "/settings",
                self.change,
                "Change the strategy, the memory budget, the budget of ticks, or latency bounds",
                body=_SETTINGS,
            ),
            Operation(
                get,
                "/history",
                self.history,
                "The latest ten minutes",
                parameters={"until": "of a record"},
                others=(),
            ),
            Operation(
                get,
                "/events",
                self.events,
                "Everything that happens, as server-sent events",
                (_EVENTS,),
                {"after": "the number of the last event seen"},
            ),
            Operation(get, "/metrics", self.metrics, "Metrics for Prometheus", (metrics.KIND,)),
            Operation(post, "/links", self.link, "A new link that opens the dashboard once", others=()),
            Operation(
                post, "/stop", self.stop_server, "End at the next tick boundary", success=202, others=()
            ),
            Operation(get, "/openapi.json", self.openapi, "This document", others=()),
            Operation(
                get,
                "/",
                self.page,
                "The dashboard",
                ("text/html",),
                {"link": "the code of a link, for a cookie"},
                others=(303,),
            ),
            Operation(
                get,
                "/static/{name}",
                self.static,
                "Parts of the dashboard",
                ("text/javascript", "text/css", "image/svg+xml"),
                others=(404,),
            ),
        )

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        state = json.loads(self.hub.state("run")) if self.recorded is None else {"state": "recorded"}
        is_ready = state.get("state") in ("running", "recorded")
        return JSONResponse(state, 200 if is_ready else 503)

    async def sql(self, request: Request) -> Response:
        worker = self.worker
        given = await bodies.object_of(request, _STATEMENTS)
        limit = given.get("limit", 100)
        if not 1 <= limit <= 10_000:
            raise HTTPException(400, f"limit is {limit}; write a whole number from 1 to 10000")
        text, force = bodies.text_of(given), given.get("force", False)
        found = await worker.call(worker.execute, text, force, limit)
        return JSONResponse(finite(found))

    async def preview(self, request: Request) -> Response:
        worker = self.worker
        given = await bodies.object_of(request, _PREVIEWED)
        return JSONResponse(finite(await worker.call(worker.preview, bodies.text_of(given))))

    async def names(self, request: Request) -> Response:
        return JSONResponse(await self.worker.call(self.worker.names))

    async def status(self, request: Request) -> Response:
        run, monitor = self.run(), self.monitor
        status = await asyncio.to_thread(run.status)
        share = monitor.sampling_s / monitor.ticks_s if monitor.ticks_s else None
        sampling = {"seconds": monitor.sampling_s, "share_of_ticks": share, "handover_s": monitor.handover_s}
        state = json.loads(self.hub.state("run"))
        return JSONResponse(finite({**status.to_json(), "run": state, "sampling": sampling}))

    async def _queries(self) -> dict[str, Any]:
        run = self.run()
        status = (await asyncio.to_thread(run.status)).to_json()["queries"]
        bounds = run.settings().latency_s
        assert isinstance(status, dict)
        return {
            own["name"]: {**own, "latency_bound_s": bounds.get(own["name"]), **status.get(own["name"], {})}
            for own in documents.network(run.network)["queries"]
        }

    async def queries(self, request: Request) -> Response:
        return JSONResponse(finite(list((await self._queries()).values())))

    async def query(self, request: Request) -> Response:
        name, found = request.path_params["name"], await self._queries()
        if name not in found:
            raise HTTPException(404, f"there is no query {name[:100]!r}; known: {', '.join(found) or 'none'}")
        return JSONResponse(finite(found[name]))

    async def results(self, request: Request) -> Response:
        run, name = self.run(), request.path_params["name"]
        if name not in run.network.queries:
            known = ", ".join(run.network.queries)
            raise HTTPException(404, f"there is no query {name[:100]!r}; known: {known}")
        format = bodies.word_parameter(request, "format", ("jsonl", "arrow"))
        follow = bodies.word_parameter(request, "follow", ("false", "true")) == "true"
        since = bodies.whole_parameter(request, "since", -1, -1, 10**17)
        # what cannot be read is refused before the answer begins
        await asyncio.to_thread(run.result_ticks, name)
        tables = streams.result_tables(run, name, since, follow, self.hub, self._turns)
        if format == "arrow":
            schema = await asyncio.to_thread(run.result_schema, name)
            return self._paced(request, streams.arrow_stream(tables, schema), _ARROW)
        return self._paced(request, streams.json_lines(tables), _JSON_LINES)

    def _paced(self, request: Request, content: AsyncGenerator[bytes, None], kind: str) -> Response:
        if self._streams >= _MOST_STREAMS:
            raise HTTPException(503, f"{_MOST_STREAMS} streams are open; close one of them")

        async def counted() -> AsyncGenerator[bytes, None]:
            self._streams += 1
            try:
                async with aclosing(content):
                    async for part in content:
                        yield part
            finally:
                self._streams -= 1

        if request.method == "HEAD":
            # nothing would end it: what it gives is never sent
            head = Response(media_type=kind)
            del head.headers["content-length"]
            return head
        return streams.PacedResponse(counted(), kind)

    async def streams(self, request: Request) -> Response:
        status = (await asyncio.to_thread(self.run().status)).to_json()
        return JSONResponse(status["streams"])

    async def operators(self, request: Request) -> Response:
        return JSONResponse(documents.network(self.run().network))

    async def queues(self, request: Request) -> Response:
        run = self.run()
        operators = json.loads(self.hub.last_tick()).get("operators", {})
        found = {name: operators.get(name, [0, 0, 0]) for name in run.network.operators}
        return JSONResponse({n: {"taken": t, "tuples": w, "bytes": b} for n, (t, w, b) in found.items()})

    async def statistics(self, request: Request) -> Response:
        return JSONResponse(finite(await asyncio.to_thread(documents.statistics, self.run())))

    async def strategy(self, request: Request) -> Response:
        return JSONResponse(await asyncio.to_thread(documents.strategy, self.run()))

    async def pools(self, request: Request) -> Response:
        return JSONResponse({name: vars(pool) for name, pool in self.run().pools().items()})

    async def settings(self, request: Request) -> Response:
        return JSONResponse(documents.settings(self.run().settings()))

    async def change(self, request: Request) -> Response:
        run = self.run()
        given = await bodies.object_of(request, _SETTINGS)
        if not given:
            raise HTTPException(400, f"nothing is changed; keys: {', '.join(_SETTINGS)}")
        await self.worker.call(lambda: run.change(**given))
        await asyncio.to_thread(self.monitor.look)
        return JSONResponse(documents.settings(run.settings()))

    async def history(self, request: Request) -> Response:
        if self.recorded is None:
            return await _compressed(request, self.hub.history())
        begin, end = int(self.recorded.begin_s), int(self.recorded.end_s) + 1
        until = bodies.whole_parameter(request, "until", end, 0, 10**11)
        text = await asyncio.to_thread(self.recorded.history, float(until))
        return await _compressed(request, f'{{"recorded":[{begin},{end}],{text[1:]}')

    async def events(self, request: Request) -> Response:
        if self.recorded is not None:
            raise HTTPException(409, "the record of a run has no events to come; see /history")
        after = bodies.whole_parameter(request, "after", 0, 0, 10**17)
        # a browser that connects again sends the address that it began with
        seen = request.headers.get("last-event-id", "")
        if seen.isascii() and seen.isdigit() and len(seen) < 19:
            after = int(seen)
        return self._paced(request, streams.events(self.hub, after), _EVENTS)

    async def metrics(self, request: Request) -> Response:
        run = self.worker.run
        status = None if run is None else await asyncio.to_thread(run.status)
        sample, settings = json.loads(self.hub.last_tick()), json.loads(self.hub.state("settings"))
        is_running, spent_s = run is not None and run.is_running, self.monitor.sampling_s
        text = metrics.metrics(status, sample, settings, is_running, spent_s, self.hub.readers)
        return Response(text, headers={"content-type": metrics.KIND})

    async def link(self, request: Request) -> Response:
        return JSONResponse({"path": f"/?link={self.keys.new_link()}"})

    async def stop_server(self, request: Request) -> Response:
        self.stop()
        return JSONResponse({"status": "ending after the current tick"}, 202)

    async def openapi(self, request: Request) -> Response:
        return JSONResponse(openapi.document(self.operations(), self.version, cookie_name(request.scope)))

    async def page(self, request: Request) -> Response:
        link = request.query_params.get("link")
        if link is None or request.method == "HEAD":
            # programs that show what is behind a link must not use it up
            return _file("index.html")
        cookie = self.keys.cookie_for(link)
        if cookie is None:
            advice = "get another with POST /links, or start the server again"
            raise HTTPException(403, f"this link is wrong, or has been used; {advice}")
        answer = RedirectResponse("/", 303)
        answer.set_cookie(
            cookie_name(request.scope), cookie, _COOKIE_S, path="/", httponly=True, samesite="strict"
        )
        return answer

    async def static(self, request: Request) -> Response:
        return _file(request.path_params["name"])


async def _compressed(request: Request, document: str) -> Response:
    """A JSON document of megabytes; the fastest level makes it about twenty times smaller."""
    body, headers = document.encode(), {"vary": "accept-encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        body = await asyncio.to_thread(gzip.compress, body, 1)
        headers["content-encoding"] = "gzip"
    return Response(body, headers=headers, media_type="application/json")


@cache
def _static_files() -> dict[str, bytes]:
    folder = files("headgate.server").joinpath("static")
    return {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.is_file()}


def _file(name: str) -> Response:
    """A file by its exact name: no path of a request reaches the disk."""
    found = _static_files().get(name)
    if found is None:
        raise HTTPException(404, f"there is no file {name[:100]!r}")
    return Response(found, headers={"content-type": _KINDS.get(name.rpartition(".")[2], "text/plain")})

"""What has happened lately, as messages: kept for ten minutes, and passed on to all who follow."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from headgate.formats.plain_json import json_text

WINDOW_S = 600.0
"""How far back a page sees at once."""
_MOST_TICKS = 3_000
_MOST_NOTES = 500
# of one reader, before it counts as too slow
_MOST_UNREAD = 256

STATES = ("network", "settings", "strategy", "run")
"""Kinds of which the last message holds until the next."""
TICK = "tick"
NOTES = ("decision", "warning", "statement")


@dataclass(frozen=True)
class Message:
    """One thing that has happened; ``text`` is a JSON object in one line."""

    number: int
    kind: str
    at_s: float
    text: str


class Subscription:
    """The messages that one reader has still to read; a reader that is too slow loses it."""

    def __init__(self) -> None:
        self._unread: asyncio.Queue[Message | None] = asyncio.Queue(_MOST_UNREAD)
        self.is_over = False

    def put(self, message: Message | None) -> None:
        if self.is_over:
            return
        if message is None or self._unread.full():
            self.is_over = True
            # the reader goes on with what it has, and finds the end behind it
            if self._unread.full():
                self._unread.get_nowait()
            message = None
        self._unread.put_nowait(message)

    async def next(self, timeout_s: float) -> Message | None:
        """The next message; None at the end. Raises ``TimeoutError``."""
        return await asyncio.wait_for(self._unread.get(), timeout_s)


class Hub:
    """Any thread may publish; subscriptions belong to the event loop."""

    def __init__(
        self, keep: Callable[[Message], None] = lambda message: None, clock_s: Callable[[], float] = time.time
    ) -> None:
        self._keep = keep
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._number = 0
        self._states: dict[str, Message] = {}
        self._ticks: deque[Message] = deque(maxlen=_MOST_TICKS)
        self._notes: deque[Message] = deque(maxlen=_MOST_NOTES)
        self._subscriptions: list[Subscription] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def close(self) -> None:
        """End all subscriptions; on the event loop."""
        for subscription in self._subscriptions:
            subscription.put(None)
        self._loop = None

    def publish(self, kind: str, document: dict[str, Any], at_s: float | None = None) -> None:
        self.publish_text(kind, json_text(document, indent=None), self._clock_s() if at_s is None else at_s)

    def publish_text(self, kind: str, text: str, at_s: float) -> None:
        with self._lock:
            self._number += 1
            message = Message(self._number, kind, at_s, text)
            if kind in STATES:
                self._states[kind] = message
            else:
                (self._ticks if kind == TICK else self._notes).append(message)
            while self._ticks and self._ticks[0].at_s < self._ticks[-1].at_s - WINDOW_S:
                self._ticks.popleft()
            self._keep(message)
            loop = self._loop
        if loop is not None:
            try:
                loop.call_soon_threadsafe(self._deliver, message)
            except RuntimeError:
                # the server is ending
                return

    def _deliver(self, message: Message) -> None:
        for subscription in self._subscriptions:
            subscription.put(message)

    def subscribe(self) -> Subscription:
        subscription = Subscription()
        self._subscriptions.append(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)

    @property
    def last(self) -> int:
        """The number of the last message."""
        with self._lock:
            return self._number

    @property
    def readers(self) -> int:
        return len(self._subscriptions)

    def since(self, number: int) -> list[Message]:
        """Messages after a number that are still kept, in order."""
        with self._lock:
            kept = [*self._states.values(), *self._ticks, *self._notes]
        return sorted((m for m in kept if m.number > number), key=lambda m: m.number)

    def state(self, kind: str) -> str:
        """The text of the last message of a kind; an empty object if there is none."""
        with self._lock:
            found = self._states.get(kind)
        return "{}" if found is None else found.text

    def last_tick(self) -> str:
        with self._lock:
            return self._ticks[-1].text if self._ticks else "{}"

    def history(self) -> str:
        """One document of all that is kept."""
        with self._lock:
            states, number = dict(self._states), self._number
            ticks, notes = list(self._ticks), list(self._notes)
        return history_text(states.values(), ticks, notes, number)


def history_text(
    states: Iterable[Message], ticks: Iterable[Message], notes: Iterable[Message], number: int
) -> str:
    """The document from texts as they are: encoding ten minutes anew for every page would take longer."""
    parts = [f'"last":{number}']
    parts += (f'"{message.kind}":{message.text}' for message in states)
    parts.append(f'"ticks":[{",".join(message.text for message in ticks)}]')
    kinds: dict[str, list[str]] = {kind: [] for kind in NOTES}
    for message in notes:
        kinds[message.kind].append(message.text)
    parts += (f'"{kind}s":[{",".join(texts)}]' for kind, texts in kinds.items())
    return "{" + ",".join(parts) + "}"

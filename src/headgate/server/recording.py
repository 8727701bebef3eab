"""Records of runs: messages in files below the checkpoint, the oldest of which go when there are too many."""

from __future__ import annotations

import json
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from headgate.errors import SetupError
from headgate.formats.plain_json import json_text
from headgate.server.hub import NOTES, STATES, TICK, WINDOW_S, Message, history_text

FOLDER = "headgate.record"
"""Of a checkpoint; the engine leaves names that begin like this alone."""
_MOST_FILES = 16
_FILE_BYTES = 4 * 2**20


class Recording:
    """Writes messages to numbered files; each begins with the states that hold at its beginning."""

    def __init__(self, folder: Path, file_bytes: int = _FILE_BYTES, most_files: int = _MOST_FILES) -> None:
        self._folder = folder
        self._file_bytes, self._most_files = file_bytes, most_files
        self._file: TextIO | None = None
        self._written = 0
        self._states: dict[str, Message] = {}
        self.failure = ""
        """Why nothing is recorded any more; a full disk must not end a run."""
        folder.mkdir(parents=True, exist_ok=True)
        self._number = max((int(path.stem) for path in _files(folder)), default=-1)

    def __call__(self, message: Message) -> None:
        if self.failure:
            return
        try:
            if self._file is None or self._written > self._file_bytes:
                self._next_file()
            self._write(message)
        except OSError as error:
            self.failure = f"nothing is recorded any more: {error}"
            with suppress(OSError):
                self.close()
        if message.kind in STATES:
            self._states[message.kind] = message

    def _next_file(self) -> None:
        self.close()
        self._number += 1
        self._file = (self._folder / f"{self._number:06d}.jsonl").open("w", encoding="utf-8")
        self._written = 0
        for state in self._states.values():
            self._write(state)
        for path in _files(self._folder)[: -self._most_files]:
            path.unlink(missing_ok=True)

    def _write(self, message: Message) -> None:
        assert self._file is not None
        line = f'{{"kind":"{message.kind}","at_s":{message.at_s:.6f},"message":{message.text}}}\n'
        self._file.write(line)
        # whoever replays a run that was killed sees all but its last moment
        self._file.flush()
        self._written += len(line)

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.jsonl") if path.stem.isdigit())


class Recorded:
    """A recorded run: the ten minutes before any of its instants."""

    def __init__(self, folder: Path) -> None:
        below = folder / FOLDER
        found = below if below.is_dir() else folder
        files = _files(found)
        if not files:
            raise SetupError(f"{folder} has no record; pass the folder of headgate serve --checkpoint")
        self._messages = [message for path in files for message in _read(path)]
        ticks = [message.at_s for message in self._messages if message.kind == TICK]
        if not ticks:
            raise SetupError(f"the record in {found} has no tick; let headgate serve run for longer")
        self.begin_s, self.end_s = ticks[0], ticks[-1]

    def history(self, until_s: float | None = None) -> str:
        """One document of the window before an instant, or before the end."""
        end_s = self.end_s if until_s is None else until_s
        states: dict[str, Message] = {}
        ticks: deque[Message] = deque()
        notes: deque[Message] = deque(maxlen=500)
        for message in self._messages:
            if message.kind in STATES:
                # what was published before the first tick is known at any time
                if message.at_s <= end_s or message.kind not in states:
                    states[message.kind] = message
            elif message.at_s <= end_s:
                (ticks if message.kind == TICK else notes).append(message)
                while ticks and ticks[0].at_s < ticks[-1].at_s - WINDOW_S:
                    ticks.popleft()
        return history_text(states.values(), ticks, notes, len(self._messages))


def _read(path: Path) -> list[Message]:
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines()):
        try:
            document = json.loads(line)
            kind, at_s, body = str(document["kind"]), float(document["at_s"]), document["message"]
        except (ValueError, TypeError, KeyError):
            # the last line of a server that was killed
            continue
        if kind in (*STATES, TICK, *NOTES) and isinstance(body, dict):
            found.append(Message(number, kind, at_s, json_text(body, indent=None)))
    return found

"""NEXMark events as folders of Parquet files, one per table, and the side input.

All tables are divided at the same events: file n of each covers the same stretch of event time. Files appear
whole, by a rename, and their modification times are a second apart in the order of event time: streams over
folders read files by them.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq

from headgate.errors import SetupError
from headgate.workload.nexmark import EVENT_TABLES, EVENTS_PER_ROUND, EventSequence, side_input

SIDE_INPUT = "side_input"
# some 60 MB at a time; also a row group of the files
_EVENTS_AT_ONCE = 250_000


@dataclass(frozen=True)
class WrittenTable:
    """A folder of files: what is in it."""

    rows: int
    files: int
    bytes: int


@dataclass(frozen=True)
class DataSet:
    """The first events of a sequence, in up to ``files`` files per table; a file has 50 events or more."""

    folder: Path
    sequence: EventSequence
    events: int
    files: int

    def check(self) -> None:
        """Raise if the folder is in use, or the events cannot be."""
        self.sequence.length_us(self.events)
        if not self.folder.exists():
            return
        try:
            present = next(self.folder.iterdir(), None)
        except OSError as error:
            raise SetupError(f"{self.folder}: {error.strerror}; pass an empty or new folder") from error
        if present is not None:
            problem = f"{self.folder} has other content, such as {present.name}"
            raise SetupError(f"{problem}; pass an empty or new folder")

    def write(self, progress: Callable[[int], None] = lambda events: None) -> dict[str, WrittenTable]:
        """Write all tables; ``progress`` is called with the events written so far.

        If writing fails, the folder is left as it was.
        """
        self.check()
        cuts = self._cuts()
        # no file is from the future
        first_s = int(time.time()) - len(cuts)
        with self._clearing_up():
            for name in (*EVENT_TABLES, SIDE_INPUT):
                (self.folder / name).mkdir(parents=True)
            for number, (begin, end) in enumerate(pairwise(cuts)):
                self._write_stretch(begin, end, number, first_s + number, progress)
            with _appearing(self.folder / SIDE_INPUT / _file_name(0), first_s) as path:
                pq.write_table(side_input(), path)
            return {name: _written(self.folder / name) for name in (*EVENT_TABLES, SIDE_INPUT)}

    def _cuts(self) -> list[int]:
        """Boundaries between whole rounds, so that every file has rows of every table."""
        rounds = max(1, self.events // EVENTS_PER_ROUND)
        files = min(self.files, rounds)
        return [*(rounds * part // files * EVENTS_PER_ROUND for part in range(files)), self.events]

    def _write_stretch(
        self, first: int, last: int, number: int, modified_s: int, progress: Callable[[int], None]
    ) -> None:
        """Write one file of each table, side by side."""
        with ExitStack() as open_files:
            writers = {}
            for name, kind in EVENT_TABLES.items():
                target = self.folder / name / _file_name(number)
                path = open_files.enter_context(_appearing(target, modified_s))
                writers[name] = open_files.enter_context(pq.ParquetWriter(path, kind.schema))
            for begin in range(first, last, _EVENTS_AT_ONCE):
                end = min(begin + _EVENTS_AT_ONCE, last)
                for name, writer in writers.items():
                    writer.write_table(self.sequence.table(name, begin, end))
                progress(end)

    @contextmanager
    def _clearing_up(self) -> Iterator[None]:
        is_new = not self.folder.exists()
        try:
            yield
        except BaseException as error:
            for name in (*EVENT_TABLES, SIDE_INPUT):
                shutil.rmtree(self.folder / name, ignore_errors=True)
            if is_new:
                with suppress(OSError):
                    self.folder.rmdir()
            if isinstance(error, OSError):
                reason = error.strerror or str(error)
                raise SetupError(f"{self.folder} cannot be written: {reason}") from error
            raise


def _file_name(number: int) -> str:
    return f"part-{number:05}.parquet"


@contextmanager
def _appearing(path: Path, modified_s: int) -> Iterator[Path]:
    """A hidden path to write to, which gets its name and modification time at the end."""
    hidden = path.with_name(f".{path.name}")
    yield hidden
    os.utime(hidden, (modified_s, modified_s))
    hidden.replace(path)


def _written(folder: Path) -> WrittenTable:
    paths = list(folder.iterdir())
    rows = sum(pq.read_metadata(path).num_rows for path in paths)
    return WrittenTable(rows, len(paths), sum(path.stat().st_size for path in paths))

"""The work of ``nexmark``: a data set of the benchmark as Parquet files."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path

from headgate.cli.progress import Progress
from headgate.errors import SetupError
from headgate.formats.plain_json import json_text
from headgate.report.screen import screen, table_of
from headgate.workload.generated_stream import EPOCH, iso_time_us
from headgate.workload.nexmark import DEFAULT_RATE, DEFAULT_START_US, EventSequence, parse_rate
from headgate.workload.nexmark_files import DataSet, WrittenTable


def write_data_set(
    folder: Path, events: int, seed: int, rate: str | None, start: str | None, files: int, as_json: bool
) -> None:
    """Write the files, and print what they hold."""
    sequence = EventSequence(seed, _rate(rate), _start_us(start))
    data_set = DataSet(folder, sequence, events, files)
    data_set.check()
    began_s = time.monotonic()
    with Progress(f"writing {events:,} events") as progress:

        def show(written: int) -> None:
            progress.stage = f"{written:,} of {events:,} events"

        tables = data_set.write(show)
    seconds = time.monotonic() - began_s
    first, last = (EPOCH + timedelta(microseconds=_time_us(sequence, n)) for n in (0, events - 1))
    if as_json:
        settings = {"folder": str(folder), "events": events, "seed": seed, "rate": float(sequence.rate)}
        times = {"first_event": first.isoformat(), "last_event": last.isoformat()}
        counts = {name: vars(table) for name, table in tables.items()}
        document = {**settings, **times, "tables": counts, "seconds": round(seconds, 3)}
        print(json_text(document))
    else:
        _print(folder, events, tables, (first, last), seconds)


def _rate(text: str | None) -> Fraction:
    try:
        return DEFAULT_RATE if text is None else parse_rate(text)
    except SetupError as error:
        raise SetupError(f"--rate: {error}") from None


def _start_us(text: str | None) -> int:
    try:
        return DEFAULT_START_US if text is None else iso_time_us(text)
    except SetupError as error:
        raise SetupError(f"--start: {error}") from None


def _time_us(sequence: EventSequence, number: int) -> int:
    return sequence.start_us + sequence.offset_us(number)


def _print(
    folder: Path,
    events: int,
    tables: Mapping[str, WrittenTable],
    times: tuple[datetime, datetime],
    seconds: float,
) -> None:
    found = table_of("folder", "rows", "files", "MB")
    for name, table in tables.items():
        found.add_row(str(folder / name), f"{table.rows:,}", f"{table.files:,}", f"{table.bytes / 1e6:,.1f}")
    console = screen()
    console.print(found)
    begin, end = (time.strftime("%Y-%m-%d %H:%M:%S") for time in times)
    console.print(f"{events:,} events from {begin} to {end} UTC, in {seconds:,.1f} s", soft_wrap=True)

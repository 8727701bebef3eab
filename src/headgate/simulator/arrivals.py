"""Arrival times of a stream in a workload file: a list, or a process with its settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from headgate.errors import SetupError, known_names
from headgate.simulator.fate import key_of
from headgate.simulator.table import Table, is_number, shown
from headgate.workload.registry import process_named, process_names
from headgate.workload.times import Times, check_sorted

_EXAMPLE = 'a list of times, or { process = "poisson", rate = 10, until = 100 }'


def arrival_times(table: Table, stream: str, folder: Path, seed: int) -> Times:
    """When the stream's tuples arrive, in seconds."""
    value = table.raw("arrivals", _EXAMPLE)
    if isinstance(value, list):
        return _listed(table, value)
    if isinstance(value, dict):
        return _drawn(table, value, stream, folder, seed)
    raise table.error("arrivals", f"= {shown(value)} is wrong; write {_EXAMPLE}")


def _listed(table: Table, value: list[Any]) -> Times:
    for number, time in enumerate(value):
        if not is_number(time):
            raise table.error(f"arrivals[{number}]", f"= {shown(time)} is no number; write a time in seconds")
    try:
        return check_sorted(np.array(value, np.float64), "the times")
    except SetupError as error:
        raise table.error("arrivals:", str(error)) from None


def _drawn(table: Table, value: Mapping[str, Any], stream: str, folder: Path, seed: int) -> Times:
    settings = dict(value)
    name = settings.pop("process", None)
    if not isinstance(name, str):
        raise table.error("arrivals", f"name no process; known: {known_names(process_names())}")
    if isinstance(file := settings.get("file"), str):
        # as in the file's own folder: a workload can be run from anywhere
        settings["file"] = str(folder / file)
    try:
        # streams of one process differ: each has a seed of its own
        return process_named(name, settings).times_s(key_of(seed, "arrivals", stream) >> 1)
    except SetupError as error:
        raise table.error("arrivals:", str(error)) from None

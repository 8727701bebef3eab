"""Streams and relations as the files that a run reads."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.oracle.brute_force import Relation, Stream

COLUMNS = ("ts", "k", "v", "s")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def write_stream(
    folder: Path, stream: Stream, cuts: Sequence[int], file_format: str, timestamp_type: str
) -> None:
    """All arrivals, in files that end at the given places; names and times of change are in order."""
    folder.mkdir(parents=True)
    parts = [0, *cuts, len(stream.arrivals)]
    for number, (begin, end) in enumerate(pairwise(parts)):
        rows = [dict(t.row) for t in stream.arrivals[begin:end]]
        write_rows(folder / f"{number:03d}.{file_format}", rows, file_format, timestamp_type)


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]], file_format: str, timestamp_type: str) -> None:
    """One file of a stream; it seems changed later than all files of a lower name."""
    if file_format == "parquet":
        _write_parquet(path, rows, timestamp_type)
    elif file_format == "json":
        lines = (json.dumps(_printable(row, timestamp_type)) for row in rows)
        path.write_text("".join(f"{line}\n" for line in lines))
    else:
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([_printable(row, timestamp_type)[c] for c in COLUMNS] for row in rows)
    stamp(path)


def stamp(path: Path) -> None:
    """Spark takes files in the order of their times of change."""
    changed = 1_600_000_000 + int(path.stem)
    os.utime(path, (changed, changed))


def write_relation(path: Path, relation: Relation) -> None:
    """A small parquet file."""
    schema = pa.schema([("k", pa.int32()), ("label", pa.string())])
    pq.write_table(pa.Table.from_pylist([dict(row) for row in relation.rows], schema), path)


def _write_parquet(path: Path, rows: Sequence[Mapping[str, Any]], timestamp_type: str) -> None:
    ts = pa.int64() if timestamp_type == "BIGINT" else pa.timestamp("us", tz="UTC")
    schema = pa.schema([("ts", ts), ("k", pa.int32()), ("v", pa.int32()), ("s", pa.string())])
    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows], schema), path)


def _printable(row: Mapping[str, Any], timestamp_type: str) -> dict[str, Any]:
    if timestamp_type == "BIGINT" or row["ts"] is None:
        return dict(row)
    return {**row, "ts": (_EPOCH + timedelta(microseconds=row["ts"])).isoformat()}


def stream_sql(stream: Stream, folder: Path, file_format: str, timestamp_type: str, **options: object) -> str:
    """CREATE STREAM for a folder."""
    settings = {"path": folder, "timestamp": "ts", "watermark": f"{stream.watermark // 1000} ms", **options}
    listed = ", ".join(f"{key} '{value}'" for key, value in settings.items())
    columns = f"ts {timestamp_type}, k INT, v INT, s STRING"
    return f"CREATE STREAM {stream.name} ({columns}) FROM {file_format} OPTIONS ({listed});"

"""Recorded arrivals: a column of times in a Parquet or CSV file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from headgate.errors import SetupError, known_names
from headgate.workload.times import Times, check_positive, check_sorted

_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


@dataclass(frozen=True)
class Trace:
    """Times of a column; the first one if none is named.

    ``unit`` is us, ms or s; by default what the column's name ends in (``_us``, ``_ms``, ``_s``), else s.
    Only times in ``[begin, until)`` count, from ``begin`` on; with ``speed`` 2 the gaps are half as long.
    """

    file: str
    column: str = ""
    unit: str = ""
    begin: float = 0.0
    until: float = float("inf")
    speed: float = 1.0

    def __post_init__(self) -> None:
        check_positive(speed=self.speed)
        if self.unit and self.unit not in _SECONDS:
            raise SetupError(f"unit = '{self.unit}' is unknown; write {', '.join(_SECONDS)}")

    def times_s(self, seed: int) -> Times:
        """The recorded times in seconds; the seed changes nothing."""
        del seed
        name, column = self._read()
        ending = name.rpartition("_")[2]
        seconds = _SECONDS[self.unit or (ending if ending in _SECONDS else "s")]
        times = check_sorted(_numbers(column, name, self.file) * seconds, f"the times of {self.file}")
        first, last = np.searchsorted(times, [self.begin, self.until])
        return np.asarray((times[first:last] - self.begin) / self.speed)

    def _read(self) -> tuple[str, pa.ChunkedArray]:
        if not Path(self.file).is_file():
            raise SetupError(f"there is no file {self.file}")
        try:
            table = csv.read_csv(self.file) if self.file.endswith(".csv") else parquet.read_table(self.file)
        except (pa.ArrowException, OSError) as error:
            reason = " ".join(str(error).split())
            raise SetupError(f"{self.file} is neither Parquet nor .csv with a header: {reason}") from None
        if not table.column_names:
            raise SetupError(f"{self.file} has no columns; one with times is needed")
        name = self.column or table.column_names[0]
        if name not in table.column_names:
            known = known_names(table.column_names)
            raise SetupError(f"{self.file} has no column {name}; it has {known}")
        return name, table.column(name)


def _numbers(column: pa.ChunkedArray, name: str, file: str) -> Times:
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)) or column.null_count:
        raise SetupError(f"column {name} of {file} is not all numbers; times must be")
    return np.asarray(column.to_numpy(), np.float64)

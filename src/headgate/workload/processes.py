"""Arrival processes by name: settings that give arrival times, the same ones for a seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, Protocol, get_type_hints

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv, parquet

from headgate.errors import SetupError, known_names
from headgate.workload.onoff import OnOff, ramps
from headgate.workload.traffic import RatePhases, TruncatedPareto

Times = NDArray[np.float64]

# 8 bytes each: more would fill the memory, and no simulation of them would end
MOST_TUPLES = 50_000_000
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


class TimesProcess(Protocol):
    """An arrival process with all of its settings."""

    def times_s(self, seed: int) -> Times:
        """Arrival times in seconds, in order."""


def check_positive(**settings: float | tuple[float, ...]) -> None:
    for name, setting in settings.items():
        for value in setting if isinstance(setting, tuple) else (setting,):
            if not 0 < value < float("inf"):
                raise SetupError(f"{name} = {value:g} is out of range; write a number above 0")


def check_expected(tuples: float) -> None:
    if tuples > MOST_TUPLES:
        raise SetupError(f"about {tuples:,.0f} arrivals are too many; keep below {MOST_TUPLES:,}")


def check_sorted(times_s: Times, what: str) -> Times:
    """The times, unless one is negative, infinite or before its predecessor."""
    if not np.all(np.isfinite(times_s)):
        raise SetupError(f"{what} contain a value that is not a finite number")
    if len(times_s) and times_s[0] < 0:
        raise SetupError(f"{what} begin at {times_s[0]:g}; write times of 0 or more")
    falls = np.flatnonzero(np.diff(times_s) < 0)
    if len(falls):
        at = int(falls[0])
        raise SetupError(f"{what} are not sorted: {times_s[at + 1]:g} comes after {times_s[at]:g}; sort them")
    return times_s


@dataclass(frozen=True)
class Listed:
    """Arrivals at these ``times``, in seconds; the seed has no effect."""

    times: tuple[float, ...]

    def __post_init__(self) -> None:
        self.times_s(seed=0)

    def times_s(self, seed: int) -> Times:
        return check_sorted(np.asarray(self.times, np.float64), "times")


@dataclass(frozen=True)
class Phases:
    """Poisson arrivals at one rate after the other, each for its ``seconds``; one number holds for all."""

    rates: tuple[float, ...]
    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.rates:
            raise SetupError("rates = [] has no phase; write one rate or more, as in [10, 20, 40]")
        if len(self.seconds) not in (1, len(self.rates)):
            raise SetupError(f"{len(self.seconds)} seconds for {len(self.rates)} rates; write one for each")
        check_positive(rates=self.rates, seconds=self.seconds)
        check_expected(max(self.rates) * sum(self.seconds))

    def times_s(self, seed: int) -> Times:
        ends = np.cumsum(self.seconds * (len(self.rates) if len(self.seconds) == 1 else 1))
        times, begin = [], 0.0
        for number, (rate, end) in enumerate(zip(self.rates, ends, strict=True)):
            generator = np.random.default_rng([seed, number])
            # given their number, the arrivals of a Poisson process lie uniformly
            count = generator.poisson(rate * (end - begin))
            times.append(np.sort(generator.uniform(begin, end, count)))
            begin = end
        return np.concatenate(times)


@dataclass(frozen=True)
class Poisson:
    """``rate`` tuples per second on average, with exponential gaps, until ``until`` seconds."""

    rate: float
    until: float

    def __post_init__(self) -> None:
        check_positive(rate=self.rate, until=self.until)
        check_expected(self.rate * self.until)

    def times_s(self, seed: int) -> Times:
        return Phases((self.rate,), (self.until,)).times_s(seed)


@dataclass(frozen=True)
class ParetoFlows:
    """Flows begin every ``gap`` seconds on average; each emits ``rate`` tuples per second for a Pareto time.

    Times last from ``shortest`` to ``longest`` seconds. ``rate`` is that of one flow while it emits.
    """

    until: float
    rate: float = 1.0
    gap: float = 1.0
    shape: float = 1.5
    shortest: float = 1.0
    longest: float = 1000.0

    def __post_init__(self) -> None:
        check_positive(until=self.until, rate=self.rate, gap=self.gap)
        check_expected(self.until / self.gap * self.durations.mean * self.rate)

    @property
    def durations(self) -> TruncatedPareto:
        """How long flows emit, in seconds."""
        return TruncatedPareto(self.shape, self.shortest, self.longest)

    def times_s(self, seed: int) -> Times:
        generator = np.random.default_rng(seed)
        starts = generator.uniform(0, self.until, generator.poisson(self.until / self.gap))
        durations = self.durations.at(generator.random(len(starts)))
        counts = np.ceil(durations * self.rate).astype(np.int64)
        emitted = np.repeat(starts, counts) + ramps(counts) / self.rate
        return np.sort(emitted[emitted < self.until])


@dataclass(frozen=True)
class OnOffTimes:
    """The sum of ``flows`` on/off flows (see ``OnOff``): ``rate`` tuples per second, until ``until``.

    Several rates hold for equal parts of that time. Periods last from ``shortest`` to ``longest`` seconds.
    """

    rate: tuple[float, ...]
    until: float
    flows: int = 64
    on_shape: float = 1.4
    off_shape: float = 1.2
    shortest: float = 0.05
    longest: float = 100.0

    def __post_init__(self) -> None:
        check_positive(until=self.until)
        check_expected(max(self.rate, default=0.0) * self.until)
        # the traffic checks the rest
        self._traffic(seed=0)

    def _traffic(self, seed: int) -> OnOff:
        starts = tuple(round(i * self.until / len(self.rate) * 1e6) for i in range(len(self.rate)))
        return OnOff(
            seed=seed,
            rate=RatePhases(starts, self.rate),
            flows=self.flows,
            on_shape=self.on_shape,
            off_shape=self.off_shape,
            shortest_us=round(self.shortest * 1e6),
            longest_us=round(self.longest * 1e6),
        )

    def times_s(self, seed: int) -> Times:
        return np.asarray(self._traffic(seed).arrivals(0, round(self.until * 1e6)).time_us / 1e6)


@dataclass(frozen=True)
class Trace:
    """Recorded times: a column of a Parquet or CSV file, the first one if none is named.

    ``unit`` is us, ms or s; by default the ending of the column's name (``_us``, ``_ms``, ``_s``), else s.
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
        """The recorded times in seconds; the seed has no effect."""
        name, column = self._read()
        if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)) or column.null_count:
            raise SetupError(f"column {name} of {self.file} is not all numbers; times must be")
        ending = name.rpartition("_")[2]
        unit_s = _SECONDS[self.unit or (ending if ending in _SECONDS else "s")]
        times = check_sorted(np.asarray(column.to_numpy(), np.float64) * unit_s, f"the times of {self.file}")
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
            raise SetupError(f"{self.file} has no column {name}; it has {known_names(table.column_names)}")
        return name, table.column(name)


_PROCESSES: dict[str, type[Any]] = {
    "list": Listed,
    "poisson": Poisson,
    "phases": Phases,
    "pareto-flows": ParetoFlows,
    "on-off": OnOffTimes,
    "trace": Trace,
}


def process_names() -> tuple[str, ...]:
    return tuple(_PROCESSES)


def process_named(name: str, settings: Mapping[str, object]) -> TimesProcess:
    """The process of that name; raises on a missing, unknown or impossible setting."""
    if name not in _PROCESSES:
        raise SetupError(f"unknown process {name}; known: {known_names(process_names())}")
    chosen = _PROCESSES[name]
    known = {field.name: field for field in fields(chosen)}
    for setting in settings:
        if setting not in known:
            raise SetupError(f"process {name} has no setting {setting}; it has {known_names(list(known))}")
    for field in known.values():
        if field.default is MISSING and field.name not in settings:
            raise SetupError(f"process {name} needs {field.name}; it has {known_names(list(known))}")
    types = get_type_hints(chosen)
    checked = {key: _checked(f"process {name}: {key}", value, types[key]) for key, value in settings.items()}
    try:
        process: TimesProcess = chosen(**checked)
    except SetupError as error:
        raise SetupError(f"process {name}: {error}") from None
    return process


def _checked(what: str, value: object, wanted: object) -> object:
    if wanted in (str, int) and type(value) is wanted:
        return value
    if wanted is float and _is_number(value):
        return float(value)  # type: ignore[arg-type]
    if wanted == tuple[float, ...]:
        values = value if isinstance(value, (list, tuple)) else [value]
        if all(map(_is_number, values)):
            return tuple(map(float, values))
    names: dict[object, str] = {str: "a text", int: "a whole number", float: "a number"}
    raise SetupError(f"{what} = {value!r} is not valid; write {names.get(wanted, 'a list of numbers')}")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)

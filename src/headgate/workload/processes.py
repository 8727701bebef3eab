"""Arrival processes by name: settings that give arrival times, the same ones for a seed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv, parquet
from pydantic import BeforeValidator, FailFast, Field, GetCoreSchemaHandler, model_validator
from pydantic_core import core_schema

from headgate.errors import SetupError, known_names, nearest
from headgate.formats.document import REQUIRED, Right, Section, check_table, checked, problem, shown
from headgate.formats.quantity import FLOWS, RATE, SHAPE, TIME, Quantity
from headgate.workload.onoff import OnOff, ramps
from headgate.workload.traffic import RatePhases, TruncatedPareto

Times = NDArray[np.float64]

# 8 bytes each: more would fill the memory, and no simulation of them would end
MOST_TUPLES = 30_000_000
_MOST_CSV_BYTES = 1_000_000_000
_MOST_PHASES = 1000
_MOST_CELLS = 100_000
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
# seconds since 1970 are times as well
_MOMENT = Quantity("seconds", 0, 1e10)
_SPEED = Quantity("", 1e-6, 1e6)
_EXAMPLE = 'a list of times, or { process = "poisson", rate = 10, until = 100 }'


def _several(given: Any) -> Any:
    return tuple(given) if isinstance(given, (list, tuple)) else (given,)


_SOME, _ALSO = Field(min_length=1, max_length=_MOST_PHASES), f"or a list of up to {_MOST_PHASES:,}"
_Rates = Annotated[
    tuple[Annotated[float, RATE], ...], _SOME, BeforeValidator(_several), Right(f"{RATE}, {_ALSO}")
]
_Spans = Annotated[
    tuple[Annotated[float, TIME], ...], _SOME, BeforeValidator(_several), Right(f"{TIME}, {_ALSO}")
]
_Moments = Annotated[tuple[Annotated[float, _MOMENT], ...], FailFast(), BeforeValidator(_several)]


class Process(Section):
    """An arrival process with all of its settings."""

    example: ClassVar[str] = _EXAMPLE
    process: str = ""
    """Its name, as documents write it."""

    @property
    def expected(self) -> float:
        """How many tuples arrive, on average."""
        raise NotImplementedError

    def times_s(self, seed: int) -> Times:
        """Arrival times in seconds, in order."""
        raise NotImplementedError

    @model_validator(mode="after")
    def _check_expected(self) -> Process:
        try:
            expected = self.expected
        except SetupError as error:
            raise problem(f": {error}") from None
        if expected > MOST_TUPLES:
            raise problem(f": about {expected:.3g} tuples are too many; {MOST_TUPLES:,} can be")
        return self


class Listed(Process):
    """Arrivals at these ``times``, in seconds; the seed has no effect."""

    times: _Moments = REQUIRED

    @property
    def expected(self) -> float:
        _check_sorted(np.asarray(self.times, np.float64), "the times")
        return len(self.times)

    def times_s(self, seed: int) -> Times:
        return np.asarray(self.times, np.float64)


class Phases(Process):
    """Poisson arrivals at one rate after the other, each for its ``seconds``; one number holds for all."""

    rates: _Rates = REQUIRED
    seconds: _Spans = REQUIRED

    @property
    def expected(self) -> float:
        if len(self.seconds) not in (1, len(self.rates)):
            raise SetupError(f"{len(self.seconds)} seconds for {len(self.rates)} rates; write one for each")
        return float(np.sum(np.multiply(self.rates, self.seconds)))

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


class Poisson(Process):
    """``rate`` tuples per second on average, with exponential gaps, until ``until`` seconds."""

    rate: Annotated[float, RATE] = REQUIRED
    until: Annotated[float, TIME] = REQUIRED

    @property
    def expected(self) -> float:
        return self.rate * self.until

    def times_s(self, seed: int) -> Times:
        return Phases(rates=(self.rate,), seconds=(self.until,)).times_s(seed)


class ParetoFlows(Process):
    """Flows begin every ``gap`` seconds on average; each emits ``rate`` tuples per second for a Pareto time.

    Times last from ``shortest`` to ``longest`` seconds. ``rate`` is that of one flow while it emits.
    """

    until: Annotated[float, TIME] = REQUIRED
    rate: Annotated[float, RATE] = 1.0
    gap: Annotated[float, TIME] = 1.0
    shape: Annotated[float, SHAPE] = 1.5
    shortest: Annotated[float, TIME] = 1.0
    longest: Annotated[float, TIME] = 1000.0

    @property
    def expected(self) -> float:
        # a flow has one tuple at least
        return self.until / self.gap * max(1.0, min(self.durations.mean, self.until) * self.rate)

    @property
    def durations(self) -> TruncatedPareto:
        """How long flows emit, in seconds."""
        return TruncatedPareto(self.shape, self.shortest, self.longest)

    def times_s(self, seed: int) -> Times:
        generator = np.random.default_rng(seed)
        starts = generator.uniform(0, self.until, generator.poisson(self.until / self.gap))
        durations = np.minimum(self.durations.at(generator.random(len(starts))), self.until - starts)
        counts = np.ceil(durations * self.rate).astype(np.int64)
        emitted = np.repeat(starts, counts) + ramps(counts) / self.rate
        return np.sort(emitted[emitted < self.until])


class OnOffTimes(Process):
    """The sum of ``flows`` on/off flows (see ``OnOff``): ``rate`` tuples per second, until ``until``.

    Several rates hold for equal parts of that time. Periods last from ``shortest`` to ``longest`` seconds.
    """

    rate: _Rates = REQUIRED
    until: Annotated[float, TIME] = REQUIRED
    flows: Annotated[int, FLOWS] = 64
    on_shape: Annotated[float, SHAPE] = 1.4
    off_shape: Annotated[float, SHAPE] = 1.2
    shortest: Annotated[float, TIME] = 0.05
    longest: Annotated[float, TIME] = 100.0

    @property
    def expected(self) -> float:
        cell_s = self._traffic(seed=0).cell_us / 1e6
        if self.until > _MOST_CELLS * cell_s:
            too_long = f"{self.until:g} seconds are too long at this rate"
            raise SetupError(f"{too_long}; write {_MOST_CELLS * cell_s:g} at most")
        return float(np.mean(self.rate)) * self.until

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


class Trace(Process):
    """Recorded times: a column of a Parquet or CSV file, the first one if none is named.

    ``unit`` is us, ms or s; by default the ending of the column's name (``_us``, ``_ms``, ``_s``), else s.
    Only times in ``[begin, until)`` count, from ``begin`` on; with ``speed`` 2 the gaps are half as long.
    """

    file: str = REQUIRED
    column: str = ""
    unit: Literal["", "us", "ms", "s"] = ""
    begin: Annotated[float, _MOMENT] = 0.0
    until: Annotated[float, _MOMENT] | None = None
    speed: Annotated[float, _SPEED] = 1.0

    @property
    def expected(self) -> float:
        """Known once the file is read, which may have no more rows than there may be tuples."""
        return 0.0

    def beside(self, folder: Path) -> Trace:
        """The same, with its file relative to a folder."""
        return self.model_copy(update={"file": str(folder / self.file)})

    def times_s(self, seed: int) -> Times:
        """The recorded times in seconds; the seed has no effect."""
        name, column = self._read()
        if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)) or column.null_count:
            raise SetupError(f"column {name} of {self.file} is not all numbers; times must be")
        ending = name.rpartition("_")[2]
        unit_s = _SECONDS[self.unit or (ending if ending in _SECONDS else "s")]
        times = _check_sorted(np.asarray(column.to_numpy(), np.float64) * unit_s, f"the times of {self.file}")
        last = len(times) if self.until is None else np.searchsorted(times, self.until)
        return np.asarray((times[np.searchsorted(times, self.begin) : last] - self.begin) / self.speed)

    def _read(self) -> tuple[str, pa.ChunkedArray]:
        path = Path(self.file)
        # a name may be too long to be looked for
        if not os.path.isfile(path):
            raise SetupError(f"there is no file {self.file}")
        is_csv = self.file.endswith(".csv")
        if is_csv and path.stat().st_size > _MOST_CSV_BYTES:
            raise SetupError(
                f"{self.file} is larger than {_MOST_CSV_BYTES / 1e9:g} GB; convert it to Parquet"
            )
        try:
            if not is_csv and (rows := parquet.read_metadata(self.file).num_rows) > MOST_TUPLES:
                raise SetupError(f"{self.file} has {rows:,} rows; record {MOST_TUPLES:,} at most")
            table = csv.read_csv(self.file) if is_csv else parquet.read_table(self.file)
        except (pa.ArrowException, OSError) as error:
            reason = " ".join(str(error).split())
            raise SetupError(f"{self.file} is neither Parquet nor .csv with a header: {reason}") from None
        if not table.column_names:
            raise SetupError(f"{self.file} has no columns; one with times is needed")
        name = self.column or table.column_names[0]
        if table.column_names.count(name) != 1:
            number = "several columns" if name in table.column_names else "no column"
            raise SetupError(f"{self.file} has {number} {name}; it has {known_names(table.column_names)}")
        return name, table.column(name)


def _check_sorted(times_s: Times, what: str) -> Times:
    """The times, unless one is out of range or before its predecessor."""
    for time_s in (times_s.min(initial=0.0), times_s.max(initial=0.0)):
        if not _MOMENT.holds(time_s):
            raise SetupError(f"{what} contain {time_s:g}; write {_MOMENT}")
    falls = np.flatnonzero(np.diff(times_s) < 0)
    if len(falls):
        at = int(falls[0])
        raise SetupError(f"{what} are not sorted: {times_s[at + 1]:g} comes after {times_s[at]:g}; sort them")
    return times_s


_BY_NAME: dict[str, type[Process]] = {
    "list": Listed,
    "poisson": Poisson,
    "phases": Phases,
    "pareto-flows": ParetoFlows,
    "on-off": OnOffTimes,
    "trace": Trace,
}


def _with_process(given: Any) -> Any:
    """The settings of a process; a list is short for the process of that name."""
    if isinstance(given, list):
        return {"process": "list", "times": given}
    check_table(given, _EXAMPLE)
    name, known = given.get("process"), f"known: {known_names(_BY_NAME)}"
    if name is None:
        raise problem(f"name no process; {known}")
    if not isinstance(name, str) or name not in _BY_NAME:
        raise problem(f"= {shown(name)} is no process; {nearest(str(name), _BY_NAME)}{known}", "process")
    return given


class _ByName:
    """An annotation: the model of a process is that of its name."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        models = {name: handler.generate_schema(model) for name, model in _BY_NAME.items()}
        by_name = core_schema.tagged_union_schema(models, discriminator="process")
        return core_schema.no_info_before_validator_function(_with_process, by_name)


Arrivals = Annotated[Process, _ByName()]
"""A process in a document."""


def process_named(name: str, settings: Mapping[str, object]) -> Process:
    """The process of that name; raises on a missing, unknown or impossible setting."""
    process: Process = checked(Arrivals, {"process": name, **settings}, f"process {name}")
    return process

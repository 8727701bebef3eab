"""The options of a synthetic stream, read from text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TypeVar

from headgate.errors import SetupError, known_names
from headgate.workload.columns import Values
from headgate.workload.onoff import OnOff, Poisson
from headgate.workload.rates import RatePhases, duration_us

OPTIONS = (
    "rate",
    "process",
    "flows",
    "seed",
    "onShape",
    "offShape",
    "start",
    "duration",
    "speed",
    "partitions",
    "keys",
    "skew",
    "maxRowsPerTrigger",
)
_PROCESSES: dict[str, type[OnOff]] = {"onoff": OnOff, "poisson": Poisson}
# short for the same cap
_ALIASES = {"rowspertrigger": "maxrowspertrigger"}
_T = TypeVar("_T")
_D = TypeVar("_D")


@dataclass(frozen=True)
class BurstSettings:
    """A synthetic stream: when its tuples arrive, what is in them, how fast they are handed out."""

    process: OnOff
    values: Values
    start_us: int | None
    """Event time of traffic time 0, in microseconds since 1970; None for the moment the stream starts."""
    duration_us: int | None
    """Traffic time after which the stream ends; None for never."""
    speed: float | None
    """Traffic seconds per second; None for as fast as they are asked for."""
    partitions: int
    max_rows: int | None

    @staticmethod
    def parse(options: Mapping[str, str]) -> BurstSettings:
        """Read options, whose names may be in any case; raise on an unknown name or a bad value."""
        given = _Given(options)
        process = given.read("process", _process, OnOff)(
            seed=given.read("seed", int, 7),
            rate=given.read("rate", RatePhases.parse, RatePhases.constant(1000)),
            flows=given.read("flows", int, 64),
            on_shape=given.read("onShape", float, 1.4),
            off_shape=given.read("offShape", float, 1.2),
        )
        return BurstSettings(
            process=process,
            values=Values(process.seed, given.read("keys", int, 1000), given.read("skew", float, 1.0)),
            start_us=given.read("start", _start_us, None),
            duration_us=given.read("duration", _at_least_one(duration_us), None),
            speed=given.read("speed", _speed, 1.0),
            partitions=given.read("partitions", _at_least_one(int), 2),
            max_rows=given.read("maxRowsPerTrigger", _at_least_one(int), None),
        )._checked()

    def _checked(self) -> BurstSettings:
        if self.speed is None and self.duration_us is None and self.max_rows is None:
            raise SetupError("speed 'max' would hand out an endless stream at once; add option duration")
        return self

    @property
    def is_finite(self) -> bool:
        """Whether the stream ends by itself."""
        return self.duration_us is not None


class _Given:
    def __init__(self, options: Mapping[str, str]) -> None:
        known = {name.lower() for name in OPTIONS}
        self._options: dict[str, str] = {}
        for name, text in options.items():
            key = _ALIASES.get(name.lower(), name.lower())
            if key not in known:
                raise SetupError(f"burst has no option '{name}'; it has {known_names(OPTIONS)}")
            self._options[key] = text

    def read(self, name: str, parse: Callable[[str], _T], default: _D) -> _T | _D:
        text = self._options.get(name.lower())
        if text is None:
            return default
        try:
            return parse(text)
        except SetupError as error:
            raise SetupError(f"option {name}: {error}") from None
        except ValueError:
            raise SetupError(f"option {name}: '{text}' is no value for it") from None


def _process(text: str) -> type[OnOff]:
    found = _PROCESSES.get(text.strip().lower())
    if found is None:
        raise SetupError(f"'{text}' is no process of arrivals; known: {known_names(tuple(_PROCESSES))}")
    return found


def _at_least_one(parse: Callable[[str], int]) -> Callable[[str], int]:
    def checked(text: str) -> int:
        number = parse(text)
        if number < 1:
            raise SetupError(f"'{text}' is too little; write more than 0")
        return number

    return checked


def _speed(text: str) -> float | None:
    if text.strip().lower() == "max":
        return None
    speed = float(text)
    if not 0 < speed < float("inf"):
        raise SetupError(f"'{text}' is no speed; write a number above 0, or 'max'")
    return speed


def _start_us(text: str) -> int | None:
    if text.strip().lower() == "now":
        return None
    # Python 3.10 does not read the letter for UTC
    moment = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    return microseconds(moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc))


def microseconds(moment: datetime) -> int:
    """Microseconds since 1970, without the rounding of a float."""
    elapsed = moment - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return (elapsed.days * 86_400 + elapsed.seconds) * 1_000_000 + elapsed.microseconds

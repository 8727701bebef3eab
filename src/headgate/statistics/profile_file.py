"""Profile files: statistics of a run as JSON, which a run leaves behind and later commands read."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from headgate.display import html_table, plural
from headgate.errors import SetupError, known_names
from headgate.model.profile import Profile, Profiles, TickCosts
from headgate.plain_json import json_text

FILE_NAME = "profiles.json"
_SUFFIX = ".profile.json"
_KEYS = [field.name for field in fields(Profile)]
# the others tell how well these are known, and may be left out
_MAIN_KEYS = _KEYS[:3]


@dataclass(frozen=True)
class Measured:
    """Profiles of operators, and of predicates by operator and text; rates of streams; costs of ticks.

    In JSON, a number that is not finite is null; null is read as a number that is not known.
    """

    profiles: Profiles
    """Of operators that were measured, or are stated: nothing is assumed of the others."""
    tuples_per_s: Mapping[str, float] = field(default_factory=dict)
    tick: TickCosts | None = None
    predicates: Mapping[str, Profiles] = field(default_factory=dict)
    not_measured: Mapping[str, str] = field(default_factory=dict)
    """Operators, and ``ticks``, that too few ticks have measured, and why."""
    machine_bound: Mapping[str, float] = field(default_factory=dict)
    """Tuples per second that the machine read of streams, where that is not the rate of the stream."""
    processors: int | None = None
    """How many ticks had when they were measured."""
    definitions: Mapping[str, str] = field(default_factory=dict)
    """``Network.definition`` of operators when they were measured; of what is stated, there is none."""

    def __repr__(self) -> str:
        parts = [plural(len(self.profiles), "operator"), plural(len(self.tuples_per_s), "stream")]
        ticks = (
            ""
            if self.tick is None
            else f", ticks of {max(self.tick.shortest_s, self.tick.empty_s):.3g} s and more"
        )
        return f"<Measured: {', '.join(parts)}{ticks}>"

    def _repr_html_(self) -> str:
        headings = (
            "cost (us per tuple)",
            "selectivity (results per tuple)",
            "width (bytes)",
            "measured in (ticks)",
        )
        operators = html_table(("operator", *headings), _rows(self.profiles))
        predicates = "".join(
            html_table(("predicate", *headings), _rows(own), f"predicates of {name}")
            for name, own in self.predicates.items()
        )
        streams = html_table(("stream", "rate (tuples/s)"), self.tuples_per_s.items())
        return operators + predicates + streams

    def to_json(self) -> str:
        """The text of a profile file."""
        document: dict[str, Any] = {
            "operators": _document(self.profiles),
            "tuples_per_s": dict(self.tuples_per_s),
        }
        if self.predicates:
            document["predicates"] = {name: _document(own) for name, own in self.predicates.items()}
        if self.tick is not None:
            document["tick"] = asdict(self.tick)
        if self.processors is not None:
            document["processors"] = self.processors
        for key in ("not_measured", "machine_bound", "definitions"):
            if found := getattr(self, key):
                document[key] = dict(found)
        return json_text(document)

    @staticmethod
    def read(path: str | Path) -> Measured:
        """What a profile file holds."""
        if not isinstance(path, (str, Path)):
            raise SetupError(f"a {type(path).__name__} is not a path; pass that of a profile file (JSON)")
        try:
            return Measured.from_json(Path(path).read_text(encoding="utf-8"), str(path))
        except FileNotFoundError:
            raise SetupError(f"no such file: {path}; run --checkpoint writes it when it ends") from None
        # a path may have characters that no file has, or a file bytes that are no text
        except (OSError, ValueError):
            raise SetupError(f"{path} cannot be read; pass a profile file (JSON)") from None

    @staticmethod
    def from_json(text: str, origin: str) -> Measured:
        """The inverse of ``to_json``; ``origin`` is named in errors."""
        try:
            document = json.loads(text)
        except ValueError as error:
            raise SetupError(f"{origin} is not valid JSON: {error}") from None
        if not isinstance(document, dict) or not isinstance(document.get("operators"), dict):
            raise SetupError(f'{origin} holds no profiles; write {{"operators": {{NAME: {{...}}}}}}')
        parts = document.get("predicates", {})
        if not isinstance(parts, dict) or not all(isinstance(own, dict) for own in parts.values()):
            raise SetupError(f"{origin}: predicates is wrong; write {{OPERATOR: {{TEXT: {{...}}}}}}")
        operators = _profiles(document["operators"], f"{origin}: operators")
        # stated ones have no number of samples
        empty = [name for name, given in document["operators"].items() if given.get("samples") == 0]
        return Measured(
            {name: profile for name, profile in operators.items() if name not in empty},
            _rates(document, "tuples_per_s", origin),
            _tick(document["tick"], origin) if "tick" in document else None,
            {name: _profiles(own, f"{origin}: predicates.{name}") for name, own in parts.items()},
            {**dict.fromkeys(empty, "no tick measured it"), **_texts(document, "not_measured", origin)},
            _rates(document, "machine_bound", origin),
            _processors(document.get("processors"), origin),
            _texts(document, "definitions", origin),
        )


def beside(script: Path) -> Path:
    """Where the profile of a script is stored and found."""
    return script.with_suffix(_SUFFIX)


def _rows(profiles: Profiles) -> Iterator[tuple[object, ...]]:
    for name, own in profiles.items():
        yield name, own.seconds_per_tuple * 1e6, own.selectivity, own.bytes_per_tuple, own.samples


def _document(profiles: Profiles) -> dict[str, dict[str, float]]:
    return {
        name: {key: value for key, value in asdict(profile).items() if key != "samples" or value}
        for name, profile in profiles.items()
    }


def _profiles(document: dict[str, Any], place: str) -> dict[str, Profile]:
    return {name: _profile(given, f"{place}.{name}") for name, given in document.items()}


def _profile(given: Any, place: str) -> Profile:
    if not isinstance(given, dict):
        raise SetupError(f"{place} is not an object; write {', '.join(_MAIN_KEYS)}")
    given = _known(given)
    for key in given:
        if key not in _KEYS:
            raise SetupError(f"{place}.{key} is no known key; known here: {known_names(_MAIN_KEYS)}")
    if "seconds_per_tuple" not in given:
        raise SetupError(f"{place}.seconds_per_tuple is missing; write a number of 0 or more")
    numbers = {key: _number(value, f"{place}.{key}") for key, value in given.items()}
    return Profile(samples=int(numbers.pop("samples", 0)), **numbers)


def _tick(given: Any, origin: str) -> TickCosts:
    keys = [field.name for field in fields(TickCosts)]
    needed = {field.name for field in fields(TickCosts) if field.default is MISSING}
    if not isinstance(given, dict) or not needed <= set(given) <= set(keys):
        raise SetupError(f"{origin}: tick is wrong; write an object with {', '.join(keys)}")
    numbers = {key: _number(value, f"{origin}: tick.{key}") for key, value in given.items()}
    return TickCosts(samples=int(numbers.pop("samples", 0)), **numbers)


def _rates(document: dict[str, Any], key: str, origin: str) -> dict[str, float]:
    given = document.get(key, {})
    if not isinstance(given, dict):
        raise SetupError(f"{origin}: {key} is not an object; write a number for every stream")
    return {name: _number(rate, f"{origin}: {key}.{name}") for name, rate in _known(given).items()}


def _texts(document: dict[str, Any], key: str, origin: str) -> dict[str, str]:
    given = document.get(key, {})
    if not isinstance(given, dict) or not all(isinstance(text, str) for text in given.values()):
        raise SetupError(f"{origin}: {key} is wrong; write {{OPERATOR: TEXT}}")
    return given


def _processors(given: Any, origin: str) -> int | None:
    if given is not None and (not isinstance(given, int) or isinstance(given, bool) or given < 1):
        raise SetupError(f"{origin}: processors = {given!r} is wrong; write a whole number of 1 or more")
    return given


def _known(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


def _number(value: Any, place: str) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < math.inf:
        raise SetupError(f"{place} = {value!r} is wrong; write a number of 0 or more")
    return float(value)

"""Measured profiles as a document: what ``run`` leaves behind and ``simulate`` takes up."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from headgate.errors import SetupError, known_names
from headgate.model.profile import Profile, Profiles
from headgate.model.tick import TickCosts

FILE_NAME = "profiles.json"
_SUFFIX = ".profile.json"
_KEYS = ("seconds_per_tuple", "selectivity", "bytes_per_tuple")
# how well the figures are known; nobody has to say
_MORE_KEYS = ("samples", "seconds_per_tuple_error", "selectivity_error")


@dataclass(frozen=True)
class Measured:
    """Profiles of operators, how many tuples of each stream came a second, and what ticks took if known.

    ``predicates`` are those of selections that have several, by operator and text.
    """

    profiles: Profiles
    tuples_per_s: Mapping[str, float] = field(default_factory=dict)
    tick: TickCosts | None = None
    predicates: Mapping[str, Profiles] = field(default_factory=dict)

    def to_json(self) -> str:
        """The document."""
        document = {"operators": _written(self.profiles), "tuples_per_s": dict(self.tuples_per_s)}
        if self.predicates:
            document["predicates"] = {name: _written(own) for name, own in self.predicates.items()}
        if self.tick is not None:
            document["tick"] = asdict(self.tick)
        return json.dumps(document, indent=2)

    @staticmethod
    def from_json(text: str, origin: str) -> Measured:
        """Read a document; ``origin`` names it in errors."""
        try:
            document = json.loads(text)
        except ValueError as error:
            raise SetupError(f"{origin} is no valid JSON: {error}") from None
        if not isinstance(document, dict) or not isinstance(document.get("operators"), dict):
            raise SetupError(f'{origin} holds no profiles; write {{"operators": {{NAME: {{...}}}}}}')
        rates = document.get("tuples_per_s", {})
        if not isinstance(rates, dict):
            raise SetupError(f"{origin}: tuples_per_s is no object; write a number for every stream")
        parts = document.get("predicates", {})
        if not isinstance(parts, dict) or not all(isinstance(own, dict) for own in parts.values()):
            raise SetupError(f"{origin}: predicates is wrong; write {{OPERATOR: {{TEXT: {{...}}}}}}")
        return Measured(
            _read(document["operators"], f"{origin}: operators"),
            {name: _number(rate, f"{origin}: tuples_per_s.{name}") for name, rate in rates.items()},
            _tick(document["tick"], origin) if "tick" in document else None,
            {name: _read(own, f"{origin}: predicates.{name}") for name, own in parts.items()},
        )

    def of(self, operators: tuple[str, ...], origin: str) -> Profiles:
        """The profiles of these operators; raises if one is not known."""
        for name in operators:
            if name not in self.profiles:
                known = known_names(list(self.profiles))
                raise SetupError(f"{origin} has no profile of operator {name}; it has {known}")
        return {name: self.profiles[name] for name in operators}


def beside(script: Path) -> Path:
    """Where the profile of a script is kept, and looked for."""
    return script.with_suffix(_SUFFIX)


def _written(profiles: Profiles) -> dict[str, dict[str, float]]:
    keys = (*_KEYS, *_MORE_KEYS)
    return {name: {key: getattr(profile, key) for key in keys} for name, profile in profiles.items()}


def _read(document: dict[str, Any], place: str) -> dict[str, Profile]:
    return {name: _profile(given, f"{place}.{name}") for name, given in document.items()}


def _profile(given: Any, place: str) -> Profile:
    if not isinstance(given, dict):
        raise SetupError(f"{place} is no object; write {', '.join(_KEYS)}")
    for key in given:
        if key not in (*_KEYS, *_MORE_KEYS):
            raise SetupError(f"{place}.{key} is no known key; known here: {known_names(_KEYS)}")
    defaults = {"selectivity": Profile.selectivity, "bytes_per_tuple": Profile.bytes_per_tuple}
    if "seconds_per_tuple" not in given:
        raise SetupError(f"{place}.seconds_per_tuple is missing; write a number of 0 or more")
    seconds, selectivity, width = (_number(given.get(k, defaults.get(k)), f"{place}.{k}") for k in _KEYS)
    samples, *errors = (_number(given.get(k, 0), f"{place}.{k}") for k in _MORE_KEYS)
    return Profile(seconds, selectivity, width, int(samples), *errors)


def _tick(given: Any, origin: str) -> TickCosts:
    keys = [field.name for field in fields(TickCosts)]
    needed = {field.name for field in fields(TickCosts) if field.default is MISSING}
    if not isinstance(given, dict) or not needed <= set(given) <= set(keys):
        raise SetupError(f"{origin}: tick is wrong; write an object with {', '.join(keys)}")
    return TickCosts(**{key: _number(value, f"{origin}: tick.{key}") for key, value in given.items()})


def _number(value: Any, place: str) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < math.inf:
        raise SetupError(f"{place} = {value!r} is wrong; write a number of 0 or more")
    return float(value)

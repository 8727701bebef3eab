"""Profile files: statistics of a run as JSON, which a run leaves behind and later commands read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from headgate.errors import SetupError, known_names
from headgate.model.profile import Profiles, TickCosts

FILE_NAME = "profiles.json"
_SUFFIX = ".profile.json"


@dataclass(frozen=True)
class Measured:
    """Profiles of operators, and of predicates by operator and text; rates of streams; costs of ticks."""

    profiles: Profiles
    tuples_per_s: Mapping[str, float] = field(default_factory=dict)
    tick: TickCosts | None = None
    predicates: Mapping[str, Profiles] = field(default_factory=dict)

    def to_json(self) -> str:
        document = {"operators": _document(self.profiles), "tuples_per_s": dict(self.tuples_per_s)}
        if self.predicates:
            document["predicates"] = {name: _document(own) for name, own in self.predicates.items()}
        if self.tick is not None:
            document["tick"] = asdict(self.tick)
        return json.dumps(document, indent=2)

    @staticmethod
    def read(path: Path) -> Measured:
        # takes a moment to import, and most commands read no profile
        from headgate.document import read_json

        hint = "; run --checkpoint writes it when it ends"
        return Measured.of_document(read_json(path, "a profile file (JSON)", hint), str(path))

    @staticmethod
    def from_json(text: str, origin: str) -> Measured:
        from headgate.document import parse_json

        return Measured.of_document(parse_json(text, origin), origin)

    @staticmethod
    def of_document(document: Any, origin: str) -> Measured:
        from headgate.statistics.profile_schema import measured_numbers

        return Measured(*measured_numbers(document, origin))

    def of(self, operators: tuple[str, ...], origin: str) -> Profiles:
        for name in operators:
            if name not in self.profiles:
                known = known_names(self.profiles)
                raise SetupError(f"{origin} has no profile of operator {name}; it has {known}")
        return {name: self.profiles[name] for name in operators}


def beside(script: Path) -> Path:
    """Where the profile of a script is stored and found."""
    return script.with_suffix(_SUFFIX)


def _document(profiles: Profiles) -> dict[str, dict[str, float]]:
    return {name: asdict(profile) for name, profile in profiles.items()}

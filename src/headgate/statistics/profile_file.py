"""Profile files: statistics of a run as JSON, which a run leaves behind and later commands read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from headgate.errors import SetupError
from headgate.formats.html import html_table, plural
from headgate.formats.plain_json import json_text
from headgate.model.profile import Profiles, TickCosts

FILE_NAME = "profiles.json"
_SUFFIX = ".profile.json"


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

    def over(self, known: Measured) -> Measured:
        """These statistics, with the operators and the costs of ticks that only ``known`` has."""
        return replace(
            self,
            profiles={**known.profiles, **self.profiles},
            definitions={**known.definitions, **self.definitions},
            tick=self.tick or known.tick,
        )

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
        # takes a moment to import, and most commands read no profile
        from headgate.formats.document import read_json

        hint = "; run --checkpoint writes it when it ends"
        return _checked(read_json(Path(path), "a profile file (JSON)", hint), str(path))

    @staticmethod
    def from_json(text: str, origin: str) -> Measured:
        """The inverse of ``to_json``; ``origin`` is named in errors."""
        from headgate.formats.document import parse_json

        return _checked(parse_json(text, origin), origin)


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


def _checked(document: Any, origin: str) -> Measured:
    from headgate.statistics.profile_schema import measured_numbers

    return Measured(*measured_numbers(document, origin))

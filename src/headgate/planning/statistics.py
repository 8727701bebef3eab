"""What is known of streams, predicates and costs before a query runs: as written down, or as measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from headgate.model.measured import Measured
from headgate.model.profile import Profile, in_a_row, rank
from headgate.planning.cost import Flow, WindowSeconds, joined_all
from headgate.planning.predicates import Asked, Form


@dataclass(frozen=True)
class Known:
    """A predicate with its figures; ``rank`` says how early it should be asked."""

    text: str
    selectivity: float
    seconds: float

    @property
    def rank(self) -> float:
        """Cost for what it takes away: the smaller, the earlier."""
        return rank(self.seconds, self.selectivity)


@dataclass
class Missing:
    """What the figures do not tell, gathered so that one message names all of it."""

    what: list[str] = field(default_factory=list)
    by_hand: list[str] = field(default_factory=list)
    """What no run measures."""

    def __bool__(self) -> bool:
        """Whether anything is."""
        return bool(self.what or self.by_hand)

    def add(self, what: str) -> float:
        """Note it; the figure to go on with."""
        return self._noted(self.what, what)

    def add_unmeasured(self, what: str) -> float:
        """The same, of what nothing measures."""
        return self._noted(self.by_hand, what)

    def _noted(self, said: list[str], what: str) -> float:
        if what not in said:
            said.append(what)
        return 1.0


class Statistics(Protocol):
    """Where figures come from; what is not known is noted in ``missing``."""

    def tuples_per_s(self, stream: str, missing: Missing) -> float:
        """How many tuples of a stream come a second."""

    def keys(self, stream: str, missing: Missing) -> float:
        """How many keys a window that is partitioned has."""

    def rows(self, relation: str) -> float:
        """How many rows a stored relation has."""

    def selections(self, predicates: Sequence[Asked], missing: Missing) -> tuple[Known, ...]:
        """Predicates over single tuples."""

    def join_selectivities(
        self, predicates: Sequence[Asked], inputs: Sequence[Flow], missing: Missing
    ) -> tuple[float, ...]:
        """Predicates of a window join as shares of the cross product."""

    def window_seconds(self, operator: str, stream: str | None, missing: Missing) -> WindowSeconds:
        """What the windows of a join take; of a stream's own, or of results of joins."""

    def pass_seconds(self, operator: str, kind: str) -> float:
        """What an operator of that kind takes for a tuple: project, relation or aggregate."""

    def weight(self, query: str) -> float:
        """How much an output tuple of the query counts."""


@dataclass(frozen=True)
class PredicateFigures:
    """What is written down of a predicate."""

    selectivity: float
    seconds: float | None = None


@dataclass(frozen=True)
class Written:
    """Figures that somebody has written down."""

    rates: Mapping[str, float] = field(default_factory=dict)
    predicates: Mapping[Form, PredicateFigures] = field(default_factory=dict)
    join: WindowSeconds | None = None
    windows: Mapping[str, WindowSeconds] = field(default_factory=dict)
    select_seconds: float = 0.0
    passing: Mapping[str, float] = field(default_factory=dict)
    partition_keys: Mapping[str, float] = field(default_factory=dict)
    relation_rows: Mapping[str, float] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)

    def tuples_per_s(self, stream: str, missing: Missing) -> float:
        """How many tuples of a stream come a second."""
        found = self.rates.get(stream)
        return missing.add(f"the rate of stream {stream}") if found is None else found

    def keys(self, stream: str, missing: Missing) -> float:
        """How many keys a window that is partitioned has."""
        found = self.partition_keys.get(stream)
        return missing.add_unmeasured(f"streams.{stream}.keys") if found is None else found

    def rows(self, relation: str) -> float:
        """How many rows a stored relation has; without them, selectivities are matches of a tuple."""
        return self.relation_rows.get(relation, 1.0)

    def selections(self, predicates: Sequence[Asked], missing: Missing) -> tuple[Known, ...]:
        """Predicates over single tuples."""
        known = []
        for asked in predicates:
            found = self._find(asked, missing)
            seconds = self.select_seconds if found.seconds is None else found.seconds
            known.append(Known(asked.text, found.selectivity, seconds))
        return tuple(known)

    def join_selectivities(
        self, predicates: Sequence[Asked], inputs: Sequence[Flow], missing: Missing
    ) -> tuple[float, ...]:
        """Predicates of a window join as shares of the cross product."""
        del inputs
        return tuple(self._find(asked, missing).selectivity for asked in predicates)

    def window_seconds(self, operator: str, stream: str | None, missing: Missing) -> WindowSeconds:
        """What the windows of a join take; of a stream's own, or of results of joins."""
        del operator
        if stream is not None and stream in self.windows:
            return self.windows[stream]
        if self.join is None:
            missing.add("cost.join_seconds")
        return self.join or WindowSeconds()

    def pass_seconds(self, operator: str, kind: str) -> float:
        """What an operator of that kind takes for a tuple."""
        del operator
        return self.passing.get(kind, 0.0)

    def weight(self, query: str) -> float:
        """How much an output tuple of the query counts."""
        return self.weights.get(query, 1.0)

    def _find(self, asked: Asked, missing: Missing) -> PredicateFigures:
        for form in asked.forms:
            if form in self.predicates:
                return self.predicates[form]
        return PredicateFigures(missing.add(f"the selectivity of {asked.text}"))


@dataclass(frozen=True)
class MeasuredStatistics:
    """Figures of an earlier run, which knows operators, and the predicates of some."""

    measured: Measured

    def tuples_per_s(self, stream: str, missing: Missing) -> float:
        """How many tuples of a stream come a second."""
        found = self.measured.tuples_per_s.get(stream)
        return missing.add(f"the rate of stream {stream}") if found is None else found

    def keys(self, stream: str, missing: Missing) -> float:
        """Not measured."""
        return missing.add_unmeasured(f"streams.{stream}.keys")

    def rows(self, relation: str) -> float:
        """Selectivities are measured as matches of a tuple."""
        del relation
        return 1.0

    def selections(self, predicates: Sequence[Asked], missing: Missing) -> tuple[Known, ...]:
        """Predicates over single tuples; those of an operator that were not told apart as one."""
        known = []
        for operator in dict.fromkeys(asked.operator for asked in predicates):
            own = [asked for asked in predicates if asked.operator == operator]
            text = " AND ".join(asked.text for asked in own)
            profile = self.measured.profiles.get(operator)
            if profile is None:
                missing.add(f"the selectivity of {text}")
                continue
            told = self.measured.predicates.get(operator, {})
            if len(own) > 1 and all(asked.plan_text in told for asked in own):
                known += _told_apart(profile, [(asked.text, told[asked.plan_text]) for asked in own])
            else:
                known.append(Known(text, profile.selectivity, profile.seconds_per_tuple))
        return tuple(known)

    def join_selectivities(
        self, predicates: Sequence[Asked], inputs: Sequence[Flow], missing: Missing
    ) -> tuple[float, ...]:
        """As sampled; of two streams, what their join passed on as a share of the cross product."""
        if not predicates:
            return ()
        profile = self.measured.profiles.get(predicates[0].operator)
        everything = joined_all(tuple(inputs), 1.0).tuples_per_s
        if profile is not None and everything > 0 and (len(predicates) == 1 or len(inputs) == 2):
            passed_on = profile.selectivity * sum(flow.tuples_per_s for flow in inputs)
            return (min(1.0, passed_on / everything), *(1.0 for _ in predicates[1:]))
        told = self.measured.predicates.get(predicates[0].operator, {})
        return tuple(
            told[asked.plan_text].selectivity
            if asked.plan_text in told
            else missing.add(f"the selectivity of {asked.text}")
            for asked in predicates
        )

    def window_seconds(self, operator: str, stream: str | None, missing: Missing) -> WindowSeconds:
        """What a join takes for a tuple, on whichever side it comes."""
        del stream
        profile = self.measured.profiles.get(operator)
        seconds = missing.add(f"the cost of {operator}") if profile is None else profile.seconds_per_tuple
        return WindowSeconds(probe_seconds=seconds)

    def pass_seconds(self, operator: str, kind: str) -> float:
        """What an operator takes for a tuple."""
        del kind
        profile = self.measured.profiles.get(operator)
        return 0.0 if profile is None else profile.seconds_per_tuple

    def weight(self, query: str) -> float:
        """All queries count the same."""
        del query
        return 1.0


def _told_apart(whole: Profile, parts: Sequence[tuple[str, Profile]]) -> list[Known]:
    """The predicates of an operator; asked by rank, they take and let pass what was measured of the whole."""
    figures = [(part.seconds_per_tuple, part.selectivity) for _, part in parts]
    seconds, passing = in_a_row(sorted(figures, key=lambda figure: rank(*figure)))
    dearer = whole.seconds_per_tuple / seconds if seconds > 0 else 1.0
    looser = (whole.selectivity / passing) ** (1 / len(parts)) if passing > 0 else 1.0
    return [
        Known(text, min(1.0, looser * part.selectivity), dearer * part.seconds_per_tuple)
        for text, part in parts
    ]

"""Statistics of streams, predicates and costs: written by hand, measured by an earlier run, or live.

Predicates are identified by meaning: order of sides, blanks, case and quotes do not change it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from headgate.errors import QueryError
from headgate.model.expression import Expression
from headgate.model.profile import Profile, in_sequence, order_by_rank
from headgate.model.sql_tree import tree_key, write_tree
from headgate.planning.join_order.problem import Flow, WindowSeconds, join_flows
from headgate.planning.logical import Scan
from headgate.statistics.profile_file import Measured

# maps an operator to the one that does its work, whose statistics are known: a shared one costs nothing more
Running = Callable[[str], str]
Predicates = Sequence["PlanPredicate"]
Flows = Sequence[Flow]
Selectivities = tuple[float, ...]

_UNKNOWN = Profile()
# a comparison with its sides exchanged
_MIRRORED: Mapping[type[exp.Expr], type[exp.Binary]] = {
    **{kind: kind for kind in (exp.EQ, exp.NEQ, exp.NullSafeEQ)},
    exp.LT: exp.GT,
    exp.GT: exp.LT,
    exp.LTE: exp.GTE,
    exp.GTE: exp.LTE,
}


@dataclass(frozen=True)
class PlanPredicate:
    """A predicate whose statistics are wanted: ways to write it, its operator, and its text in the plan."""

    text: str
    forms: tuple[str, ...]
    operator: str
    plan_text: str


def plan_predicates(
    predicates: Iterable[Expression], scans: Iterable[Scan], operator: str
) -> list[PlanPredicate]:
    own = tuple(scans)
    aliases = [scan.alias for scan in own]
    shown = ((p, write_tree(_over_sources(p, own, aliases))) for p in predicates)
    return [PlanPredicate(text, _forms(p, own), operator, p.text) for p, text in shown]


def form_of(text: str) -> str:
    """Equal for predicates of the same meaning; a text that is not an expression equals only itself."""
    try:
        return _form(Expression.parse(text).tree)
    except QueryError:
        return text


def _forms(predicate: Expression, scans: Sequence[Scan]) -> tuple[str, ...]:
    """All ways to write a predicate of a plan: by alias, by stream, by column alone, as it was written."""
    qualifiers: list[list[str | None]] = [[scan.alias for scan in scans]]
    if len({scan.name for scan in scans}) == len(scans):
        qualifiers.append([scan.name for scan in scans])
    if len(scans) == 1:
        qualifiers.append([None])
    forms = [_form(_over_sources(predicate, scans, own)) for own in qualifiers]
    if predicate.span is not None:
        forms.append(form_of(predicate.span.excerpt))
    return tuple(dict.fromkeys(forms))


def _over_sources(predicate: Expression, scans: Sequence[Scan], qualifiers: Sequence[str | None]) -> exp.Expr:
    columns = {
        column: exp.column(name, table=qualifier)
        for scan, qualifier in zip(scans, qualifiers, strict=True)
        for column, name in scan.plan_columns.items()
    }
    return predicate.over(columns).tree


def _form(tree: exp.Expr) -> str:
    tree = tree.unnest()
    if (
        isinstance(tree, exp.Binary)
        and type(tree) in _MIRRORED
        and tree_key(tree.left) > tree_key(tree.right)
    ):
        tree = _MIRRORED[type(tree)](this=tree.right.copy(), expression=tree.left.copy())
    return tree_key(tree)


@dataclass(frozen=True)
class PredicateEstimate:
    """A predicate with its statistics."""

    text: str
    selectivity: float
    seconds: float


@dataclass
class Missing:
    """Missing statistics, collected so that one message names all of them."""

    what: list[str] = field(default_factory=list)
    by_hand: list[str] = field(default_factory=list)
    """Those that no run measures."""
    assumed: list[str] = field(default_factory=list)
    """What was taken for those that no one can state, in words."""

    def __bool__(self) -> bool:
        return bool(self.what or self.by_hand or self.assumed)

    def add(self, what: str, is_measured: bool = True) -> float:
        """Note a missing statistic; returns the value to continue with."""
        noted = self.what if is_measured else self.by_hand
        if what not in noted:
            noted.append(what)
        return 1.0


@dataclass(frozen=True)
class PredicateStatistics:
    """Statistics of a predicate as written by hand."""

    selectivity: float
    seconds: float | None = None


@dataclass(frozen=True)
class WrittenStatistics:
    """Statistics written by hand; what is not known is noted in ``missing``."""

    rates: Mapping[str, float] = field(default_factory=dict)
    predicates: Mapping[str, PredicateStatistics] = field(default_factory=dict)
    join: WindowSeconds | None = None
    windows: Mapping[str, WindowSeconds] = field(default_factory=dict)
    select_seconds: float = 0.0
    passing: Mapping[str, float] = field(default_factory=dict)
    partition_keys: Mapping[str, float] = field(default_factory=dict)
    relation_rows: Mapping[str, float] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)

    def tuples_per_s(self, stream: str, missing: Missing) -> float:
        return _rate(self.rates, stream, missing)

    def keys(self, stream: str, missing: Missing) -> float:
        """Number of keys of a partitioned window; no run measures it."""
        found = self.partition_keys.get(stream)
        return missing.add(f"streams.{stream}.keys", is_measured=False) if found is None else found

    def rows(self, relation: str) -> float:
        """Rows of a stored relation; if not known, selectivities are matches per tuple."""
        return self.relation_rows.get(relation, 1.0)

    def selections(self, predicates: Predicates, missing: Missing) -> tuple[PredicateEstimate, ...]:
        """Predicates over single tuples."""
        estimates = []
        for predicate in predicates:
            own = self._find(predicate, missing)
            seconds = self.select_seconds if own.seconds is None else own.seconds
            estimates.append(PredicateEstimate(predicate.text, own.selectivity, seconds))
        return tuple(estimates)

    def join_selectivities(self, predicates: Predicates, inputs: Flows, missing: Missing) -> Selectivities:
        """Predicates of a window join as shares of the cross product."""
        return tuple(self._find(predicate, missing).selectivity for predicate in predicates)

    def window_seconds(self, operator: str, stream: str | None, missing: Missing) -> WindowSeconds:
        """Seconds of a join's windows: over a stream, or over results of joins."""
        if stream is not None and stream in self.windows:
            return self.windows[stream]
        if self.join is None:
            missing.add("cost.join_seconds")
        return self.join or WindowSeconds()

    def pass_seconds(self, operator: str, kind: str, missing: Missing) -> float:
        """Seconds per tuple of an operator of that kind: project, relation or aggregate."""
        return self.passing.get(kind, 0.0)

    def weight(self, query: str) -> float:
        """Weight of an output tuple of the query."""
        return self.weights.get(query, 1.0)

    def _find(self, predicate: PlanPredicate, missing: Missing) -> PredicateStatistics:
        found = (self.predicates[form] for form in predicate.forms if form in self.predicates)
        return next(found, None) or PredicateStatistics(missing.add(f"the selectivity of {predicate.text}"))


@dataclass(frozen=True)
class MeasuredStatistics:
    """Statistics of an earlier run, which measures operators, and the predicates of some."""

    measured: Measured

    def tuples_per_s(self, stream: str, missing: Missing) -> float:
        return _rate(self.measured.tuples_per_s, stream, missing)

    def keys(self, stream: str, missing: Missing) -> float:
        return missing.add(f"streams.{stream}.keys", is_measured=False)

    def rows(self, relation: str) -> float:
        return 1.0

    def weight(self, query: str) -> float:
        return 1.0

    def selections(self, predicates: Predicates, missing: Missing) -> tuple[PredicateEstimate, ...]:
        """Predicates over single tuples; those of an operator that were not measured one by one as one."""
        found: list[PredicateEstimate] = []
        for operator in dict.fromkeys(predicate.operator for predicate in predicates):
            own = [predicate for predicate in predicates if predicate.operator == operator]
            text = " AND ".join(predicate.text for predicate in own)
            profile = self.measured.profiles.get(operator)
            single = self.measured.predicates.get(operator, {})
            if profile is None:
                missing.add(f"the selectivity of {text}{self._why(operator)}")
            elif len(own) > 1 and all(predicate.plan_text in single for predicate in own):
                found += _scaled(profile, [(one.text, single[one.plan_text]) for one in own])
            else:
                found.append(PredicateEstimate(text, profile.selectivity, profile.seconds_per_tuple))
        return tuple(found)

    def join_selectivities(self, predicates: Predicates, inputs: Flows, missing: Missing) -> Selectivities:
        """As sampled; of two streams, the output of their join as a share of the cross product."""
        if not predicates:
            return ()
        profile = self.measured.profiles.get(predicates[0].operator)
        cross_per_s = join_flows(tuple(inputs), 1.0).tuples_per_s
        if profile is not None and cross_per_s > 0 and (len(predicates) == 1 or len(inputs) == 2):
            output_per_s = profile.selectivity * sum(flow.tuples_per_s for flow in inputs)
            return (min(1.0, output_per_s / cross_per_s), *(1.0 for _ in predicates[1:]))
        single = self.measured.predicates.get(predicates[0].operator, {})
        for one in predicates:
            if one.plan_text not in single:
                missing.add(f"the selectivity of {one.text}{self._why(one.operator)}")
        return tuple(single.get(one.plan_text, _UNKNOWN).selectivity for one in predicates)

    def window_seconds(self, operator: str, stream: str | None, missing: Missing) -> WindowSeconds:
        """Seconds of a join per tuple, on any side."""
        return WindowSeconds.of_probe(self._seconds(operator, missing))

    def pass_seconds(self, operator: str, kind: str, missing: Missing) -> float:
        return self._seconds(operator, missing)

    def _seconds(self, operator: str, missing: Missing) -> float:
        profile = self.measured.profiles.get(operator)
        if profile is None:
            return missing.add(f"the cost of {operator}{self._why(operator)}")
        return profile.seconds_per_tuple

    def _why(self, operator: str) -> str:
        reason = self.measured.not_measured.get(operator)
        return "" if reason is None else f" ({reason})"


@dataclass(frozen=True)
class LiveStatistics(MeasuredStatistics):
    """Statistics of a run: sampled selectivities, and one cost for every tuple that a join handles.

    ``selectivities`` are by operator and position of the predicate. Those over more than two streams are not
    sampled, and count as 1 until results show better. Rates are per second of the streams' own time.
    """

    selectivities: Mapping[str, Mapping[int, float]]
    handled_seconds: float

    def join_selectivities(self, predicates: Predicates, inputs: Flows, missing: Missing) -> Selectivities:
        known = self.selectivities.get(predicates[0].operator) if predicates else {}
        if known is None:
            return tuple(missing.add(f"the selectivity of {one.text}") for one in predicates)
        return tuple(known.get(position, 1.0) for position in range(len(predicates)))

    def window_seconds(self, operator: str, stream: str | None, missing: Missing) -> WindowSeconds:
        return WindowSeconds.of_probe(self.handled_seconds)


Statistics = WrittenStatistics | MeasuredStatistics


@dataclass(frozen=True)
class Context:
    """What rules know beside the plan: statistics, if there are any."""

    statistics: Statistics | None = None
    running: Running = str


def _rate(rates: Mapping[str, float], stream: str, missing: Missing) -> float:
    found = rates.get(stream)
    return missing.add(f"the rate of stream {stream}") if found is None else found


def _scaled(whole: Profile, parts: Sequence[tuple[str, Profile]]) -> list[PredicateEstimate]:
    """The predicates of an operator, scaled so that together they cost and pass what the operator does."""
    costs = [(part.seconds_per_tuple, part.selectivity) for _, part in parts]
    seconds, passing = in_sequence(costs[position] for position in order_by_rank(costs))
    dearer = whole.seconds_per_tuple / seconds if seconds > 0 else 1.0
    looser = (whole.selectivity / passing) ** (1 / len(parts)) if passing > 0 else 1.0
    return [
        PredicateEstimate(text, min(1.0, looser * part.selectivity), dearer * part.seconds_per_tuple)
        for text, part in parts
    ]

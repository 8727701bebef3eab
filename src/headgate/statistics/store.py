"""The one store of what is known of a network's streams, operators and predicates.

The engine adds what each tick has measured; the planner, strategies, admission and the controller read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from math import isfinite
from types import MappingProxyType

from headgate.model.event import TickCommitted
from headgate.model.expression import Expression
from headgate.model.joins import WindowJoin
from headgate.model.network import Network
from headgate.model.operator import Select
from headgate.model.profile import Profile, Profiles, TickCosts, order_by_rank
from headgate.model.status import TickRecord
from headgate.statistics.completeness import TICKS
from headgate.statistics.estimators import DecayedRatio, JoinCosts, MatchRatio, tick_costs
from headgate.statistics.operators import OperatorEstimates, Overall
from headgate.statistics.profile_file import Measured

# predicates are tried out once Java is warm, then ever more rarely
_FIRST_TRIAL = 4
_TRIAL_FACTOR = 4
# a tick's wall-clock time has three coefficients, and as many ticks again show how it varies
_TELLING_TICKS = 6
# of how often keys occur
_KEY_DIGITS = 3


class PredicateEstimates:
    """Profiles of the predicates of selections, by operator and text, from trials over a sample of tuples."""

    def __init__(self, known: Mapping[str, Profiles]) -> None:
        self._profiles: dict[str, dict[str, Profile]] = {}
        self._ticks = 0
        self._next_trial = _FIRST_TRIAL
        for operator, profiles in known.items():
            self.add(operator, profiles)

    def add(self, operator: str, profiles: Profiles) -> None:
        """Add the results of a trial, each of which counts as much as all before it."""
        own = self._profiles.setdefault(operator, {})
        for text, new in profiles.items():
            old = own.get(text, replace(new, samples=0))
            own[text] = Profile(
                0.5 * old.seconds_per_tuple + 0.5 * new.seconds_per_tuple,
                0.5 * old.selectivity + 0.5 * new.selectivity,
                samples=old.samples + new.samples,
            )

    def wants_trial(self) -> bool:
        self._ticks += 1
        return self._ticks >= self._next_trial

    def end_trial(self) -> None:
        """The trials of this tick had enough tuples: the next ones may wait."""
        self._next_trial = _TRIAL_FACTOR * self._ticks

    @property
    def profiles(self) -> dict[str, Profiles]:
        # copies: another thread may be reading while a tick adds
        return {operator: dict(own) for operator, own in list(self._profiles.items()) if own}


class PredicateOrder:
    """Predicate orders of selections.

    ``movable`` are the predicates, by operator, that can be evaluated for any tuple. The others keep their
    positions, and predicates move only between them.
    """

    def __init__(
        self,
        selects: Mapping[str, Select],
        movable: Mapping[str, frozenset[str]],
        estimates: PredicateEstimates,
    ) -> None:
        self._movable = movable
        self._estimates = estimates
        self._orders = {
            name: select.predicates
            for name, select in selects.items()
            if any(len(run) > 1 for run in self._runs(name, select.predicates))
        }
        self._sort()

    def order(self, select: Select) -> tuple[Expression, ...]:
        return self._orders.get(select.name, select.predicates)

    def wants_trial(self) -> bool:
        return self._estimates.wants_trial() and bool(self._orders)

    def to_try(self, select: Select) -> tuple[Expression, ...]:
        runs = self._runs(select.name, self._orders.get(select.name, ()))
        return tuple(predicate for run in runs if len(run) > 1 for predicate in run)

    def add_trials(self, profiles: Mapping[str, Profiles]) -> None:
        """Add the trials of this tick; if there are none, the next tick tries again."""
        for operator, own in profiles.items():
            self._estimates.add(operator, own)
        if profiles:
            self._estimates.end_trial()
            self._sort()

    def _sort(self) -> None:
        known = self._estimates.profiles
        for operator, predicates in self._orders.items():
            runs = [_ranked(run, known.get(operator, {})) for run in self._runs(operator, predicates)]
            self._orders[operator] = tuple(chain.from_iterable(runs))

    def _runs(self, operator: str, predicates: Sequence[Expression]) -> Iterator[list[Expression]]:
        """Consecutive predicates that may change positions."""
        movable = self._movable.get(operator, frozenset())
        for can_move, group in groupby(predicates, key=lambda predicate: predicate.text in movable):
            run = list(group)
            yield from [run] if can_move else [[predicate] for predicate in run]


def _ranked(run: list[Expression], profiles: Profiles) -> list[Expression]:
    if any(predicate.text not in profiles for predicate in run):
        return run
    known = [profiles[predicate.text] for predicate in run]
    positions = order_by_rank([(profile.seconds_per_tuple, profile.selectivity) for profile in known])
    return [run[position] for position in positions]


# an operator, and the positions of its predicates over the same two sides
Link = tuple[str, tuple[int, ...]]


@dataclass(frozen=True)
class PairCounts:
    """Pairs in samples of two windows, and how many of them satisfy all predicates."""

    pairs: float
    matches: float


class JoinSelectivities:
    """Selectivities of join predicates, as shares of the cross product of two windows.

    ``known`` ones, by operator and position, hold until samples replace them.
    """

    def __init__(self, known: Mapping[str, Mapping[int, float]] = MappingProxyType({})) -> None:
        self._known = known
        self._ratios: defaultdict[Link, MatchRatio] = defaultdict(MatchRatio)
        self.key_tables: dict[str, tuple[float, ...]] = {}

    def add_keys(self, counts: Mapping[str, Sequence[int]]) -> None:
        """Count the keys of samples: halfway between what was counted before and these."""
        for table, rows in counts.items():
            if (total := sum(rows)) == 0:
                continue
            latest = [len(rows) * count / total for count in rows]
            before = self.key_tables.get(table, latest)
            self.key_tables[table] = tuple(
                round((a + b) / 2, _KEY_DIGITS) for a, b in zip(before, latest, strict=True)
            )

    def add(self, samples: Mapping[Link, PairCounts]) -> None:
        for link, sample in samples.items():
            self._ratios[link].add(sample.matches, sample.pairs)

    def by_position(self) -> dict[str, dict[int, float]]:
        """By operator and position; the first predicate of a link has its selectivity, the others 1."""
        found = {operator: dict(own) for operator, own in self._known.items()}
        # a copy: another thread may be reading while a tick adds
        for (operator, positions), ratio in list(self._ratios.items()):
            own = found.setdefault(operator, {})
            own.update(dict.fromkeys(positions, 1.0) | {positions[0]: ratio.value})
        return found

    def profiles(self, network: Network) -> dict[str, Profiles]:
        found: dict[str, Profiles] = {}
        for name, own in self.by_position().items():
            join = network.operators[name]
            assert isinstance(join, WindowJoin)
            found[name] = {join.predicates[i].text: Profile(0.0, own[i]) for i in sorted(own)}
        return found


History = Callable[[], Sequence[TickRecord]]


@dataclass(frozen=True)
class Interval:
    """When the tuples of a tick arrived: seconds by the clock, and by the streams' own timestamps."""

    arrived_s: float
    own_s: float
    tuples_per_own_s: dict[str, float]


class ArrivalRates:
    """Rates of streams over the latest ticks: by their own time, which fills windows, and by the clock."""

    def __init__(self) -> None:
        self._started_s: float | None = None
        self._until_s: dict[str, float] = {}
        self._by_own_time: dict[str, DecayedRatio] = {}
        self.tuples_per_s = DecayedRatio()
        """Tuples of all streams per second by the clock."""
        self.speed = DecayedRatio(known=1.0)
        """Seconds of the streams' own time per second by the clock."""
        self.latest: Interval | None = None
        """Arrivals of the last tick; None of the first, whose beginning is unknown."""

    def add(self, tick: TickCommitted) -> None:
        """Add a tick, which need not be committed yet."""
        self.latest = self._interval(tick)
        if self.latest is None:
            return
        arrived_s, own_s = self.latest.arrived_s, self.latest.own_s
        self.tuples_per_s.add(tick.totals.rows_in, arrived_s)
        self.speed.add(own_s, arrived_s)
        for stream, counts in tick.streams.items():
            self._by_own_time.setdefault(stream, DecayedRatio()).add(counts.rows_in, own_s)

    def _interval(self, tick: TickCommitted) -> Interval | None:
        started_s = tick.now_s - tick.seconds
        before_s, self._started_s = self._started_s, started_s
        before_until, self._until_s = self._until_s, {**self._until_s, **tick.until_s}
        if before_s is None or started_s <= before_s:
            return None
        arrived_s = started_s - before_s
        moved = {s: until - before_until[s] for s, until in tick.until_s.items() if s in before_until}
        # streams that have just begun have no time of their own yet
        own_s = max(moved.values(), default=0.0) or arrived_s
        rates = {stream: counts.rows_in / own_s for stream, counts in tick.streams.items()}
        return Interval(arrived_s, own_s, rates)

    @property
    def tuples_per_own_s(self) -> dict[str, float]:
        """Tuples of each stream per second of its own time."""
        return {stream: rate.value for stream, rate in self._by_own_time.items()}


def _known_joins(network: Network, predicates: Mapping[str, Profiles]) -> dict[str, dict[int, float]]:
    """Selectivities of the predicates of joins, by operator and position, as far as they are known."""
    found: dict[str, dict[int, float]] = {}
    for name, join in network.operators.items():
        own = predicates.get(name, {})
        for position, predicate in enumerate(join.predicates if isinstance(join, WindowJoin) else ()):
            if predicate.text in own:
                found.setdefault(name, {})[position] = own[predicate.text].selectivity
    return found


class StatisticsStore:
    """What is known of a network, before and while it runs; ``known`` was measured by an earlier run."""

    def __init__(self, network: Network, known: Measured | None = None) -> None:
        self._network = network
        self.known = known or Measured({})
        self.operators = OperatorEstimates(network, self.known.profiles)
        self.predicates = PredicateEstimates(self.known.predicates)
        self.joins = JoinSelectivities(_known_joins(network, self.known.predicates))
        self.join_costs = JoinCosts()
        self.arrivals = ArrivalRates()
        self._histories: list[History] = []

    def follow(self, history: History) -> None:
        self._histories.append(history)

    def for_network(self, network: Network) -> StatisticsStore:
        """What is known of the operators that another network has, too."""
        old = self._network
        same = [
            n for n in network.operators if n in old.operators and network.operators[n] == old.operators[n]
        ]
        profiles = {name: self.profiles[name] for name in same if self.profiles[name].samples}
        known = {name: profile for name, profile in self.known.profiles.items() if name in same}
        predicates = {name: own for name, own in self.predicates.profiles.items() if name in same}
        return StatisticsStore(network, replace(self.known, profiles=known | profiles, predicates=predicates))

    def forget_warm_up(self) -> None:
        """Begin anew: what was measured so far is no more than an assumption."""
        self.operators = self.operators.restarted()
        self._histories = []

    def forget_ticks(self) -> None:
        """Begin anew with the current profiles as what is known."""
        self.operators = self.operators.continued()
        self._histories = []

    @property
    def profiles(self) -> Profiles:
        return self.operators.profiles

    def tick_costs(self, processors: int | None = None) -> TickCosts | None:
        """Wall-clock costs of all ticks, on so many processors; None while too few have done any work."""
        return tick_costs([history() for history in self._histories], processors=processors)

    def latest_tick_costs(self, latest: int, cold: int, processors: int) -> TickCosts | None:
        """Wall-clock costs of the latest ticks, held to those of an earlier run, and known from it at first.

        The first ``cold`` ticks, in which Java compiles, count only as long as there are no others.
        """
        histories = [history() for history in self._histories]
        warm = [history[cold:] for history in histories]
        counted = [own[-latest:] for own in warm]
        if self.known.tick is None and sum(map(len, warm)) <= cold:
            counted = histories
        return tick_costs(counted, self.known.tick, processors)

    def unmeasured(self) -> dict[str, str]:
        """Operators, and ``ticks``, that too few ticks have measured, and why."""
        return self._unmeasured(self.operators.overall(), self.tick_costs())

    def _unmeasured(self, overall: Overall, costs: TickCosts | None) -> dict[str, str]:
        found = self.operators.unmeasured(overall.profiles)
        if costs is None:
            found[TICKS] = "too few of them did any work"
        elif costs.samples < _TELLING_TICKS:
            found[TICKS] = f"only {costs.samples} of {_TELLING_TICKS} did any work"
        return found

    def observations(self) -> int:
        """Grows with every tick that measures anything."""
        worked = sum(tick.busy_s > 0 for history in self._histories for tick in history())
        return self.operators.observations + worked

    def snapshot(self, tuples_per_s: Mapping[str, float], processors: int | None = None) -> Measured:
        """Everything that explains the run as a whole, as a profile file has it: what was measured."""
        overall, costs = self.operators.overall(), self.tick_costs(processors)
        missing = self._unmeasured(overall, costs)
        if costs is not None:
            fixed_s, stored_s, error = overall.fixed_s, overall.stored_s, overall.work_error
            costs = replace(costs, fixed_busy_s=fixed_s, stored_busy_s=stored_s)
            # known from before, and too few ticks since to tell: it may be off by all of it
            costs = replace(costs, work_error=error if isfinite(error) else 1.0)
        found = {**self.predicates.profiles, **self.joins.profiles(self._network)}
        own = {name: found[name] for name in self._network.operators if name in found}
        shared = {name: own[first] for name, first in self._network.shared.items() if first in own}
        return Measured(
            {name: profile for name, profile in overall.profiles.items() if name not in missing},
            tuples_per_s,
            None if TICKS in missing else costs,
            {**own, **shared},
            missing,
            processors=processors,
            definitions={n: self._network.definition(n) for n in overall.profiles if n not in missing},
        )

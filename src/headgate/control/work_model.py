"""What ticks are expected to do and to take, by the planner's model and the statistics of the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from headgate.control.overrides import has_orders
from headgate.model.event import TickCommitted
from headgate.model.join_order import JoinOrder
from headgate.model.joins import WindowJoin, connected_order
from headgate.model.network import Network
from headgate.model.profile import TickCosts
from headgate.model.shedding import TickSettings
from headgate.planning.join_order.choose import PlanWork, correct, work_of
from headgate.planning.join_order.pose import problems_of
from headgate.planning.join_order.problem import JoinProblem
from headgate.planning.logical import LogicalPlan
from headgate.planning.plan_statistics import LiveStatistics, Missing
from headgate.queueing.tick_model import InTicks
from headgate.statistics.estimators import DecayedRatio, ResultRatio
from headgate.statistics.profile_file import Measured
from headgate.statistics.store import Interval, StatisticsStore

# ticks until Java is warm
COLD_TICKS = 3
_RECENT_TICKS = 30
# standard deviation of ticks, as a share of their length, while none were measured
_ASSUMED_SPREAD = 0.15
# ticks that differ by more have compiled or waited
_MOST_SPREAD = 0.3
# while costs are not known: of what ticks have used
_HEAD_ROOM = 0.9
# A tuple waits for the tick before its own to end. With ticks of this share of the bound and a spread of 0.2,
# one tuple in a thousand takes longer than the bound.
TICK_OF_BOUND = 0.3
_TARGET_S = 2.0
_LEAST_CAPACITY = 0.01
# of the processors that ticks have used: whatever explains a few ticks best, they did that work
_LEAST_OF_USED = 0.5
# ticks shorter than this share of the target are mostly overhead, and show little of what there is to use
_TELLING = 0.5
_MOST_ROWS, _SAME_ROWS = 1e9, 0.02


def target_s(network: Network) -> float:
    """How long ticks may be for the latency bounds of queries that shed."""
    queries = network.queries.values()
    bounds = [q.latency_s for q in queries if q.overload == "shed" and q.latency_s is not None]
    return TICK_OF_BOUND * min(bounds) if bounds else _TARGET_S


def capacity_of(costs: TickCosts, target_s: float, processors: int, tuples_per_s: float) -> float:
    """Processors that ticks of that length leave for operators, if so many tuples arrive.

    The head-room that ticks need because they differ is that of the queueing model.
    """
    spread = min(costs.spread, _MOST_SPREAD) if costs.samples else _ASSUMED_SPREAD
    ticks = InTicks(costs.empty_s, processors, spread=spread)
    # no tick can use more processors than there are, whatever explains a few of them best
    work_s = max(costs.work_s, 1 / processors)
    return (ticks.utilisation_within(target_s) - costs.intake_s * tuples_per_s) / work_s


@dataclass(frozen=True)
class ControlledRun:
    """A run as its controller sees it; ``is_live`` where tuples arrive whether they are read or not."""

    network: Network
    plans: Sequence[LogicalPlan]
    statistics: StatisticsStore
    memory_bytes: float
    is_live: bool
    processors: int = 1
    orders: Mapping[str, JoinOrder] = field(default_factory=dict)
    """Join orders fixed by hand, by operator."""
    room_bytes: Callable[[float], float] | None = None
    """Of a strategy that keeps a memory limit: how many bytes may arrive, given those in queues.

    Drop boxes then close only where that strategy cannot keep its limit by itself, whatever ticks take.
    """

    @property
    def sheds(self) -> bool:
        """Whether drop boxes keep ticks short."""
        return self.is_live and self.room_bytes is None and bool(self.network.sheddable())

    @property
    def keeps_limit(self) -> bool:
        """Whether drop boxes keep the limit of the strategy."""
        return self.is_live and self.room_bytes is not None and bool(self.network.sheddable())

    @property
    def target_s(self) -> float:
        return target_s(self.network)

    @property
    def has_choices(self) -> bool:
        """Whether there are drop boxes or join orders to choose, or keys to count."""
        is_ranking = bool(self.network.productivity())
        return self.sheds or self.keeps_limit or is_ranking or has_orders(self.network)


class WorkModel:
    """The queries of a run as problems of the optimiser, and the work and results expected of its ticks."""

    def __init__(self, run: ControlledRun) -> None:
        self._run = run
        self._statistics = run.statistics
        self._expected: tuple[float, float] | None = None
        """Tuples that joins handle in a tick, and seconds that its other operators take."""
        self._results: dict[str, ResultRatio] = {}
        self._used_processors = DecayedRatio()
        """Processor seconds per second of ticks that are long enough to tell."""
        self.is_measured = self._hold_to_known()
        """Whether an earlier run has measured what ticks and all operators cost."""

    def _hold_to_known(self) -> bool:
        known = self._statistics.known
        rates = known.tuples_per_s
        problems = self.problems(rates) if rates.keys() >= self._run.network.streams.keys() else None
        if known.tick is None or problems is None:
            return False
        joins = [p for p in problems if len(p.inputs) > 1 and p.shares_with is None]
        names = [self._run.network.running(f"{p.query}.join") for p in joins]
        if any(name not in known.profiles for name in names):
            return False
        # a profile of a join is by tuple of its inputs, the model by tuple that any of its steps handles
        handled = sum(self._work(p, TickSettings()).handled_per_s for p in joins)
        taken = [sum(i.flow.tuples_per_s for i in p.inputs) for p in joins]
        busy = sum(known.profiles[n].seconds_per_tuple * rate for n, rate in zip(names, taken, strict=True))
        if handled > 0:
            self._statistics.join_costs.hold_to(known.tick.fixed_busy_s, busy / handled)
        return True

    def problems(self, tuples_per_own_s: Mapping[str, float]) -> list[JoinProblem] | None:
        """The queries as problems of the optimiser; None while statistics are missing."""
        store, missing = self._statistics, Missing()
        # profiles of an earlier run separate operators better than the ticks of this one
        profiles = {
            name: replace(profile, seconds_per_tuple=store.join_costs.other * profile.seconds_per_tuple)
            for name, profile in {**store.profiles, **store.known.profiles}.items()
        }
        measured, selectivities = Measured(profiles, tuples_per_own_s), store.joins.by_position()
        statistics = LiveStatistics(measured, selectivities, store.join_costs.handled_s)
        running = self._run.network.running
        posed = [p for plan in self._run.plans for p in problems_of(plan, statistics, missing, running)]
        problems = [p.problem for p in posed]
        # results as a multiple of those that the sampled selectivities predict
        ratios = {query: ratio.value for query, ratio in self._results.items()}
        return None if missing else [correct(p, ratios.get(p.query, 1.0)) for p in problems]

    def expect(self, tick: TickCommitted, interval: Interval, settings: TickSettings) -> None:
        """Note the work expected of this tick, and how its results compare with those expected."""
        self._expected = None
        problems = self.problems(interval.tuples_per_own_s)
        if problems is None:
            return
        works = [self._work(p, settings) for p in problems]
        queries = [self._counted(problem, tick) for problem in problems]
        if all(query in self._results for query in queries if query is not None):
            # before the first results, their number and so their cost is only a guess
            self._expected = (
                sum(work.handled_per_s for work in works) * interval.own_s,
                sum(work.other_s_per_s for work in works) * interval.own_s,
            )
        for query, work in zip(queries, works, strict=True):
            if query is not None:
                ratio = self._results.setdefault(query, ResultRatio())
                ratio.add(tick.queries[query].rows_out, work.results_per_s * interval.own_s / ratio.value)

    def learn(self, tick: TickCommitted, is_warm: bool) -> None:
        """Compare the expected work of a tick with its processor time, known once it is committed."""
        if tick.seconds >= _TELLING * self._run.target_s:
            self._used_processors.add(tick.busy_s, tick.seconds)
        if self._expected and is_warm:
            self._statistics.join_costs.add(*self._expected, tick.busy_s)

    def tick_costs(self) -> TickCosts | None:
        return self._statistics.latest_tick_costs(_RECENT_TICKS, COLD_TICKS, self._run.processors)

    def capacity(self, costs: TickCosts | None) -> float:
        """Processor seconds for tuples per second of the streams' own time, beside what ticks cost."""
        arrivals, used = self._statistics.arrivals, self._used_processors.value
        speed = arrivals.speed.value
        if costs is None or costs.work_s <= 0:
            # what ticks cost beside their tuples is not known yet
            return _HEAD_ROOM * (used or self._run.processors) / speed
        costs = replace(costs, fixed_busy_s=self._statistics.join_costs.fixed_s)
        run, arriving_per_s = self._run, arrivals.tuples_per_s.value
        fits = capacity_of(costs, run.target_s, run.processors, arriving_per_s)
        return max(_LEAST_CAPACITY, _LEAST_OF_USED * used / speed, fits / speed)

    def left_for_shedding(self, problems: Sequence[JoinProblem], costs: TickCosts | None) -> float:
        """The capacity without the work of queries that shed nothing."""
        capacity = self.capacity(costs)
        for work in (self._work(p, TickSettings()) for p in problems):
            capacity -= self._busy(work)
        return max(capacity, _LEAST_CAPACITY)

    def rows_that_fit(self, rows: Mapping[str, int]) -> float:
        """Rows that a tick of the length that it should have can process, of streams in these proportions.

        Infinite if too little is known.
        """
        total = sum(rows.values())
        if not total:
            return inf
        capacity, least, most = self.capacity(self.tick_costs()), 0.0, _MOST_ROWS
        while most - least > _SAME_ROWS * most:
            fits = (least + most) / 2
            busy = self._busy_with({s: fits * count / total for s, count in rows.items()})
            if busy is None:
                return inf
            least, most = (fits, most) if busy <= capacity else (least, fits)
        return least

    def _busy_with(self, rows: Mapping[str, float]) -> float | None:
        """Processors that so many rows per tick keep busy, if nothing of them is shed."""
        problems = self.problems({stream: count / self._run.target_s for stream, count in rows.items()})
        return None if problems is None else sum(self._busy(self._work(p, TickSettings())) for p in problems)

    def _busy(self, work: PlanWork) -> float:
        """Processors that work keeps busy."""
        return work.handled_per_s * self._statistics.join_costs.handled_s + work.other_s_per_s

    def _work(self, problem: JoinProblem, settings: TickSettings) -> PlanWork:
        return work_of(problem, self._order(problem, settings), settings.keep)

    def _order(self, problem: JoinProblem, settings: TickSettings) -> JoinOrder:
        name = self._run.network.running(f"{problem.query}.join")
        join = self._run.network.operators.get(name)
        if not isinstance(join, WindowJoin):
            return JoinOrder(problem.aliases)
        return settings.orders.get(name) or JoinOrder(join.sides[i].alias for i in connected_order(join))

    def _counted(self, problem: JoinProblem, tick: TickCommitted) -> str | None:
        """The query whose results are those of this problem alone; None if the tick does not count them."""
        query = problem.query if problem.query in tick.queries else problem.query.split(".")[0]
        is_counted = query in tick.queries and len(self._run.network.queries[query].outputs) == 1
        return query if is_counted else None

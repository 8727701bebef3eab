"""The controller: measured figures in, the course of the next tick out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from headgate.adaptation.costs import WorkCosts
from headgate.adaptation.rates import Rates, Stretch
from headgate.adaptation.throttle import Throttle, TickLoad
from headgate.model.event import Event, TickCommitted
from headgate.model.joining import connected_order
from headgate.model.network import Network
from headgate.model.operator import WindowJoin
from headgate.model.profile import Profiles
from headgate.model.shedding import Course
from headgate.model.tick import TickCosts
from headgate.planning.join_problem import problems_of
from headgate.planning.joins.choose import Decision
from headgate.planning.joins.plans import Plans
from headgate.planning.joins.problem import JoinProblem
from headgate.planning.live import LiveStatistics, Work, connected_plans, corrected, plan_in_order, work_of
from headgate.planning.logical import LogicalPlan
from headgate.planning.reoptimize import Reoptimizer
from headgate.planning.statistics import Missing
from headgate.profiling import tick_costs
from headgate.runtime.helm import Decided
from headgate.runtime.matches import Link, Matches, Sampled
from headgate.status import TickRecord

# ticks until Java is warm
_COLD_TICKS = 3
_SAMPLE_EVERY = 2
_RECENT_TICKS = 30
# of what a tick may take: the model is not exact, and ticks differ
_HEAD_ROOM = 0.9
# a tuple waits for the tick before its own to end
TICK_OF_BOUND = 0.3
_TARGET_S = 2.0
_MEMORY_SHARE = 0.8
_ENOUGH = 1e9
_LEAST_CAPACITY = 0.01
# shares that differ by less are the same
_SAME = 0.03
# boxes open by no more than this a tick: a share that is too large makes one tick that is much too long
_OPENING = 2.0
_AJAR = 0.05
# results, found or expected, until they tell how far predicates over more than two streams let pass
_TELLING_RESULTS = 50
_MEMORY = 0.7


@dataclass(frozen=True)
class Setting:
    """What a controller has to know of a run; ``is_live`` where tuples come whether they are read or not."""

    network: Network
    plans: Sequence[LogicalPlan]
    profiles: Callable[[], Profiles]
    ticks: Callable[[], Sequence[TickRecord]]
    memory_bytes: float
    is_live: bool
    processors: int = 1
    known: Profiles = field(default_factory=dict)
    """From an earlier run: operators told apart, as ticks alone cannot."""
    orders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Of joins that are told how to run."""

    @property
    def sheds(self) -> bool:
        """Whether anything may be dropped."""
        return self.is_live and bool(self.network.sheddable())

    @property
    def target_s(self) -> float:
        """How long ticks may be for the latency bounds of queries that shed."""
        queries = self.network.queries.values()
        bounds = [q.latency_s for q in queries if q.overload == "shed" and q.latency_s is not None]
        return TICK_OF_BOUND * min(bounds) if bounds else _TARGET_S

    @property
    def is_worth_it(self) -> bool:
        """Whether there is anything to choose: boxes, or the order of a join of three."""
        joins = [o for o in self.network.operators.values() if isinstance(o, WindowJoin)]
        return self.sheds or any(len(join.sides) > 2 for join in joins)


class Adaptive:
    """Chooses orders and boxes by the model, and corrects boxes by what ticks really take."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._rates = Rates()
        self._costs = WorkCosts()
        self._matches = Matches()
        self._throttle = Throttle(setting.target_s, _MEMORY_SHARE * setting.memory_bytes)
        self._reoptimizer: Reoptimizer | None = None
        self._ticks = 0
        self._doing: Work | None = None
        self._results: dict[str, tuple[float, float]] = {}

    def wants_samples(self) -> bool:
        """Every other tick."""
        return self._ticks % _SAMPLE_EVERY == 0

    def sampled(self, found: Mapping[Link, Sampled]) -> None:
        """Take in samples of matching tuples."""
        self._matches.add(found)

    def __call__(self, event: Event) -> None:
        """A tick is over: now its processor time is known."""
        if isinstance(event, TickCommitted) and self._doing is not None and self._ticks > _COLD_TICKS:
            self._costs.take_in(self._doing, event.busy_s)

    def decide(self, tick: TickCommitted, course: Course) -> Decided:
        """The course of the next tick."""
        self._ticks += 1
        stretch = self._rates.take_in(tick)
        if stretch is None:
            return Decided(course)
        self._note_work(tick, stretch, course)
        costs = tick_costs([self._setting.ticks()[-_RECENT_TICKS:]])
        reason = self._look(costs) if self._ticks > _COLD_TICKS else ""
        if self._setting.sheds:
            too_much = self._throttle.take_in(self._load(tick, stretch, costs))
            if reason and self._decision is not None and not self._decision.is_feasible:
                self._throttle.start_anew()
            reason = reason or too_much
        after = Course(self._shares(course), course.seed, self._orders(course))
        return Decided(after, reason or "there is room again", self._figures(tick, costs))

    def _note_work(self, tick: TickCommitted, stretch: Stretch, course: Course) -> None:
        """What this tick should have done, for what it did."""
        self._doing = None
        problems = self._problems(stretch.tuples_per_own_s)
        if problems is None:
            return
        works = [work_of(p, self._order(p, course), course.keep) for p in problems]
        span_s = stretch.own_s
        counted = [
            (query, work)
            for problem, work in zip(problems, works, strict=True)
            if (query := self._counted(problem, tick)) is not None
        ]
        if all(query in self._results for query, _ in counted):
            # before, results were only guessed, and so was what they cost
            self._doing = Work(
                sum(w.handled_per_s for w in works) * span_s,
                sum(w.other_s_per_s for w in works) * span_s,
                sum(w.results_per_s for w in works) * span_s,
            )
        for query, work in counted:
            expected, found = self._results.get(query, (0.0, 0.0))
            expected = _MEMORY * expected + work.results_per_s * span_s / self._passing(query)
            self._results[query] = expected, _MEMORY * found + tick.queries[query].rows_out

    def _counted(self, problem: JoinProblem, tick: TickCommitted) -> str | None:
        """The query whose results are those of this problem alone; None if the tick does not tell them."""
        query = problem.query.split(".")[0] if problem.query not in tick.queries else problem.query
        if query not in tick.queries or len(self._setting.network.queries[query].outputs) > 1:
            return None
        return query

    def _passing(self, query: str) -> float:
        """Results by results that the sampled selectivities promise."""
        expected, found = self._results.get(query, (0.0, 0.0))
        tells = expected > 0 and max(found, expected) >= _TELLING_RESULTS
        return max(found, 1.0) / expected if tells else 1.0

    def _problems(self, rates: Mapping[str, float]) -> list[JoinProblem] | None:
        """The queries as the optimiser sees them; None while figures are missing."""
        figures, missing = self._costs.figures, Missing()
        profiles = {
            name: replace(profile, seconds_per_tuple=figures.other * profile.seconds_per_tuple)
            for name, profile in {**self._setting.profiles(), **self._setting.known}.items()
        }
        selectivities = self._matches.selectivities()
        statistics = LiveStatistics(rates, profiles, selectivities, figures.handled_s)
        running = self._setting.network.running
        problems = [
            posed.problem
            for plan in self._setting.plans
            for posed in problems_of(plan, statistics, missing, running)
        ]
        if missing:
            return None
        return [corrected(p, self._passing(p.query)) for p in problems]

    def _look(self, costs: TickCosts | None) -> str:
        problems = self._problems(self._rates.tuples_per_own_s)
        if problems is None:
            return ""
        shedding = [p for p in problems if self._may_shed(p)] if self._setting.sheds else problems
        others = [p for p in problems if p not in shedding]
        capacity = self._capacity(costs) if self._setting.sheds else _ENOUGH
        capacity -= sum(self._cost_per_s(p) for p in others)
        capacity = max(capacity, _LEAST_CAPACITY)
        if self._reoptimizer is None:
            self._reoptimizer = Reoptimizer(shedding, capacity, plans_of=self._plans_of)
            return "first figures"
        self._reoptimizer.capacity = capacity
        change = self._reoptimizer.look(shedding)
        return "" if change is None else change.reason

    def _plans_of(self, problem: JoinProblem) -> Plans:
        order = self._setting.orders.get(f"{problem.query}.join")
        return connected_plans(problem) if order is None else plan_in_order(problem, order)

    def _may_shed(self, problem: JoinProblem) -> bool:
        return set(problem.streams) <= self._setting.network.sheddable()

    def _cost_per_s(self, problem: JoinProblem) -> float:
        work = work_of(problem, problem.aliases, {})
        return work.handled_per_s * self._costs.figures.handled_s + work.other_s_per_s

    def _capacity(self, costs: TickCosts | None) -> float:
        """Processor seconds for tuples in a second of the streams' own time, beside what ticks cost."""
        if costs is None or costs.work_s <= 0:
            # what ticks cost beside their tuples is not known yet
            return _HEAD_ROOM * self._setting.processors / self._rates.speed
        empty_s = costs.overhead_s + costs.work_s * self._costs.figures.fixed_s
        free = 1 - empty_s / self._setting.target_s - costs.intake_s * self._rates.tuples_per_s
        # no tick can use more processors than there are, whatever explains a few of them best
        work_s = max(costs.work_s, 1 / self._setting.processors)
        return max(_LEAST_CAPACITY, _HEAD_ROOM * free / (work_s * self._rates.speed))

    def _load(self, tick: TickCommitted, stretch: Stretch, costs: TickCosts | None) -> TickLoad:
        rows_in = sum(c.rows_in for c in tick.streams.values())
        kept = rows_in - sum(c.shed for c in tick.streams.values())
        profiles = self._setting.profiles().values()
        width = max((p.bytes_per_tuple for p in profiles), default=0.0)
        coming = kept * width * tick.seconds / stretch.arrived_s
        return TickLoad(
            seconds=tick.seconds,
            arrived_s=stretch.arrived_s,
            overhead_s=min(costs.overhead_s if costs else 0.0, 0.5 * self._setting.target_s),
            tuples=rows_in,
            bytes_held=tick.backlog_bytes + tick.window_bytes + coming,
        )

    def _shares(self, course: Course) -> dict[str, float]:
        sheddable = self._setting.network.sheddable()
        model = self._decision.keep if self._decision is not None else {}
        are_shed = [s for s in sheddable if model.get(s, 1.0) < 1]
        shares = {}
        for stream in sheddable:
            share = model.get(stream, 1.0)
            if self._throttle.is_hard or not are_shed or stream in are_shed:
                share *= self._throttle.share
            opened = _OPENING * max(course.share(stream), _AJAR)
            shares[stream] = round(min(share, opened), 4)
        same = all(_is_same(shares[s], course.share(s)) for s in sheddable)
        return dict(course.keep) if same else {**course.keep, **shares}

    @property
    def _decision(self) -> Decision | None:
        return None if self._reoptimizer is None else self._reoptimizer.decision

    def _orders(self, course: Course) -> dict[str, tuple[str, ...]]:
        if self._decision is None:
            return dict(course.orders)
        chosen = {
            f"{name}.join": tuple(str(alias) for alias in d.chosen.order)
            for name, d in self._decision.queries.items()
            if len(d.chosen.problem.inputs) > 2 and d.chosen.problem.shares_with is None
        }
        return {**course.orders, **chosen}

    def _order(self, problem: JoinProblem, course: Course) -> Sequence[str]:
        name = self._setting.network.running(f"{problem.query}.join")
        join = self._setting.network.operators.get(name)
        if not isinstance(join, WindowJoin):
            return problem.aliases
        return course.orders.get(name) or [join.sides[i].alias for i in connected_order(join)]

    def _figures(self, tick: TickCommitted, costs: TickCosts | None) -> dict[str, float]:
        figures = {
            **({} if costs is None else asdict(costs)),
            "tick_s": tick.seconds,
            "target_s": self._setting.target_s,
            "throttle": self._throttle.share,
            "handled_seconds": self._costs.figures.handled_s,
            **{f"rate of {s}": rate for s, rate in self._rates.tuples_per_own_s.items()},
        }
        decision = self._decision
        if decision is not None and self._reoptimizer is not None:
            chosen = [d.chosen for d in decision.queries.values()]
            figures["capacity"] = self._reoptimizer.capacity
            figures["load"] = sum(c.cost_per_s for c in chosen) / self._reoptimizer.capacity
            figures["output_per_s"] = sum(c.output_per_s for c in chosen)
            for c in chosen:
                for p in c.problem.predicates:
                    figures[f"selectivity of {p.text}"] = p.selectivity
        return figures


def _is_same(new: float, old: float) -> bool:
    return new == old or (max(new, old) < 1 and abs(new - old) <= _SAME * old)

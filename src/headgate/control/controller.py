"""The adaptive controller: join orders and drop boxes of the next tick, by a model and by feedback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from headgate.control.overrides import FixedController, has_orders
from headgate.control.throttle import Throttle, TickLoad
from headgate.model.event import Event, TickCommitted
from headgate.model.joins import WindowJoin, connected_order
from headgate.model.network import Network
from headgate.model.profile import TickCosts
from headgate.model.shedding import TickSettings
from headgate.planning.join_order.choose import (
    Decision,
    Reoptimizer,
    connected_plans,
    correct,
    plan_in_order,
    work_of,
)
from headgate.planning.join_order.plans import Plans
from headgate.planning.join_order.pose import problems_of
from headgate.planning.join_order.problem import JoinProblem
from headgate.planning.logical import LogicalPlan
from headgate.planning.statistics import LiveStatistics, Missing
from headgate.runtime.allowance import Allowance, first_rows
from headgate.runtime.drive import SettingsDecision
from headgate.statistics.estimators import DecayedRatio, ResultRatio
from headgate.statistics.profile_file import Measured
from headgate.statistics.store import Interval, StatisticsStore

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
# of the processors that ticks have used: whatever explains a few ticks best, they did that work
_LEAST_OF_USED = 0.5
# ticks shorter than this share of the target are mostly overhead, and show little of what there is to use
_TELLING = 0.5
# keep ratios that differ by less are the same
_SAME = 0.03
# boxes open by no more than this per tick: a ratio that is too large makes one tick that is much too long
_OPENING = 2.0
_AJAR = 0.05
_LEAST_ROWS = 100
# keep ratios below this apply to all streams, not only to those that the model would shed
_HARD = 0.5


def target_s(network: Network) -> float:
    """How long ticks may be for the latency bounds of queries that shed."""
    queries = network.queries.values()
    bounds = [q.latency_s for q in queries if q.overload == "shed" and q.latency_s is not None]
    return TICK_OF_BOUND * min(bounds) if bounds else _TARGET_S


@dataclass(frozen=True)
class ControlledRun:
    """A run as its controller sees it; ``is_live`` where tuples arrive whether they are read or not."""

    network: Network
    plans: Sequence[LogicalPlan]
    statistics: StatisticsStore
    memory_bytes: float
    is_live: bool
    processors: int = 1
    orders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Join orders fixed by hand, by operator."""

    @property
    def sheds(self) -> bool:
        return self.is_live and bool(self.network.sheddable())

    @property
    def target_s(self) -> float:
        return target_s(self.network)

    @property
    def has_choices(self) -> bool:
        """Whether there are drop boxes or join orders to choose."""
        return self.sheds or has_orders(self.network)


class AdaptiveController(FixedController):
    """Chooses join orders and drop boxes by the planner's model; corrects boxes by the length of ticks."""

    def __init__(self, run: ControlledRun) -> None:
        super().__init__()
        self._run = run
        self._statistics = run.statistics
        self._throttle = Throttle(run.target_s, _MEMORY_SHARE * run.memory_bytes)
        self._is_known = bool(run.statistics.known.profiles)
        self._most_rows = Allowance(first_rows(run.target_s), run.target_s, self._is_known)
        """Rows of all streams together that drop boxes may let into a tick."""
        self._share_that_fits = 1.0
        """How far boxes were closed for the rows that were expected of this tick."""
        self._reoptimizer: Reoptimizer | None = None
        self._expected: tuple[float, float] | None = None
        """Tuples that joins handle in a tick, and seconds that its other operators take."""
        self._results: dict[str, ResultRatio] = {}
        self._used_processors = DecayedRatio()
        """Processor seconds per second of ticks that are long enough to tell."""

    def first(self) -> TickSettings:
        return TickSettings(most_rows=round(self._most_rows.amount) if self._run.sheds else None)

    def wants_samples(self) -> bool:
        return self._ticks % _SAMPLE_EVERY == 0

    def __call__(self, event: Event) -> None:
        """Compare the expected work of a tick with its processor time, known once it is committed."""
        if not isinstance(event, TickCommitted):
            return
        sheddable = self._run.network.sheddable()
        counts = [counts for stream, counts in event.streams.items() if stream in sheddable]
        if event.busy_s > 0:
            kept = sum(c.usable - c.shed for c in counts)
            self._most_rows.add(kept, event.busy_s / self._run.processors)
        if event.seconds >= _TELLING * self._run.target_s:
            self._used_processors.add(event.busy_s, event.seconds)
        if self._expected and self._ticks > _COLD_TICKS:
            self._statistics.join_costs.add(*self._expected, event.busy_s)

    def decide(self, tick: TickCommitted, settings: TickSettings) -> SettingsDecision:
        self._ticks += 1
        most_rows = self._rows_that_fit(tick)
        interval = self._statistics.arrivals.latest
        if interval is None:
            return SettingsDecision(replace(settings, most_rows=most_rows))
        arrived = self._arrived(tick)
        self._expect_work(tick, interval, settings.closed_to(arrived))
        costs = self._statistics.tick_costs(_RECENT_TICKS)
        reason = self._adapt(self._load(tick, interval, costs, settings.share_that_fits(arrived)), costs)
        orders = self._orders(settings)
        # the first tick of a new order is also the one in which Java compiles it
        opening = _OPENING if orders == settings.orders else 1.0
        chosen = TickSettings(self._keep_ratios(settings, opening), settings.seed, orders, most_rows)
        # what arrives during this tick is the work of the next
        growth = tick.seconds / interval.arrived_s
        expected = {stream: round(growth * rows) for stream, rows in arrived.items()}
        self._share_that_fits = chosen.share_that_fits(expected)
        if self._share_that_fits < 1:
            reason = reason or f"{sum(expected.values()):,} rows are expected where {most_rows:,} fit"
        after = chosen.closed_to(expected)
        if all(_is_same(after.keep_ratio(s), settings.keep_ratio(s)) for s in expected):
            after = replace(after, keep=settings.keep)
        return SettingsDecision(after, reason or "there is room again", self._evidence(tick, costs))

    def _adapt(self, load: TickLoad, costs: TickCosts | None) -> str:
        """Adapt model and feedback to a tick; the reason, if there is one to change settings."""
        reason = self._reoptimize(costs) if self._ticks > _COLD_TICKS else ""
        # where nothing is known of costs, the first ticks are short, and take as long as Java's compiler does
        if not self._run.sheds or not (self._is_known or self._ticks > _COLD_TICKS):
            return reason
        overload = self._throttle.add(load)
        if reason and self._decision is not None and not self._decision.is_feasible:
            # let new keep ratios of the model take effect before correcting them
            self._throttle.keep_ratio = 1.0
        return reason or overload

    def _rows_that_fit(self, tick: TickCommitted) -> int | None:
        """Rows that drop boxes may let into the next tick, within its length and the memory budget."""
        if not self._run.sheds:
            return None
        left = _MEMORY_SHARE * self._run.memory_bytes - tick.backlog_bytes - tick.window_bytes
        fit = min(max(self._most_rows.amount, self._planned_rows()), left / max(1.0, self._bytes_per_tuple))
        return max(_LEAST_ROWS, round(fit))

    def _planned_rows(self) -> float:
        """Rows that the model lets into a tick of the length that it should have, if it sheds any.

        The allowance then only guards against more than that: which streams are shed matters to the
        results, and it would close all drop boxes alike.
        """
        decision, arrivals = self._decision, self._statistics.arrivals
        if decision is None or decision.is_feasible or self._ticks <= _COLD_TICKS:
            return 0.0
        rates, speed = arrivals.tuples_per_own_s, arrivals.speed.value
        kept_per_s = sum(rates.get(s, 0.0) * decision.keep.get(s, 1.0) for s in self._run.network.sheddable())
        return kept_per_s * speed * self._run.target_s

    def _arrived(self, tick: TickCommitted) -> dict[str, int]:
        """Rows of a tick before its drop boxes."""
        sheddable = self._run.network.sheddable()
        return {stream: counts.rows_in for stream, counts in tick.streams.items() if stream in sheddable}

    @property
    def _bytes_per_tuple(self) -> float:
        return max((p.bytes_per_tuple for p in self._statistics.profiles.values()), default=0.0)

    def _expect_work(self, tick: TickCommitted, interval: Interval, settings: TickSettings) -> None:
        """Note the work expected of this tick, and how its results compare with those expected."""
        self._expected = None
        problems = self._problems(interval.tuples_per_own_s)
        if problems is None:
            return
        works = [work_of(p, self._order(p, settings), settings.keep) for p in problems]
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

    def _counted(self, problem: JoinProblem, tick: TickCommitted) -> str | None:
        """The query whose results are those of this problem alone; None if the tick does not count them."""
        query = problem.query if problem.query in tick.queries else problem.query.split(".")[0]
        is_counted = query in tick.queries and len(self._run.network.queries[query].outputs) == 1
        return query if is_counted else None

    def _problems(self, tuples_per_own_s: Mapping[str, float]) -> list[JoinProblem] | None:
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

    def _reoptimize(self, costs: TickCosts | None) -> str:
        """Choose anew if the statistics call for it; the reason, if there was one."""
        problems = self._problems(self._statistics.arrivals.tuples_per_own_s)
        if problems is None:
            return ""
        sheddable = self._run.network.sheddable()
        shedding = [p for p in problems if set(p.streams) <= sheddable] if self._run.sheds else problems
        others = [p for p in problems if p not in shedding]
        capacity = self._capacity(costs) if self._run.sheds else _ENOUGH
        for work in (work_of(p, p.aliases, {}) for p in others):
            capacity -= work.handled_per_s * self._statistics.join_costs.handled_s + work.other_s_per_s
        capacity = max(capacity, _LEAST_CAPACITY)
        if self._reoptimizer is None:
            self._reoptimizer = Reoptimizer(shedding, capacity, plans_of=self._plans_of)
            return "first statistics"
        self._reoptimizer.capacity = capacity
        return self._reoptimizer.look(shedding)

    def _plans_of(self, problem: JoinProblem) -> Plans:
        order = self._run.orders.get(f"{problem.query}.join")
        return connected_plans(problem) if order is None else plan_in_order(problem, order)

    def _capacity(self, costs: TickCosts | None) -> float:
        """Processor seconds for tuples per second of the streams' own time, beside what ticks cost."""
        arrivals, used = self._statistics.arrivals, self._used_processors.value
        speed = arrivals.speed.value
        if costs is None or costs.work_s <= 0:
            # what ticks cost beside their tuples is not known yet
            return _HEAD_ROOM * (used or self._run.processors) / speed
        empty_s = costs.overhead_s + costs.work_s * self._statistics.join_costs.fixed_s
        free = 1 - empty_s / self._run.target_s - costs.intake_s * arrivals.tuples_per_s.value
        # no tick can use more processors than there are, whatever explains a few of them best
        work_s = max(costs.work_s, 1 / self._run.processors)
        return max(_LEAST_CAPACITY, _LEAST_OF_USED * used / speed, _HEAD_ROOM * free / (work_s * speed))

    def _load(
        self, tick: TickCommitted, interval: Interval, costs: TickCosts | None, share: float
    ) -> TickLoad:
        total = tick.totals
        kept = total.rows_in - total.shed
        next_bytes = kept * self._bytes_per_tuple * tick.seconds / interval.arrived_s
        return TickLoad(
            seconds=tick.seconds,
            arrived_s=interval.arrived_s,
            overhead_s=min(costs.overhead_s if costs else 0.0, 0.5 * self._run.target_s),
            tuples=total.rows_in,
            bytes_held=tick.backlog_bytes + tick.window_bytes + next_bytes,
            share=self._share_that_fits * share,
        )

    def _keep_ratios(self, settings: TickSettings, opening: float) -> dict[str, float]:
        """Those of the model, corrected by feedback; at most ``opening`` times those of the last tick."""
        sheddable = self._run.network.sheddable()
        model = self._decision.keep if self._decision is not None else {}
        are_shed = [s for s in sheddable if model.get(s, 1.0) < 1]
        ratios = {}
        for stream in sheddable:
            ratio = model.get(stream, 1.0)
            if self._throttle.keep_ratio < _HARD or not are_shed or stream in are_shed:
                ratio *= self._throttle.keep_ratio
            opened = opening * max(settings.keep_ratio(stream), _AJAR)
            ratios[stream] = round(min(ratio, opened), 4)
        return {**settings.keep, **ratios}

    @property
    def _decision(self) -> Decision | None:
        return None if self._reoptimizer is None else self._reoptimizer.decision

    def _orders(self, settings: TickSettings) -> dict[str, tuple[str, ...]]:
        if self._decision is None:
            return dict(settings.orders)
        chosen = {
            f"{name}.join": tuple(str(alias) for alias in d.chosen.order)
            for name, d in self._decision.queries.items()
            if len(d.chosen.problem.inputs) > 2 and d.chosen.problem.shares_with is None
        }
        return {**settings.orders, **chosen}

    def _order(self, problem: JoinProblem, settings: TickSettings) -> Sequence[str]:
        name = self._run.network.running(f"{problem.query}.join")
        join = self._run.network.operators.get(name)
        if not isinstance(join, WindowJoin):
            return problem.aliases
        return settings.orders.get(name) or [join.sides[i].alias for i in connected_order(join)]

    def _evidence(self, tick: TickCommitted, costs: TickCosts | None) -> dict[str, float]:
        found = {
            **({} if costs is None else asdict(costs)),
            "tick_s": tick.seconds,
            "target_s": self._run.target_s,
            "throttle": self._throttle.keep_ratio,
            "handled_seconds": self._statistics.join_costs.handled_s,
            "operators assumed": len(self._statistics.operators.assumed),
            **{f"rate of {s}": rate for s, rate in self._statistics.arrivals.tuples_per_own_s.items()},
        }
        decision = self._decision
        if decision is not None and self._reoptimizer is not None:
            chosen = [d.chosen for d in decision.queries.values()]
            found["capacity"] = self._reoptimizer.capacity
            found["load"] = sum(c.cost_per_s for c in chosen) / self._reoptimizer.capacity
            found["output_per_s"] = sum(c.output_per_s for c in chosen)
            for c in chosen:
                for p in c.problem.predicates:
                    found[f"selectivity of {p.text}"] = p.selectivity
        return found


def _is_same(new: float, old: float) -> bool:
    return new == old or (max(new, old) < 1 and abs(new - old) <= _SAME * old)

"""The adaptive controller: join orders and drop boxes of the next tick, by a model and by feedback."""

from __future__ import annotations

from dataclasses import asdict, replace
from math import inf

from headgate.control.overrides import FixedController
from headgate.control.throttle import Throttle, TickLoad
from headgate.control.work_model import COLD_TICKS, ControlledRun, WorkModel
from headgate.model.event import Event, TickCommitted
from headgate.model.join_order import JoinOrder
from headgate.model.profile import TickCosts
from headgate.model.shedding import TickSettings
from headgate.planning.join_order.choose import Decision, Reoptimizer, plan_in_order, plans_on_spark
from headgate.planning.join_order.plans import Plans
from headgate.planning.join_order.problem import JoinProblem
from headgate.runtime.allowance import Allowance, first_rows
from headgate.runtime.drive import SettingsDecision
from headgate.statistics.store import Interval

_SAMPLE_EVERY = 2
# of the memory budget: tuples differ in width
_MEMORY_SHARE = 0.8
_ENOUGH = 1e9
# keep ratios that differ by less are the same
_SAME = 0.03
# boxes open by no more than this per tick: a ratio that is too large makes one tick that is much too long
_OPENING = 2.0
_AJAR = 0.05
_LEAST_ROWS = 100
# keep ratios below this apply to all streams, not only to those that the model would shed
_HARD = 0.5


class AdaptiveController(FixedController):
    """Chooses join orders and drop boxes by the planner's model; corrects boxes by the length of ticks."""

    def __init__(self, run: ControlledRun) -> None:
        super().__init__()
        self._run = run
        self._statistics = run.statistics
        self._model = WorkModel(run)
        self._throttle = Throttle(run.target_s)
        self._is_known = bool(run.statistics.known.profiles)
        self._most_rows = Allowance(first_rows(run.target_s), run.target_s, self._is_known)
        """Rows of all streams together that drop boxes may let into a tick."""
        self._share_that_fits = 1.0
        """How far boxes were closed for the rows that were expected of this tick."""
        self._reoptimizer: Reoptimizer | None = None
        self._orders_are_new = self._next_orders_are_new = False
        """Whether Java compiles the joins of this tick, or of the next one."""

    def first(self) -> TickSettings:
        if self._run.keeps_limit:
            return TickSettings(most_rows=self._rows_with_room(0.0))
        rows = min(self._most_rows.amount, self._rows_in_memory(0.0))
        return TickSettings(most_rows=round(rows) if self._run.sheds else None)

    def wants_samples(self) -> bool:
        return self._ticks % _SAMPLE_EVERY == 0

    def __call__(self, event: Event) -> None:
        """Learn from the processor time of a tick, known once it is committed."""
        if not isinstance(event, TickCommitted):
            return
        sheddable = self._run.network.sheddable()
        counts = [counts for stream, counts in event.streams.items() if stream in sheddable]
        if event.busy_s > 0 and not self._orders_are_new:
            kept = sum(c.usable - c.shed for c in counts)
            self._most_rows.add(kept, event.busy_s / self._run.processors)
        self._model.learn(event, self._ticks > COLD_TICKS and not self._orders_are_new)

    def decide(self, tick: TickCommitted, settings: TickSettings) -> SettingsDecision:
        self._ticks += 1
        self._orders_are_new, self._next_orders_are_new = self._next_orders_are_new, False
        most_rows = self._rows_that_fit(tick)
        interval = self._statistics.arrivals.latest
        if interval is None:
            return SettingsDecision(replace(settings, most_rows=most_rows))
        arrived = self._arrived(tick)
        self._model.expect(tick, interval, settings.closed_to(arrived))
        costs = self._model.tick_costs()
        reason = self._adapt(self._load(tick, interval, costs, settings.share_that_fits(arrived)), costs)
        orders = self._orders(settings)
        self._next_orders_are_new = orders != settings.orders
        tables = self._statistics.joins.key_tables or settings.key_tables
        chosen = TickSettings(self._keep_ratios(settings), settings.seed, orders, most_rows, dict(tables))
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
        reason = self._reoptimize(costs) if self._is_settled else ""
        # where nothing is known of costs, the first ticks are short, and take as long as Java's compiler does
        if not self._run.sheds or not (self._is_known or self._is_settled):
            return reason
        overload = self._throttle.add(load)
        if reason and self._decision is not None and not self._decision.is_feasible:
            # let new keep ratios of the model take effect before correcting them
            self._throttle.keep_ratio = 1.0
        return reason or overload

    @property
    def _is_settled(self) -> bool:
        """Whether the model can be relied on: once Java is warm, or from the beginning if all is known."""
        return self._model.is_measured or self._ticks > COLD_TICKS

    def _rows_that_fit(self, tick: TickCommitted) -> int | None:
        """Rows that drop boxes may let into the next tick, within its length and the memory budget."""
        if self._run.keeps_limit:
            return self._rows_with_room(tick.backlog_bytes)
        if not self._run.sheds:
            return None
        in_time = max(self._most_rows.amount, self._planned_rows())
        if self._decision is None and self._is_known:
            # boxes close alike until there are rates to decide by
            in_time = min(in_time, self._model.rows_that_fit(self._arrived(tick)))
        return round(min(in_time, self._rows_in_memory(tick.backlog_bytes + tick.window_bytes)))

    def _rows_in_memory(self, held_bytes: float) -> float:
        """Rows that the memory budget has room for, beside what queues and windows hold."""
        return max(_LEAST_ROWS, self._rows_of(_MEMORY_SHARE * self._run.memory_bytes - held_bytes))

    def _rows_with_room(self, queued_bytes: float) -> int:
        """Rows for which the strategy has room; what does not fit is shed before it enters a queue."""
        assert self._run.room_bytes is not None
        return round(max(_LEAST_ROWS, self._rows_of(_MEMORY_SHARE * self._run.room_bytes(queued_bytes))))

    def _rows_of(self, size_bytes: float) -> float:
        width = max((p.bytes_per_tuple for p in self._statistics.profiles.values()), default=0.0)
        return size_bytes / max(1.0, width)

    def _planned_rows(self) -> float:
        """Rows that the model lets into a tick of the length that it should have, if it sheds any.

        The allowance then only guards against more than that: which streams are shed matters to the
        results, and it would close all drop boxes alike.
        """
        decision, arrivals = self._decision, self._statistics.arrivals
        if decision is None or decision.is_feasible:
            return 0.0
        rates, speed = arrivals.tuples_per_own_s, arrivals.speed.value
        kept_per_s = sum(rates.get(s, 0.0) * decision.keep.get(s, 1.0) for s in self._run.network.sheddable())
        return kept_per_s * speed * self._run.target_s

    def _arrived(self, tick: TickCommitted) -> dict[str, int]:
        """Rows of a tick before its drop boxes."""
        sheddable = self._run.network.sheddable()
        return {stream: counts.rows_in for stream, counts in tick.streams.items() if stream in sheddable}

    def _reoptimize(self, costs: TickCosts | None) -> str:
        """Choose anew if the statistics call for it; the reason, if there was one."""
        problems = self._model.problems(self._statistics.arrivals.tuples_per_own_s)
        if problems is None:
            return ""
        sheddable = self._run.network.sheddable()
        shedding = [p for p in problems if set(p.streams) <= sheddable] if self._run.sheds else problems
        others = [p for p in problems if p not in shedding]
        capacity = self._model.left_for_shedding(others, costs) if self._run.sheds else _ENOUGH
        if self._reoptimizer is None:
            self._reoptimizer = Reoptimizer(shedding, capacity, plans_of=self._plans_of)
            return "first statistics"
        self._reoptimizer.capacity = capacity
        return self._reoptimizer.look(shedding)

    def _plans_of(self, problem: JoinProblem) -> Plans:
        order = self._run.orders.get(f"{problem.query}.join")
        return plans_on_spark(problem) if order is None else plan_in_order(problem, order)

    def _load(
        self, tick: TickCommitted, interval: Interval, costs: TickCosts | None, share: float
    ) -> TickLoad:
        return TickLoad(
            seconds=tick.seconds,
            arrived_s=interval.arrived_s,
            overhead_s=min(costs.overhead_s if costs else 0.0, 0.5 * self._run.target_s),
            tuples=tick.totals.rows_in,
            share=self._share_that_fits * share,
        )

    def _keep_ratios(self, settings: TickSettings) -> dict[str, float]:
        """Those of the model, corrected by feedback; boxes open in steps unless all costs were measured."""
        sheddable = self._run.network.sheddable()
        model = self._decision.keep if self._decision is not None else {}
        are_shed = [s for s in sheddable if model.get(s, 1.0) < 1]
        ratios = {}
        for stream in sheddable:
            ratio = model.get(stream, 1.0)
            if self._throttle.keep_ratio < _HARD or not are_shed or stream in are_shed:
                ratio *= self._throttle.keep_ratio
            opened = self._opening * max(settings.keep_ratio(stream), _AJAR)
            ratios[stream] = round(min(ratio, opened), 4)
        return {**settings.keep, **ratios}

    @property
    def _opening(self) -> float:
        """How many times as far as before a box may open."""
        if self._model.is_measured:
            return inf
        # the first tick of a new order is also the one in which Java compiles it
        return 1.0 if self._next_orders_are_new else _OPENING

    @property
    def _decision(self) -> Decision | None:
        return None if self._reoptimizer is None else self._reoptimizer.decision

    def _orders(self, settings: TickSettings) -> dict[str, JoinOrder]:
        if self._decision is None:
            return dict(settings.orders)
        chosen = {
            f"{name}.join": d.chosen.order
            for name, d in self._decision.queries.items()
            if len(d.chosen.problem.inputs) > 2 and d.chosen.problem.shares_with is None
        }
        return {**settings.orders, **chosen}

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

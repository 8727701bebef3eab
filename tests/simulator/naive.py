"""A second simulator, as naive as can be: one list of everything, fractions for time, no cleverness.

Pages only. It looks at all entries at every instant, and serves by a fixed number for every operator, least
first; then the oldest tuple.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from headgate.model.operator import is_ordered
from headgate.model.operator_inputs import StreamInput
from headgate.simulator import OnePerOperator, Pool, Scenario


def exact(number: float) -> Fraction:
    return Fraction(str(number))


@dataclass
class Thing:
    operator: str
    side: int
    stamp: tuple[Fraction, int, int]
    amount: Fraction
    width: Fraction
    left: Fraction
    serving: bool = False
    since: int = 0


class Naive:
    def __init__(self, scenario: Scenario, order: Mapping[str, int]) -> None:
        self.scenario, self.order = scenario, order
        self.operators = scenario.network.operators
        self.now = Fraction(-1)
        self.things: list[Thing] = []
        self.started = 0
        self.sizes: dict[Fraction, Fraction] = {}
        self.outputs: list[tuple[Fraction, Fraction, Fraction]] = []
        self.coming = sorted(
            (exact(time), number, place)
            for number, stream in enumerate(scenario.network.streams)
            for place, time in enumerate(scenario.arrivals_s[stream].tolist())
        )
        self.to_come = list(self.coming)

    def run(self) -> Naive:
        while (instant := self.next_instant()) is not None:
            gone = instant - self.now
            self.now = instant
            for thing in self.things:
                thing.left -= gone if thing.serving else 0
            for thing in sorted((t for t in self.things if t.serving and t.left == 0), key=lambda t: t.since):
                self.complete(thing)
            while self.to_come and self.to_come[0][0] == instant:
                self.arrive(self.to_come.pop(0))
            if self.is_boundary(instant):
                for thing in self.things:
                    thing.serving = False
            self.give_work()
            if self.sizes or self.things:
                self.sizes[instant] = sum((t.amount * t.width for t in self.things), Fraction(0))
        return self

    def unit(self) -> Fraction | None:
        unit_s = self.scenario.time_unit_s
        return None if unit_s is None else exact(unit_s)

    def is_boundary(self, instant: Fraction) -> bool:
        unit = self.unit()
        return unit is not None and instant % unit == 0

    def next_instant(self) -> Fraction | None:
        times = [self.now + t.left for t in self.things if t.serving]
        times += [self.to_come[0][0]] if self.to_come else []
        unit = self.unit()
        if times and unit is not None and self.things:
            times.append((self.now // unit + 1) * unit)
        return min(times, default=None)

    def put(self, name: str, is_stream: bool, stamp: object, amount: Fraction, width: Fraction) -> None:
        for reader, operator in self.operators.items():
            for side, source in enumerate(operator.inputs):
                found = source.stream if isinstance(source, StreamInput) else source.operator
                if found == name and isinstance(source, StreamInput) == is_stream:
                    left = exact(self.scenario.behaviours[reader].seconds) * amount
                    self.things.append(Thing(reader, side, stamp, amount, width, left))  # type: ignore[arg-type]

    def arrive(self, stamp: tuple[Fraction, int, int]) -> None:
        self.put(list(self.scenario.network.streams)[stamp[1]], True, stamp, Fraction(1), Fraction(1))

    def complete(self, thing: Thing) -> None:
        self.things.remove(thing)
        behaviour = self.scenario.behaviours[thing.operator]
        amount = thing.amount * exact(behaviour.selectivity)
        for query in self.scenario.network.queries.values():
            if thing.operator in query.outputs:
                self.outputs.append((self.now, amount, self.now - thing.stamp[0]))
        if amount > 0:
            width = thing.width * exact(behaviour.size_ratio)
            self.put(thing.operator, False, thing.stamp, amount, width)

    def below(self, name: str, side: int) -> set[str]:
        """Operators and streams (marked) that lead to a side."""
        source = self.operators[name].inputs[side]
        if isinstance(source, StreamInput):
            return {f"stream {source.stream}"}
        found = {source.operator}
        for other in range(len(self.operators[source.operator].inputs)):
            found |= self.below(source.operator, other)
        return found

    def may_run(self, thing: Thing) -> bool:
        queue = [t for t in self.things if t.operator == thing.operator]
        if any((t.stamp, t.side) < (thing.stamp, thing.side) and not t.serving for t in queue):
            return False
        if not is_ordered(self.operators[thing.operator]) or len(self.operators[thing.operator].inputs) < 2:
            return True
        if any(t.serving for t in queue):
            return False
        for side in range(len(self.operators[thing.operator].inputs)):
            if side != thing.side and not self.is_past(thing, side, self.below(thing.operator, side)):
                return False
        return True

    def is_past(self, thing: Thing, side: int, below: set[str]) -> bool:
        if any(t.operator in below and (t.stamp, side) < (thing.stamp, thing.side) for t in self.things):
            return False
        for number, stream in enumerate(self.scenario.network.streams):
            if f"stream {stream}" in below:
                all_of_it = [stamp for stamp in self.coming if stamp[1] == number]
                still = [stamp for stamp in self.to_come if stamp[1] == number]
                arrived = all_of_it[: len(all_of_it) - len(still)]
                if still and (not arrived or arrived[-1] < thing.stamp):
                    return False
        return True

    def give_work(self) -> None:
        pool = self.scenario.processors
        while True:
            busy = [t for t in self.things if t.serving]
            if isinstance(pool, Pool) and len(busy) >= pool.processors:
                return
            ready = [t for t in self.things if not t.serving and self.may_run(t)]
            if isinstance(pool, OnePerOperator):
                ready = [t for t in ready if all(b.operator != t.operator for b in busy)]
            if not ready:
                return
            chosen = min(ready, key=lambda t: (self.order[t.operator], t.stamp, t.side))
            chosen.serving, chosen.since = True, self.started
            self.started += 1

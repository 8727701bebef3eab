"""Random streams, and random queries over them that mostly have results."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tests.oracle.brute_force import (
    SECOND,
    Aggregation,
    Call,
    Combination,
    Current,
    DerivedStream,
    Distinct,
    Emitted,
    Having,
    Limit,
    Predicate,
    Query,
    Relation,
    Select,
    Side,
    Stream,
    Tuple,
    Value,
    Window,
    evaluate,
    hopping,
    landmark,
    last,
    now,
    partitioned,
    rows,
    rows_every,
    sessions,
    sliding,
    tumbling,
    unbounded,
    until,
)

KEYS = (0, 1, 2, 3, None)
WORDS = ("ant", "bee", "cat")
# streams begin long after the epoch, and not at a boundary of any sliding window
BEGINNING = 1_700_000_003
# tuples of a derived stream
MOST_DERIVED = 80


@dataclass(frozen=True)
class World:
    """Streams, a stored relation, and queries over them."""

    streams: Sequence[Stream]
    """Those that are read from files."""
    derived: Sequence[DerivedStream]
    relation: Relation
    queries: Sequence[Query]
    timestamp_type: str


def random_world(
    rng: Random,
    number_of_queries: int,
    ties: bool = False,
    has_derived: bool = True,
    has_tables: bool = False,
) -> World:
    """All from one source of randomness; ``ties`` are equal timestamps within a stream."""
    timestamp_type = rng.choice(("BIGINT", "TIMESTAMP"))
    unit = SECOND if timestamp_type == "BIGINT" else rng.choice((SECOND, SECOND // 2))
    names = rng.sample(("north", "east", "south", "west"), rng.choice((2, 3, 3, 4)))
    streams = [
        _random_stream(rng, name, place, timestamp_type, unit, ties) for place, name in enumerate(names)
    ]
    labels = [{"k": rng.choice(KEYS), "label": rng.choice(WORDS)} for _ in range(rng.randint(3, 6))]
    relation = Relation("labels", labels)
    derived = random_chain(rng, streams, relation, unit, timestamp_type) if has_derived else []
    maker = QueryMaker(rng, [*streams, *derived], relation, unit, timestamp_type)
    others = number_of_queries // 4
    queries = [Query(f"q{i}", maker.branches(has_tables)) for i in range(number_of_queries - others)]
    twins = [twin(rng, query, f"q{len(queries) + i}") for i, query in enumerate(rng.sample(queries, others))]
    return World(streams, derived, relation, [*queries, *twins], timestamp_type)


def random_chain(
    rng: Random, streams: Sequence[Stream], relation: Relation, unit: int, timestamp_type: str
) -> list[DerivedStream]:
    """Derived streams with the columns of all others; each may read those before it."""
    found: list[DerivedStream] = []
    for number in range(rng.choice((1, 2, 2, 3))):
        maker = QueryMaker(rng, [*streams, *found], relation, unit, timestamp_type)
        results: list[tuple[Any, ...]] = []
        # enough for results, and few enough for joins of several streams
        while not 5 <= len(results) <= MOST_DERIVED:
            query = Query(f"d{number}", [maker.derivation() for _ in range(rng.choice((1, 1, 1, 2)))])
            results = sorted(evaluate(query).elements(), key=_nulls_first)
        tuples = []
        for ts, key, value, word in results:
            shown = ts // SECOND if timestamp_type == "BIGINT" else ts
            tuples.append(Tuple(ts, {"ts": shown, "k": key, "v": value, "s": word}))
        text = " UNION ALL ".join(branch.sql for branch in query.branches)
        for place, name in enumerate("kvs"):
            text = text.replace(f" AS c{place}", f" AS {name}")
        found.append(DerivedStream(query.name, len(streams) + number, tuples, sql=text))
    return found


def _nulls_first(result: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple((value is not None, value) for value in result)


def twin(rng: Random, query: Query, name: str) -> Query:
    """A query that does the same and shows something else: most of its work can be shared."""
    return Query(name, [_shown_otherwise(rng, branch) for branch in query.branches])


def _shown_otherwise(rng: Random, branch: Select | Aggregation) -> Select | Aggregation:
    where = rng.sample(branch.where, len(branch.where))
    if isinstance(branch, Aggregation):
        return replace(branch, where=where, having=None)
    return replace(branch, values=[*branch.values[1:], branch.values[0]], where=where)


def _random_stream(
    rng: Random, name: str, declared: int, timestamp_type: str, unit: int, ties: bool
) -> Stream:
    ts, tuples = BEGINNING * SECOND + rng.randint(0, 5) * unit, []
    for _ in range(rng.randint(10, 60)):
        tuples.append(_random_tuple(rng, ts, timestamp_type))
        gap = rng.randint(10, 30) if rng.random() < 0.03 else rng.randint(0 if ties else 1, 4)
        ts += gap * unit
    watermark = rng.choice((0, 0, 3, 6)) * unit
    # no tuple can be overtaken by more than the watermark
    tuples.sort(key=lambda t: t.ts + rng.randint(0, watermark))
    for _ in range(rng.choice((0, 0, 2))):
        place = rng.randrange(len(tuples))
        late = tuples[place].ts - watermark - rng.randint(0, 20) * unit
        if ties or late not in {t.ts for t in tuples}:
            tuples.insert(rng.randint(place, len(tuples)), _random_tuple(rng, late, timestamp_type))
    return Stream(name, declared, tuples, watermark)


def _random_tuple(rng: Random, ts: int, timestamp_type: str) -> Tuple:
    shown = ts // SECOND if timestamp_type == "BIGINT" else ts
    value = None if rng.random() < 0.1 else rng.randint(0, 9)
    word = None if rng.random() < 0.1 else rng.choice(WORDS)
    return Tuple(ts, {"ts": shown, "k": rng.choice(KEYS), "v": value, "s": word})


class QueryMaker:
    """Makes queries of all shapes over some streams."""

    def __init__(
        self,
        rng: Random,
        streams: Sequence[Stream],
        relation: Relation,
        unit: int,
        timestamp_type: str = "TIMESTAMP",
    ) -> None:
        self._rng = rng
        self._timestamp_type = timestamp_type
        self._streams = streams
        self._relation = relation
        self._unit = unit

    def branches(self, has_tables: bool = False) -> list[Select | Aggregation]:
        """The branches of one query."""
        shapes: list[tuple[Callable[[], Select | Aggregation], int]] = [
            (self.filter, 3),
            (self.join, 8),
            (self.self_join, 2),
            (self.relation_join, 2),
            (self.outer_join, 5),
            (self.chain, 3 if self._timestamp_type == "TIMESTAMP" else 0),
            (self.aggregation, 7),
            (self.distinct, 2),
            (self.emitted, 2),
            (self.current, 3 if has_tables else 0),
        ]
        makers, weights = zip(*shapes, strict=True)
        if self._rng.random() < 0.1:
            return [self.filter(2) for _ in range(self._rng.randint(2, 3))]
        if self._rng.random() < 0.06:
            return [self._rng.choice((self.wide, lambda: self.filter(3)))() for _ in range(2)]
        return [self._rng.choices(makers, weights)[0]()]

    def derivation(self) -> Select | Aggregation:
        """A query whose columns are key, value and word."""
        rng = self._rng
        shapes = (self.join, self.outer_join, self._plain, self._plain, self._counts, self._counts)
        found = rng.choice(shapes)()
        if isinstance(found, Aggregation):
            return found
        shown = [side for side in found.sides if side.join not in ("SEMI", "ANTI")]
        first, last = shown[0].alias, shown[-1].alias
        return replace(found, values=[column(first, "k"), column(last, "v"), column(first, "s")])

    def _plain(self) -> Select:
        return Select([Side(self._rng.choice(self._streams), "a")], [], self._conditions("a", most=2))

    def _counts(self) -> Aggregation:
        """By key; timestamps stay whole multiples of the unit."""
        rng, unit = self._rng, self._unit
        step = rng.randint(1, 6) * unit
        window = rng.choice((tumbling(step), hopping(step * rng.randint(1, 3), step), sessions(step)))
        calls = [rng.choice((Call("COUNT"), Call("MAX", column("a", "v")))), Call("MIN", column("a", "s"))]
        side = Side(rng.choice(self._streams), "a", window)
        return Aggregation(side, [column("a", "k")], calls, self._conditions("a", most=1))

    def filter(self, columns: int | None = None) -> Select:
        """One stream, with or without conditions."""
        side = Side(
            self._rng.choice(self._streams), "a", self._rng.choice((None, None, rows(3), unbounded()))
        )
        width = columns or self._rng.randint(1, 4)
        values = [column("a", name) for name in ("v", "s", "k", "ts")[:width]]
        return Select([side], values, self._conditions("a", most=2))

    def emitted(self) -> Emitted:
        """Tuples that leave a window, or all of it at times."""
        rng, unit = self._rng, self._unit
        word, length = rng.choice(("DSTREAM", "RSTREAM")), rng.randint(1, 12) * unit
        window = rng.choice((last(length), last(length), tumbling(length)))
        every = rng.randint(1, 8) * unit if word == "RSTREAM" and window.slide is None else None
        side = Side(rng.choice(self._streams), "a", window)
        values = [column("a", name) for name in ("v", "s", "k")[: rng.randint(1, 3)]]
        return Emitted([side], values, self._conditions("a", most=2), word, every)

    def wide(self) -> Select:
        """A join with as many columns as a filter may have."""
        found = self._join(self._rng.sample(self._streams, 2))
        return Select(found.sides, [column("t0", "v"), column("t1", "s"), column("t1", "k")], found.where)

    def join(self) -> Select:
        """Two to four streams."""
        number = self._rng.choice((2, 2, 2, 3, 3, 4))
        return self._join(self._rng.sample(self._streams, min(number, len(self._streams))))

    def self_join(self) -> Select:
        """One stream under two aliases, now and then beside another."""
        streams = [self._rng.choice(self._streams)] * 2
        if self._rng.random() < 0.3:
            streams.append(self._rng.choice(self._streams))
        self._rng.shuffle(streams)
        return self._join(streams)

    def relation_join(self) -> Select:
        """One or two streams and the stored relation."""
        number = self._rng.choice((1, 2))
        if number == 1:
            found = Select(
                [Side(self._rng.choice(self._streams), "t0")], [column("t0", "v"), column("t0", "s")]
            )
        else:
            found = self._join(self._rng.sample(self._streams, 2))
        sides = list(found.sides)
        kind = self._rng.choice(("", "", "LEFT", "SEMI", "ANTI"))
        if kind:
            outer = Side(self._relation, "r", join=kind, on=compare("t0", "k", "=", "r", "k"))
            if kind != "LEFT" and self._rng.random() < 0.5:
                inside = (constant("r", "label", "<>", self._rng.choice(WORDS)),)
                outer = self._tested(outer, self._rng.choice(((), inside)))
            shown = [column("r", "label")] if kind == "LEFT" else []
            conditions = [*found.where, *self._conditions("t0", most=1)]
            return Select([*sides, outer], [*found.values, *shown], conditions)
        sides.insert(self._rng.randint(0, len(sides)), Side(self._relation, "r"))
        where = [*found.where, compare("t0", "k", "=", "r", "k"), *self._conditions("t0", most=1)]
        if self._rng.random() < 0.2:
            where.append(constant("r", "label", "<>", "bee"))
        return Select(sides, [*found.values, column("r", "label")], where)

    def outer_join(self) -> Select:
        """Two streams, of which tuples without a match count too."""
        rng = self._rng
        one, two = rng.choice(self._streams), rng.choice(self._streams)
        kind = rng.choice(("LEFT", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"))
        sides = [Side(one, "t0"), Side(two, "t1", join=kind)]
        on = self._equality(["t0"], "t1") or [compare("t0", "k", "=", "t1", "k")]
        on += [*self._conditions("t1", most=1, often=0.3), *self._conditions("t0", most=1, often=0.2)]
        if rng.random() < 0.3:
            sides, near = self._near(sides)
            on.append(near)
        else:
            keeps = (kind != "RIGHT", kind in ("RIGHT", "FULL"))
            sides = [
                replace(side, window=self._outer_window() if kept else self._join_window(small=False))
                for side, kept in zip(sides, keeps, strict=True)
            ]
        sides[1] = replace(sides[1], on=all_of(on))
        if kind in ("SEMI", "ANTI") and sides[1].stays is None and rng.random() < 0.4:
            sides[1] = self._tested(sides[1], self._conditions("t1", most=1, often=0.5))
        shown = ("t0",) if kind in ("SEMI", "ANTI") else ("t0", "t1")
        where = [p for alias in shown for p in self._conditions(alias, most=1, often=0.2)]
        values = [column(alias, name) for alias in shown for name in rng.sample(("ts", "k", "v", "s"), 2)]
        return Select(sides, values, where)

    def chain(self) -> Select:
        """Three streams that tumble alike, of which tuples without a match count too."""
        rng = self._rng
        window = tumbling(rng.randint(2, 12) * self._unit)
        first = rng.choice(("INNER", "LEFT", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"))
        # what an inner join leaves out, no later one can keep
        kept = () if first == "INNER" else ("INNER", "RIGHT", "FULL")
        sides, shown = [Side(rng.choice(self._streams), "t0", window)], ["t0"]
        for alias, kind in (("t1", first), ("t2", rng.choice(("LEFT", "SEMI", "ANTI", *kept)))):
            on = self._equality(shown, alias) or [compare(shown[-1], "k", "=", alias, "k")]
            on += self._conditions(alias, most=1, often=0.3)
            if kind != "INNER":
                on += self._conditions(rng.choice(shown), most=1, often=0.2)
            sides.append(Side(rng.choice(self._streams), alias, window, kind, all_of(on)))
            shown += [] if kind in ("SEMI", "ANTI") else [alias]
        where = [p for alias in shown for p in self._conditions(alias, most=1, often=0.2)]
        values = [column(alias, name) for alias in shown for name in rng.sample(("ts", "k", "v", "s"), 2)]
        return Select(sides, values, where)

    def current(self) -> Select | Aggregation:
        """The current rows or groups of a window by rows, of a stream of different timestamps."""
        rng = self._rng
        streams = [s for s in self._streams if len({t.ts for t in s.on_time()}) == len(s.on_time())]
        if not streams:
            return self.filter()
        by_key = partitioned(rng.choice(("k", "s")), rng.randint(1, 4))
        window = rng.choice((rows(rng.randint(1, 12)), by_key))
        side = Side(rng.choice(streams), "a", window)
        keys = rng.sample((column("a", "k"), column("a", "s"), remainder("a", "v", 3)), rng.choice((1, 2)))
        calls = rng.sample(CALLS, rng.choice((0, 1, 2, 3)))
        having = above(calls[0], 1) if calls and calls[0].function == "COUNT" and rng.random() < 0.3 else None
        return Current(side, keys, calls, self._conditions("a", most=2, often=0.4), having)

    def _tested(self, side: Side, inside: Sequence[Predicate]) -> Side:
        """A semi or anti join with equal keys, written as a subquery in WHERE."""
        negated, alias = "NOT " if side.join == "ANTI" else "", side.alias
        equal = compare("t0", "k", "=", alias, "k")
        if self._rng.random() < 0.5:
            both = all_of([equal, *inside])
            condition = f"{negated}EXISTS (SELECT 1 FROM {side.sql} WHERE {both.sql})"
            return replace(side, condition=condition, on=both)
        where = f" WHERE {all_of(inside).sql}" if inside else ""
        condition = f"t0.k {negated}IN (SELECT {alias}.k FROM {side.sql}{where})"
        # NOT IN is true only if all comparisons are false
        matches = not_false(equal) if negated else equal
        return replace(side, condition=condition, on=all_of([matches, *inside]))

    def _join(self, streams: Sequence[Stream]) -> Select:
        aliases = [f"t{i}" for i in range(len(streams))]
        equalities = [p for i in range(1, len(aliases)) for p in self._equality(aliases[:i], aliases[i])]
        small = len(streams) > 3 or not equalities
        sides = [Side(s, a, self._join_window(small)) for s, a in zip(streams, aliases, strict=True)]
        where = [*equalities, *(p for a in aliases for p in self._conditions(a, most=1, often=0.2))]
        if self._rng.random() < 0.3 or not equalities:
            where += self._residual(aliases)
        self._rng.shuffle(where)
        values = [column(a, name) for a in aliases for name in self._rng.sample(("ts", "k", "v", "s"), 2)]
        return Select(sides, values, where)

    def _equality(self, earlier: Sequence[str], alias: str) -> list[Predicate]:
        partner = self._rng.choice(earlier)
        draw = self._rng.random()
        if draw < 0.75:
            return [compare(partner, "k", "=", alias, "k")]
        if draw < 0.83:
            return [compare(alias, "s", "=", partner, "s"), compare(partner, "k", "=", alias, "k")]
        if draw < 0.9:
            return [compare(partner, "v", "=", alias, "v")]
        if draw < 0.93:
            return [same(partner, "k", alias, "k")]
        return []

    def _residual(self, aliases: Sequence[str]) -> list[Predicate]:
        left, right = self._rng.sample(aliases, 2)
        return [
            self._rng.choice(
                (
                    compare(left, "v", "<", right, "v"),
                    compare(left, "v", "<>", right, "v"),
                    compare(left, "ts", ">=", right, "ts"),
                    either(compare(left, "v", "<", right, "v"), constant(left, "k", "=", 1)),
                    total_below(left, right, self._rng.randint(4, 12)),
                )
            )
        ]

    def _conditions(self, alias: str, most: int, often: float = 0.5) -> list[Predicate]:
        choices = (
            constant(alias, "v", ">", self._rng.randint(0, 5)),
            constant(alias, "v", "<=", self._rng.randint(4, 9)),
            constant(alias, "k", "<>", self._rng.randint(0, 3)),
            constant(alias, "s", "<>", self._rng.choice(WORDS)),
            is_null(alias, self._rng.choice(("k", "v", "s")), negated=True),
            either(constant(alias, "v", "<", 5), constant(alias, "s", "=", "ant")),
        )
        chosen = self._rng.sample(choices, self._rng.randint(1, most)) if self._rng.random() < often else []
        if chosen and self._rng.random() < 0.05:
            chosen.append(is_null(alias, "v", negated=False))
        return chosen

    def _near(self, sides: Sequence[Side]) -> tuple[list[Side], Predicate]:
        """Two unbounded streams, and a condition on how far their timestamps may be apart."""
        rng, unit = self._rng, self._unit
        low, high = sorted(rng.randint(-4, 9) for _ in range(2))
        is_number = self._timestamp_type == "BIGINT"
        # results may have fractions of seconds that whole numbers do not show, so their window is written
        is_derived = any(isinstance(side.source, DerivedStream) for side in sides)
        sql = "" if rng.random() < 0.5 else "[UNBOUNDED]"
        stays = [max(0, high) * unit, max(0, -low) * unit]
        if is_number and is_derived:
            window = last(9 * unit)
            return [replace(s, window=window, stays=None) for s in sides], _apart(low, high, unit, is_number)
        timed = [replace(s, window=unbounded(sql), stays=n) for s, n in zip(sides, stays, strict=True)]
        return timed, _apart(low, high, unit, is_number)

    def _outer_window(self) -> Window:
        """A window that tuples leave by time; of whole seconds if timestamps show no more."""
        rng, unit = self._rng, self._unit
        short = rng.randint(1, 12) * unit
        plain = (last(short), last(short), now())
        if self._timestamp_type == "BIGINT":
            return rng.choice(plain)
        return rng.choice((*plain, tumbling(short), sliding(short, rng.randint(1, 7) * unit)))

    def _join_window(self, small: bool) -> Window:
        rng, unit = self._rng, self._unit
        few = rng.randint(1, 3) if small else rng.randint(1, 8)
        short = rng.randint(1, 4) if small else rng.randint(1, 15)
        return rng.choices(
            (
                rows(few),
                last(short * unit),
                now(),
                partitioned(rng.choice(("k", "s", "v")), rng.randint(1, 2 if small else 3)),
                sliding((short + 2) * unit, rng.randint(1, 7) * unit),
                tumbling((short + 2) * unit),
                unbounded(),
                until("v"),
            ),
            (5, 5, 1, 3, 3, 2, 0 if small else 2, 2),
        )[0]

    def aggregation(self) -> Aggregation:
        """GROUP BY over one stream."""
        rng = self._rng
        side = self._windowed(self._aggregate_window())
        keys = rng.sample(
            (column("a", "k"), column("a", "s"), remainder("a", "v", 3)), rng.choice((0, 1, 1, 2))
        )
        collects = side.window is not None and (_remembers(side.window) or side.window.gap)
        calls = rng.sample([c for c in CALLS if collects or not c.distinct], rng.randint(1, 4))
        if rng.random() < 0.3:
            calls[0] = replace(calls[0], condition=self._conditions("a", most=1, often=1.0)[0])
        having = None
        if rng.random() < 0.3:
            least = rng.randint(1, 3)
            call = rng.choice((*calls, CALLS[0]))
            if call.function in ("COUNT", "SUM", "AVG"):
                having = above(call, least)
        where = self._conditions("a", most=2, often=0.4)
        return Aggregation(side, keys, calls, where, having, self._limit(side, keys, calls))

    def _limit(self, side: Side, keys: Sequence[Value], calls: Sequence[Call]) -> Limit | None:
        """Of windows that end, the first groups; not by a mean, which rounding may make a tie or not."""
        rng, window = self._rng, side.window
        exact = [*range(len(keys)), *(len(keys) + n for n, c in enumerate(calls) if c.function != "AVG")]
        ends = window is not None and (window.gap or window.slide)
        if not ends or not exact or rng.random() < 0.5:
            return None
        is_descending, by_position = rng.random() < 0.7, rng.random() < 0.3
        return Limit(rng.choice(exact), is_descending, rng.choice((1, 1, 2, 3)), by_position)

    def distinct(self) -> Distinct:
        """SELECT DISTINCT over one stream."""
        rng, windows = self._rng, iter(self._aggregate_window, object())
        window = next(w for w in windows if w is not None and _remembers(w))
        keys = rng.sample((column("a", "k"), column("a", "s"), remainder("a", "v", 3)), rng.choice((1, 1, 2)))
        where = self._conditions("a", most=2, often=0.4)
        return Distinct(self._windowed(window), keys, (), where)

    def _windowed(self, window: Window | None) -> Side:
        """A stream with a window of the kind."""
        # at the end of input, results of windows go on after their last tuple
        are_long = window is not None and window.step is not None
        choices = [s for s in self._streams if not (are_long and isinstance(s, DerivedStream))]
        return Side(self._rng.choice(choices), "a", window)

    def _aggregate_window(self) -> Window | None:
        rng, unit = self._rng, self._unit
        return rng.choices(
            (
                rows(rng.randint(1, 12)),
                last(rng.randint(1, 25) * unit),
                now(),
                partitioned(rng.choice(("k", "s")), rng.randint(1, 4)),
                sliding(rng.randint(2, 20) * unit, rng.randint(2, 9) * unit),
                hopping(rng.randint(2, 20) * unit, rng.randint(2, 9) * unit),
                tumbling(rng.randint(2, 12) * unit),
                sessions(rng.randint(1, 8) * unit),
                unbounded(),
                None,
                rows_every(rng.randint(1, 12), rng.randint(1, 8)),
                landmark(rng.randint(2, 12) * unit, rng.choice(("UNBOUNDED", "LANDMARK"))),
                until("v", rng.choice((None, rng.randint(1, 8) * unit))),
            ),
            (4, 4, 1, 3, 5, 2, 2, 3, 1, 1, 3, 2, 3),
        )[0]


def _remembers(window: Window) -> bool:
    """Whether its tuples are kept rather than totals."""
    return not window.gap and "UNBOUNDED" not in window.sql and "LANDMARK" not in window.sql


def column(alias: str, name: str) -> Value:
    """A column."""
    return Value(f"{alias}.{name}", lambda c: c[alias][name])


def above(call: Call, bound: int) -> Having:
    """A condition on a group."""
    return Having(call, f"{call.sql} > {bound}", lambda value: _compared(">", value, bound))


def remainder(alias: str, name: str, divisor: int) -> Value:
    """A key that is computed; values are never negative."""
    return Value(
        f"{alias}.{name} % {divisor}",
        lambda c: None if c[alias][name] is None else c[alias][name] % divisor,
    )


CALLS = (
    Call("COUNT"),
    Call("COUNT", column("a", "v")),
    Call("SUM", column("a", "v")),
    Call("AVG", column("a", "v")),
    Call("MIN", column("a", "v")),
    Call("MAX", column("a", "v")),
    Call("MIN", column("a", "s")),
    Call("MAX", column("a", "s")),
    Call("COUNT", column("a", "v"), distinct=True),
    Call("COUNT", column("a", "s"), distinct=True),
)

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _compared(sign: str, left: Any, right: Any) -> bool | None:
    return None if left is None or right is None else _OPERATORS[sign](left, right)


def compare(left: str, left_column: str, sign: str, right: str, right_column: str) -> Predicate:
    """Two columns against each other."""
    return Predicate(
        f"{left}.{left_column} {sign} {right}.{right_column}",
        frozenset({left, right}),
        lambda c: _compared(sign, c[left][left_column], c[right][right_column]),
    )


def same(left: str, left_column: str, right: str, right_column: str) -> Predicate:
    """Equality for which null equals null."""
    return Predicate(
        f"{left}.{left_column} <=> {right}.{right_column}",
        frozenset({left, right}),
        lambda c: c[left][left_column] == c[right][right_column],
    )


def constant(alias: str, name: str, sign: str, value: Any) -> Predicate:
    """A column against a constant."""
    shown = f"'{value}'" if isinstance(value, str) else str(value)
    return Predicate(
        f"{alias}.{name} {sign} {shown}",
        frozenset({alias}),
        lambda c: _compared(sign, c[alias][name], value),
    )


def is_null(alias: str, name: str, negated: bool) -> Predicate:
    """IS NULL, IS NOT NULL."""
    return Predicate(
        f"{alias}.{name} IS {'NOT ' if negated else ''}NULL",
        frozenset({alias}),
        lambda c: (c[alias][name] is None) != negated,
    )


def either(one: Predicate, other: Predicate) -> Predicate:
    """OR with its three values."""

    def holds(combination: Combination) -> bool | None:
        found = (one.holds(combination), other.holds(combination))
        return True if True in found else None if None in found else False

    return Predicate(f"({one.sql} OR {other.sql})", one.aliases | other.aliases, holds)


def all_of(predicates: Sequence[Predicate]) -> Predicate:
    """AND with its three values."""

    def holds(combination: Combination) -> bool | None:
        found = [one.holds(combination) for one in predicates]
        return False if False in found else None if None in found else True

    aliases = frozenset[str]().union(*(one.aliases for one in predicates))
    return Predicate(" AND ".join(one.sql for one in predicates), aliases, holds)


def not_false(predicate: Predicate) -> Predicate:
    """True unless the predicate is false."""
    return replace(predicate, holds=lambda combination: predicate.holds(combination) is not False)


def _apart(low: int, high: int, unit: int, is_number: bool) -> Predicate:
    """The second stream's timestamp minus the first one's, in units, is within bounds."""
    in_row = SECOND if is_number else 1

    def shifted(units: int) -> str:
        time = f"{abs(units * unit) // SECOND}"
        amount = time if is_number else f"INTERVAL {abs(units * unit) // 1000} MILLISECONDS"
        return f"t0.ts {'-' if units < 0 else '+'} {amount}"

    def holds(combination: Combination) -> bool:
        return low * unit <= (combination["t1"]["ts"] - combination["t0"]["ts"]) * in_row <= high * unit

    return Predicate(f"t1.ts BETWEEN {shifted(low)} AND {shifted(high)}", frozenset({"t0", "t1"}), holds)


def total_below(left: str, right: str, bound: int) -> Predicate:
    """A condition on a sum of two sides' columns."""

    def holds(combination: Combination) -> bool | None:
        a, b = combination[left]["v"], combination[right]["v"]
        return None if a is None or b is None else a + b < bound

    return Predicate(f"{left}.v + {right}.v < {bound}", frozenset({left, right}), holds)

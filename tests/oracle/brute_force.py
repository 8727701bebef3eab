"""What queries mean, told once more in plain loops: slow, short, and with nothing of the engine in it.

A query is described by values that carry both their SQL text and a Python function of the same
meaning; ``evaluate`` gives the multiset of its results, each a tuple that begins with the timestamp.
All times are whole microseconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SECOND = 1_000_000

Row = Mapping[str, Any]
# one row for every alias of FROM
Combination = Mapping[str, Row]
Results = Counter[tuple[Any, ...]]


@dataclass(frozen=True)
class Tuple:
    """A row of a stream with its timestamp."""

    ts: int
    row: Row


@dataclass(frozen=True)
class Stream:
    """``arrivals`` in order of arrival, on time or late; ``declared`` is the stream's place among all."""

    name: str
    declared: int
    arrivals: Sequence[Tuple]
    watermark: int = 0

    def on_time(self) -> list[Tuple]:
        """The tuples that belong to the stream, in order of arrival."""
        return [tuple_ for tuple_, late in self._judged() if not late]

    def late(self) -> list[Tuple]:
        """The tuples that came too late."""
        return [tuple_ for tuple_, late in self._judged() if late]

    def _judged(self) -> Iterator[tuple[Tuple, bool]]:
        highest: int | None = None
        for tuple_ in self.arrivals:
            yield tuple_, highest is not None and tuple_.ts < highest - self.watermark
            highest = tuple_.ts if highest is None else max(highest, tuple_.ts)


@dataclass(frozen=True)
class Relation:
    """A stored relation."""

    name: str
    rows: Sequence[Row]


@dataclass(frozen=True)
class Window:
    """A window: ``held(earlier, now)`` are the tuples in it, of all that came, oldest first."""

    sql: str
    held: Callable[[Sequence[Tuple], int], list[Tuple]]
    slide: tuple[int, int] | None = None
    has_end: bool = True
    """Whether the last instant of a window that slides belongs to it."""


def rows(number: int) -> Window:
    """The latest tuples."""
    return Window(f"[ROWS {number}]", lambda earlier, now: list(earlier[-number:]))


def last(length: int, sql: str | None = None) -> Window:
    """The tuples of the last while, its border included."""
    text = sql or f"[RANGE {length // 1000} MILLISECONDS]"
    return Window(text, lambda earlier, now: [t for t in earlier if now - t.ts <= length])


def now() -> Window:
    """The tuples of this instant."""
    return last(0, "[NOW]")


def unbounded(sql: str = "[UNBOUNDED]") -> Window:
    """All tuples so far."""
    return Window(sql, lambda earlier, now: list(earlier))


def partitioned(key: str, number: int) -> Window:
    """The latest tuples of each key; null is a key."""

    def held(earlier: Sequence[Tuple], now: int) -> list[Tuple]:
        latest: dict[Any, list[Tuple]] = {}
        for tuple_ in earlier:
            latest.setdefault(tuple_.row[key], []).append(tuple_)
        return [tuple_ for group in latest.values() for tuple_ in group[-number:]]

    return Window(f"[PARTITION BY {key} ROWS {number}]", held)


def sliding(length: int, step: int) -> Window:
    """A window that moves at multiples of ``step`` only."""

    def held(earlier: Sequence[Tuple], now: int) -> list[Tuple]:
        boundary = now // step * step
        return [t for t in earlier if t.ts <= boundary and boundary - t.ts <= length]

    sql = f"[RANGE {length // 1000} MILLISECONDS SLIDE {step // 1000} MILLISECONDS]"
    return Window(sql, held, slide=(length, step))


def hopping(length: int, step: int) -> Window:
    """Windows without their ends; in a join, where they do not overlap, the one that is not over."""

    def held(earlier: Sequence[Tuple], now: int) -> list[Tuple]:
        assert length == step
        return [t for t in earlier if t.ts // length == now // length]

    every = "" if length == step else f" EVERY {step // 1000} MILLISECONDS"
    sql = f"[{'HOP' if every else 'TUMBLE'} {length // 1000} MILLISECONDS{every}]"
    return Window(sql, held, slide=(length, step), has_end=False)


def tumbling(length: int) -> Window:
    """Windows without their ends, one after the other."""
    return hopping(length, length)


@dataclass(frozen=True)
class Predicate:
    """``holds`` is True, False or None (unknown); ``aliases`` are those it looks at."""

    sql: str
    aliases: frozenset[str]
    holds: Callable[[Combination], bool | None]


@dataclass(frozen=True)
class Value:
    """A scalar expression."""

    sql: str
    of: Callable[[Combination], Any]


@dataclass(frozen=True)
class Side:
    """An item of FROM."""

    source: Stream | Relation
    alias: str
    window: Window | None = None

    @property
    def sql(self) -> str:
        """As written in FROM."""
        window = f" {self.window.sql}" if self.window else ""
        return f"{self.source.name}{window} AS {self.alias}"


@dataclass(frozen=True)
class Select:
    """Filters, projections and joins of any number of streams and relations."""

    sides: Sequence[Side]
    values: Sequence[Value]
    where: Sequence[Predicate] = ()

    @property
    def sql(self) -> str:
        """CQL text."""
        items = ", ".join(f"{value.sql} AS c{i}" for i, value in enumerate(self.values))
        text = f"SELECT {items} FROM {', '.join(side.sql for side in self.sides)}"
        return text + _where(self.where)


@dataclass(frozen=True)
class Call:
    """An aggregate; ``argument`` is None for COUNT(*)."""

    function: str
    argument: Value | None = None
    distinct: bool = False

    @property
    def sql(self) -> str:
        """As written in the select list."""
        distinct = "DISTINCT " if self.distinct else ""
        return f"{self.function}({distinct}{self.argument.sql if self.argument else '*'})"

    def over(self, combinations: Sequence[Combination]) -> Any:
        """The value over a group."""
        if self.argument is None:
            return len(combinations)
        found = [value for c in combinations if (value := self.argument.of(c)) is not None]
        if self.distinct:
            found = list(dict.fromkeys(found))
        if self.function == "COUNT":
            return len(found)
        if not found:
            return None
        if self.function == "AVG":
            return sum(found) / len(found)
        if self.function == "SUM":
            return sum(found)
        return min(found) if self.function == "MIN" else max(found)


@dataclass(frozen=True)
class Having:
    """A condition on one aggregate."""

    call: Call
    sql: str
    holds: Callable[[Any], bool | None]


@dataclass(frozen=True)
class Aggregation:
    """GROUP BY over a window of one stream."""

    side: Side
    keys: Sequence[Value]
    calls: Sequence[Call]
    where: Sequence[Predicate] = ()
    having: Having | None = None

    @property
    def sql(self) -> str:
        """CQL text."""
        items = [*(key.sql for key in self.keys), *(call.sql for call in self.calls)]
        listed = ", ".join(f"{item} AS c{i}" for i, item in enumerate(items))
        text = f"SELECT {listed} FROM {self.side.sql}{_where(self.where)}"
        if self.keys:
            text += f" GROUP BY {', '.join(key.sql for key in self.keys)}"
        return text + (f" HAVING {self.having.sql}" if self.having else "")


@dataclass(frozen=True)
class Distinct(Aggregation):
    """SELECT DISTINCT over a window of one stream: values of keys, as they enter the window."""

    @property
    def sql(self) -> str:
        """CQL text."""
        listed = ", ".join(f"{key.sql} AS c{i}" for i, key in enumerate(self.keys))
        return f"SELECT DISTINCT {listed} FROM {self.side.sql}{_where(self.where)}"


@dataclass(frozen=True)
class Query:
    """Branches with UNION ALL between them."""

    name: str
    branches: Sequence[Select | Aggregation] = field(default_factory=list)

    @property
    def sql(self) -> str:
        """The text after AS."""
        return " UNION ALL ".join(branch.sql for branch in self.branches)


def evaluate(query: Query) -> Results:
    """All results, each as often as it comes."""
    found: Results = Counter()
    for branch in query.branches:
        if isinstance(branch, Select):
            found.update(_select(branch))
        elif branch.side.window and branch.side.window.slide:
            found.update(_at_boundaries(branch, *branch.side.window.slide, branch.side.window.has_end))
        else:
            found.update(_at_every_tuple(branch))
    return found


def _where(predicates: Sequence[Predicate]) -> str:
    return f" WHERE {' AND '.join(p.sql for p in predicates)}" if predicates else ""


def _select(select: Select) -> Iterator[tuple[Any, ...]]:
    came: dict[str, list[Tuple]] = {side.alias: [] for side in select.sides}
    for place, arriving in _in_global_order(select.sides):
        choices: list[Sequence[Row]] = []
        for other, side in enumerate(select.sides):
            if other == place:
                choices.append([arriving.row])
            elif isinstance(side.source, Relation):
                choices.append(side.source.rows)
            else:
                assert side.window is not None
                choices.append([t.row for t in side.window.held(came[side.alias], arriving.ts)])
        for combination in _combinations(select, choices, {}):
            yield (arriving.ts, *(value.of(combination) for value in select.values))
        came[select.sides[place].alias].append(arriving)


def _in_global_order(sides: Sequence[Side]) -> Iterator[tuple[int, Tuple]]:
    events = []
    for place, side in enumerate(sides):
        if isinstance(side.source, Stream):
            for arrival, tuple_ in enumerate(side.source.on_time()):
                events.append(((tuple_.ts, side.source.declared, place, arrival), place, tuple_))
    for _, place, tuple_ in sorted(events, key=lambda event: event[0]):
        yield place, tuple_


def _combinations(
    select: Select, choices: Sequence[Sequence[Row]], chosen: dict[str, Row]
) -> Iterator[Combination]:
    if len(chosen) == len(choices):
        yield chosen
        return
    alias = select.sides[len(chosen)].alias
    # tested as soon as all its rows are chosen, lest four windows be multiplied in full
    due = [p for p in select.where if p.aliases <= {*chosen, alias} and not p.aliases <= set(chosen)]
    for row in choices[len(chosen)]:
        extended = {**chosen, alias: row}
        if all(predicate.holds(extended) is True for predicate in due):
            yield from _combinations(select, choices, extended)


def _at_every_tuple(query: Aggregation) -> Iterator[tuple[Any, ...]]:
    came: list[Tuple] = []
    window = query.side.window or unbounded("")
    for arriving in _ordered(query):
        came.append(arriving)
        if not _passes(query, arriving):
            continue
        group = _key(query, arriving)
        held = [t for t in window.held(came, arriving.ts) if _passes(query, t)]
        members = [t for t in held if _key(query, t) == group]
        if not isinstance(query, Distinct) or len(members) == 1:
            yield from _result(query, arriving.ts, group, members)


def _at_boundaries(query: Aggregation, length: int, step: int, has_end: bool) -> Iterator[tuple[Any, ...]]:
    tuples = [t for t in _ordered(query) if _passes(query, t)]
    if not tuples:
        return
    boundary = tuples[0].ts // step * step
    while boundary - length <= tuples[-1].ts:
        groups: dict[tuple[Any, ...], list[Tuple]] = {}
        for tuple_ in tuples:
            if boundary - length <= tuple_.ts <= boundary and (has_end or tuple_.ts < boundary):
                groups.setdefault(_key(query, tuple_), []).append(tuple_)
        for group, members in groups.items():
            yield from _result(query, boundary, group, members)
        boundary += step


def _ordered(query: Aggregation) -> list[Tuple]:
    return [tuple_ for _, tuple_ in _in_global_order([query.side])]


def _passes(query: Aggregation, tuple_: Tuple) -> bool:
    return all(p.holds({query.side.alias: tuple_.row}) is True for p in query.where)


def _key(query: Aggregation, tuple_: Tuple) -> tuple[Any, ...]:
    return tuple(key.of({query.side.alias: tuple_.row}) for key in query.keys)


def _result(
    query: Aggregation, ts: int, group: tuple[Any, ...], members: Sequence[Tuple]
) -> Iterator[tuple[Any, ...]]:
    combinations = [{query.side.alias: member.row} for member in members]
    if query.having is None or query.having.holds(query.having.call.over(combinations)) is True:
        yield (ts, *group, *(call.over(combinations) for call in query.calls))

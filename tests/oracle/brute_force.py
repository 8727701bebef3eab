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
# a tuple of a stream that is not there
_NULLS = dict.fromkeys(("ts", "k", "v", "s"))

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
class DerivedStream(Stream):
    """The results of a query as a stream; ``sql`` is what comes after AS."""

    sql: str = ""


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
    gap: int | None = None
    """Of sessions."""
    every: tuple[int, int] | None = None
    """Length and slide of a window of rows that is shown as a whole."""
    step: int | None = None
    """Multiples of it are when a window without a fixed length is shown as a whole."""
    admits: Callable[[Tuple], bool] = lambda tuple_: True
    """Whether a tuple is ever inside."""
    length: int | None = None
    """Of a window that only time decides."""


def rows(number: int) -> Window:
    """The latest tuples."""
    return Window(f"[ROWS {number}]", lambda earlier, now: list(earlier[-number:]))


def last(length: int, sql: str | None = None) -> Window:
    """The tuples of the last while, its border included."""
    text = sql or f"[RANGE {length // 1000} MILLISECONDS]"
    return Window(text, lambda earlier, now: [t for t in earlier if now - t.ts <= length], length=length)


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


def sessions(gap: int) -> Window:
    """Tuples of a group, each less than a gap after the one before it."""
    return Window(f"[SESSION {gap // 1000} MILLISECONDS]", lambda earlier, now: [], gap=gap)


def rows_every(number: int, slide: int) -> Window:
    """The latest tuples, shown with every so many."""
    return Window(f"[ROWS {number} SLIDE {slide}]", lambda earlier, now: [], every=(number, slide))


def landmark(step: int, word: str = "UNBOUNDED") -> Window:
    """All tuples so far, at times."""
    return Window(
        f"[{word} SLIDE {step // 1000} MILLISECONDS]", lambda earlier, now: list(earlier), step=step
    )


def until(column: str, step: int | None = None) -> Window:
    """Tuples for as many seconds as a column of theirs says."""

    def end(tuple_: Tuple) -> int:
        seconds = tuple_.row[column]
        return tuple_.ts - 1 if seconds is None else tuple_.ts + seconds * SECOND

    slide = f" SLIDE {step // 1000} MILLISECONDS" if step else ""
    return Window(
        f"[UNTIL CAST(ts AS TIMESTAMP) + make_dt_interval(0, 0, 0, CAST({column} AS INT)){slide}]",
        lambda earlier, now: [t for t in earlier if end(t) >= now],
        step=step,
        admits=lambda tuple_: end(tuple_) >= tuple_.ts,
    )


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
    join: str = ""
    """LEFT, RIGHT, FULL, SEMI or ANTI: of a stored relation, or of the second of two streams. It is last.

    In a chain of streams that tumble alike, of each but the first, and INNER.
    """
    on: Predicate | None = None
    condition: str = ""
    """How the join is written in WHERE, if it is a subquery there."""
    stays: int | None = None
    """How long its tuples may find a match, where a condition tells rather than the window."""

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
        inner = ", ".join(side.sql for side in self.sides if not side.join)
        written = [s for s in self.sides if s.join and s.on and not s.condition]
        outer = [f" {s.join} JOIN {s.sql} ON {s.on.sql}" for s in written if s.on]
        tests = [s.condition for s in self.sides if s.condition]
        return f"SELECT {items} FROM {inner}{''.join(outer)}{_where(self.where, tests)}"


@dataclass(frozen=True)
class Emitted(Select):
    """Tuples of a window of one stream as they leave it (DSTREAM), or all of it at times (RSTREAM)."""

    word: str = "DSTREAM"
    step: int | None = None
    """Of EVERY; None if the window has steps of its own."""

    @property
    def sql(self) -> str:
        """CQL text."""
        every = f" EVERY {self.step // 1000} MILLISECONDS" if self.step else ""
        return super().sql.replace("SELECT", f"SELECT {self.word}", 1) + every

    def times(self, ts: int) -> list[int]:
        """When a tuple is shown."""
        window = self.sides[0].window
        assert window is not None
        if window.slide is not None:
            length, _ = window.slide
            return [ts // length * length + length]
        assert window.length is not None
        if self.word == "DSTREAM":
            return [ts + window.length]
        assert self.step is not None
        first = -(-ts // self.step) * self.step
        return list(range(first, ts + window.length + 1, self.step))


@dataclass(frozen=True)
class Call:
    """An aggregate; ``argument`` is None for COUNT(*)."""

    function: str
    argument: Value | None = None
    distinct: bool = False
    condition: Predicate | None = None

    @property
    def sql(self) -> str:
        """As written in the select list."""
        distinct = "DISTINCT " if self.distinct else ""
        text = f"{self.function}({distinct}{self.argument.sql if self.argument else '*'})"
        return f"{text} FILTER (WHERE {self.condition.sql})" if self.condition else text

    def over(self, members: Sequence[Combination]) -> Any:
        """The value over a group."""
        chosen = self.condition
        combinations = [c for c in members if chosen is None or chosen.holds(c) is True]
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
class Limit:
    """ORDER BY a column, NULL being the least value, and the first rows of every instant, with ties."""

    column: int
    descending: bool
    rows: int
    by_position: bool = False
    """Whether the column is written as its position in the select list."""

    @property
    def sql(self) -> str:
        """CQL text."""
        key = self.column + 1 if self.by_position else f"c{self.column}"
        return f" ORDER BY {key}{' DESC' if self.descending else ''} LIMIT {self.rows} WITH TIES"

    def first(self, results: Sequence[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        """The results that fewer than ``rows`` others of their instant precede."""
        for result in results:
            before = [r for r in results if r[0] == result[0] and self._precedes(r, result)]
            if len(before) < self.rows:
                yield result

    def _precedes(self, one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
        keys = [(r[1 + self.column] is not None, r[1 + self.column]) for r in (one, other)]
        if keys[0][0] != keys[1][0]:
            return keys[0][0] == self.descending
        if not keys[0][0]:
            return False
        return bool(keys[0] > keys[1] if self.descending else keys[0] < keys[1])


@dataclass(frozen=True)
class Aggregation:
    """GROUP BY over a window of one stream."""

    side: Side
    keys: Sequence[Value]
    calls: Sequence[Call]
    where: Sequence[Predicate] = ()
    having: Having | None = None
    limit: Limit | None = None

    @property
    def sql(self) -> str:
        """CQL text."""
        items = [*(key.sql for key in self.keys), *(call.sql for call in self.calls)]
        listed = ", ".join(f"{item} AS c{i}" for i, item in enumerate(items))
        text = f"SELECT {listed} FROM {self.side.sql}{_where(self.where)}"
        if self.keys:
            text += f" GROUP BY {', '.join(key.sql for key in self.keys)}"
        text += f" HAVING {self.having.sql}" if self.having else ""
        return text + (self.limit.sql if self.limit else "")


@dataclass(frozen=True)
class Distinct(Aggregation):
    """SELECT DISTINCT over a window of one stream: values of keys, as they enter the window."""

    @property
    def sql(self) -> str:
        """CQL text."""
        listed = ", ".join(f"{key.sql} AS c{i}" for i, key in enumerate(self.keys))
        return f"SELECT DISTINCT {listed} FROM {self.side.sql}{_where(self.where)}"


@dataclass(frozen=True)
class Current(Aggregation):
    """The groups, or without calls the rows, of what a window by rows holds in the end: a table."""

    @property
    def sql(self) -> str:
        """CQL text."""
        return super().sql if self.calls else super().sql.partition(" GROUP BY ")[0]


@dataclass(frozen=True)
class Query:
    """Branches with UNION ALL between them."""

    name: str
    branches: Sequence[Select | Aggregation] = field(default_factory=list)

    @property
    def is_table(self) -> bool:
        """Whether its results are replaced by later ones."""
        return any(isinstance(branch, Current) for branch in self.branches)

    @property
    def sql(self) -> str:
        """The text after AS."""
        return " UNION ALL ".join(branch.sql for branch in self.branches)


def evaluate(query: Query) -> Results:
    """All results, each as often as it comes."""
    found: Results = Counter()
    for branch in query.branches:
        if isinstance(branch, Emitted):
            found.update(_emitted(branch))
        elif isinstance(branch, Select):
            found.update(_select(branch))
        else:
            results = list(_aggregated(branch))
            found.update(results if branch.limit is None else branch.limit.first(results))
    return found


def _aggregated(query: Aggregation) -> Iterator[tuple[Any, ...]]:
    window = query.side.window
    if isinstance(query, Current):
        return _in_the_end(query)
    if window and window.gap:
        return _by_session(query, window.gap)
    if window and window.every:
        return _with_every_so_many(query, *window.every)
    if window and window.step:
        return _at_times(query, window, window.step)
    if window and window.slide:
        return _at_boundaries(query, *window.slide, window.has_end)
    return _at_every_tuple(query)


def _where(predicates: Sequence[Predicate], tests: Sequence[str] = ()) -> str:
    terms = [*(p.sql for p in predicates), *tests]
    return f" WHERE {' AND '.join(terms)}" if terms else ""


def _select(select: Select) -> Iterator[tuple[Any, ...]]:
    if sum(1 for side in select.sides if side.join) > 1:
        yield from _chain(select)
        return
    last = select.sides[-1]
    if last.join and isinstance(last.source, Stream):
        yield from _outer_join(select)
        return
    came: dict[str, list[Tuple]] = {side.alias: [] for side in select.sides}
    for place, arriving in _in_global_order(select.sides):
        own = select.sides[place].window
        if own is not None and not own.admits(arriving):
            continue
        choices: list[Sequence[Row]] = []
        for other, side in enumerate(select.sides):
            if other == place:
                choices.append([arriving.row])
            elif side.join:
                choices.append([{}])
            elif isinstance(side.source, Relation):
                choices.append(side.source.rows)
            else:
                assert side.window is not None
                choices.append([t.row for t in side.window.held(came[side.alias], arriving.ts)])
        for inner in _combinations(select, choices, {}):
            for combination in _with_outer(select, inner):
                yield (arriving.ts, *(value.of(combination) for value in select.values))
        came[select.sides[place].alias].append(arriving)


def _outer_join(select: Select) -> Iterator[tuple[Any, ...]]:
    """Two streams: all pairs first, and then who is in none of them."""
    left, right = select.sides
    pairs = list(_pairs(left, right))
    found: list[tuple[int, Row, Row]] = []
    if right.join in ("LEFT", "RIGHT", "FULL"):
        found += [(ts, one.row, other.row) for ts, one, other in pairs]
    if right.join in ("LEFT", "FULL", "ANTI"):
        matched = {id(one) for _, one, _ in pairs}
        lonely = [t for t in _tuples(left) if id(t) not in matched]
        found += [(_last_instant(left, t), t.row, dict.fromkeys(t.row)) for t in lonely]
    if right.join in ("RIGHT", "FULL"):
        matched = {id(other) for _, _, other in pairs}
        lonely = [t for t in _tuples(right) if id(t) not in matched]
        found += [(_last_instant(right, t), dict.fromkeys(t.row), t.row) for t in lonely]
    if right.join == "SEMI":
        for tuple_ in _tuples(left):
            times = [ts for ts, one, _ in pairs if one is tuple_]
            found += [(min(times), tuple_.row, {})] if times else []
    for ts, row, other_row in found:
        combination = {left.alias: row, right.alias: other_row}
        if all(predicate.holds(combination) is True for predicate in select.where):
            yield (ts, *(value.of(combination) for value in select.values))


def _chain(select: Select) -> Iterator[tuple[Any, ...]]:
    """Streams that tumble alike, joined in turn: each result lies in the window of its tuples."""
    first, *others = select.sides
    found: list[tuple[int, Combination]] = [(t.ts, {first.alias: t.row}) for t in _tuples(first)]
    nothing = {first.alias: _NULLS}
    for side in others:
        found = _joined(found, side, nothing)
        if side.join not in ("SEMI", "ANTI"):
            nothing[side.alias] = _NULLS
    for ts, combination in found:
        if all(predicate.holds(combination) is True for predicate in select.where):
            yield (ts, *(value.of(combination) for value in select.values))


def _joined(
    left: Sequence[tuple[int, Combination]], side: Side, nothing: Combination
) -> list[tuple[int, Combination]]:
    """Results so far with the tuples of one more side; those without a match come last in their window."""
    assert side.on is not None and side.window is not None and side.window.slide is not None
    length, tuples = side.window.slide[0], _tuples(side)
    matches: dict[int, list[tuple[int, Combination]]] = {place: [] for place in range(len(left))}
    met = set()
    for place, (ts, one) in enumerate(left):
        for tuple_ in tuples:
            both = {**one, side.alias: tuple_.row}
            if ts // length == tuple_.ts // length and side.on.holds(both) is True:
                matches[place].append((max(ts, tuple_.ts), both))
                met.add(id(tuple_))
    lonely = [(_end(ts, length), one) for place, (ts, one) in enumerate(left) if not matches[place]]
    if side.join == "ANTI":
        return lonely
    if side.join == "SEMI":
        return [(min(ts for ts, _ in own), left[place][1]) for place, own in matches.items() if own]
    found = [match for own in matches.values() for match in own]
    if side.join in ("LEFT", "FULL"):
        found += [(ts, {**one, side.alias: _NULLS}) for ts, one in lonely]
    if side.join in ("RIGHT", "FULL"):
        others = [t for t in tuples if id(t) not in met]
        found += [(_end(t.ts, length), {**nothing, side.alias: t.row}) for t in others]
    return found


def _end(ts: int, length: int) -> int:
    """The last microsecond of the window of a timestamp."""
    return (ts // length + 1) * length - 1


def _pairs(left: Side, right: Side) -> Iterator[tuple[int, Tuple, Tuple]]:
    sides = (left, right)
    came: tuple[list[Tuple], list[Tuple]] = ([], [])
    assert right.on is not None
    for place, arriving in _in_global_order(sides):
        own, window = sides[place].window, sides[1 - place].window
        assert own is not None and window is not None
        if not own.admits(arriving):
            continue
        for met in window.held(came[1 - place], arriving.ts):
            one, other = (arriving, met) if place == 0 else (met, arriving)
            if right.on.holds({left.alias: one.row, right.alias: other.row}) is True:
                yield arriving.ts, one, other
        came[place].append(arriving)


def _tuples(side: Side) -> list[Tuple]:
    assert isinstance(side.source, Stream)
    return side.source.on_time()


def _last_instant(side: Side, tuple_: Tuple) -> int:
    """The last microsecond at which a tuple may find a match: its window is tried at all that may differ."""
    if side.stays is not None:
        return tuple_.ts + side.stays
    assert side.window is not None
    found, step = tuple_.ts, SECOND // 2
    for begin in range(tuple_.ts // step * step, tuple_.ts + 60 * SECOND, step):
        for instant in (begin, begin + tuple_.ts % step, begin + step - 1):
            if instant >= tuple_.ts and side.window.held([tuple_], instant):
                found = instant
    return found


def _emitted(select: Emitted) -> Iterator[tuple[Any, ...]]:
    for _, tuple_ in _in_global_order(select.sides):
        combination = {select.sides[0].alias: tuple_.row}
        if all(predicate.holds(combination) is True for predicate in select.where):
            for ts in select.times(tuple_.ts):
                yield (ts, *(value.of(combination) for value in select.values))


def _with_outer(select: Select, inner: Combination) -> Iterator[Combination]:
    """The combination with the matches of the relation that is not joined as usual, if there is one."""
    side = select.sides[-1]
    if not side.join:
        yield inner
        return
    assert isinstance(side.source, Relation) and side.on is not None
    candidates: list[Combination] = [{**inner, side.alias: row} for row in side.source.rows]
    matches = [one for one in candidates if side.on.holds(one) is True]
    if side.join == "LEFT":
        nothing = dict.fromkeys(side.source.rows[0])
        yield from matches or [{**inner, side.alias: nothing}]
    elif bool(matches) == (side.join == "SEMI"):
        yield inner


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
        if not _passes(query, arriving) or not window.admits(arriving):
            continue
        group = _key(query, arriving)
        held = [t for t in window.held(came, arriving.ts) if _passes(query, t)]
        members = [t for t in held if _key(query, t) == group]
        if not isinstance(query, Distinct) or len(members) == 1:
            yield from _result(query, arriving.ts, group, members)


def _in_the_end(query: Current) -> Iterator[tuple[Any, ...]]:
    """Each group with the timestamp of its last tuple."""
    tuples = _ordered(query)
    assert query.side.window is not None
    held = query.side.window.held(tuples, tuples[-1].ts) if tuples else []
    groups: dict[object, list[Tuple]] = {}
    for place, tuple_ in enumerate(held):
        if _passes(query, tuple_):
            groups.setdefault(_key(query, tuple_) if query.calls else place, []).append(tuple_)
    for members in groups.values():
        yield from _result(query, max(t.ts for t in members), _key(query, members[0]), members)


def _at_boundaries(query: Aggregation, length: int, step: int, has_end: bool) -> Iterator[tuple[Any, ...]]:
    tuples = [t for t in _ordered(query) if _passes(query, t)]
    if not tuples:
        return
    boundary = tuples[0].ts // step * step
    while boundary - length <= tuples[-1].ts:
        upto = boundary if has_end else boundary - 1
        yield from _by_group(query, boundary, [t for t in tuples if boundary - length <= t.ts <= upto])
        boundary += step


def _with_every_so_many(query: Aggregation, number: int, slide: int) -> Iterator[tuple[Any, ...]]:
    tuples = _ordered(query)
    for end in range(slide, len(tuples) + 1, slide):
        held = tuples[max(0, end - number) : end]
        yield from _by_group(query, tuples[end - 1].ts, held)


def _at_times(query: Aggregation, window: Window, step: int) -> Iterator[tuple[Any, ...]]:
    """Up to the first time that is not before the last tuple of the stream."""
    tuples = _ordered(query)
    boundary = tuples[0].ts // step * step if tuples else 0
    while tuples and boundary - step < tuples[-1].ts:
        came = [t for t in tuples if t.ts <= boundary and window.admits(t)]
        yield from _by_group(query, boundary, window.held(came, boundary))
        boundary += step


def _by_group(query: Aggregation, ts: int, held: Sequence[Tuple]) -> Iterator[tuple[Any, ...]]:
    groups: dict[tuple[Any, ...], list[Tuple]] = {}
    for tuple_ in held:
        if _passes(query, tuple_):
            groups.setdefault(_key(query, tuple_), []).append(tuple_)
    for group, members in groups.items():
        yield from _result(query, ts, group, members)


def _by_session(query: Aggregation, gap: int) -> Iterator[tuple[Any, ...]]:
    groups: dict[tuple[Any, ...], list[list[Tuple]]] = {}
    for tuple_ in _ordered(query):
        if _passes(query, tuple_):
            own = groups.setdefault(_key(query, tuple_), [])
            if own and tuple_.ts - own[-1][-1].ts < gap:
                own[-1].append(tuple_)
            else:
                own.append([tuple_])
    for group, found in groups.items():
        for members in found:
            yield from _result(query, members[-1].ts + gap, group, members)


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

"""Aggregates over windows as SQL.

With a slide, every group is emitted at each boundary. Without, each arriving tuple emits the new value
of its group, over the tuples that are in the window at that instant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd
from typing import Protocol

from headgate.model.expression import AggregateExpression, NamedExpression, column_of
from headgate.model.operator import Aggregate
from headgate.model.window import HopWindow, RowWindow, TimeWindow, UntilWindow
from headgate.spark import sql
from headgate.spark.operators.row_window import EXPIRY_SEQ, PLACE_IN_KEY
from headgate.spark.sql import SEQ, TS, UNTIL

# room for this many tuples of one microsecond and group; see _time_frame
_TIES = 2**20
_BOUNDARY, _PANE, _EDGE = "`$boundary`", "`$pane`", "`$edge`"


class Grouped(Protocol):
    """Group keys, and aggregates over groups."""

    @property
    def keys(self) -> tuple[NamedExpression, ...]:
        """Expressions over tuples, each in a column of its own."""

    @property
    def aggregates(self) -> tuple[AggregateExpression, ...]:
        """Aggregates, each in a column of its own."""


def keyed(operator: Grouped, tuples: str, system: Sequence[str]) -> str:
    """Group keys and aggregate arguments as columns."""
    items = [*sql.names(system), *map(sql.aliased, operator.keys)]
    for position, call in enumerate(operator.aggregates):
        argument = "1" if call.argument is None else call.argument.text
        items.append(f"{argument} AS {_argument(position)}")
        others = enumerate(call.others, start=1)
        items += [f"{o.text} AS {_argument(position, place)}" for place, o in others if o.columns]
    return sql.select(items, tuples)


def sliding(
    operator: Aggregate, tuples: str, old_ts: sql.Bound, new_ts: sql.Bound, types: Mapping[str, str]
) -> str:
    """Every group at each boundary; the bounds are the first and the last one that is due.

    Tuples are aggregated by panes, of the greatest common divisor of range and slide, and panes by boundary:
    a tuple is not copied into every window that holds it.
    """
    window = operator.window
    assert isinstance(window, TimeWindow)
    return at_boundaries(operator, keyed(operator, tuples, [TS]), window, old_ts, new_ts, types)


def at_boundaries(
    operator: Aggregate,
    source: str,
    window: TimeWindow,
    first: sql.Bound,
    last: sql.Bound,
    types: Mapping[str, str],
) -> str:
    """Every group at each boundary between two, over keys and arguments."""
    assert window.slide_us is not None
    if not all(call.is_mergeable for call in operator.aggregates):
        return over_lifetimes(operator, source, _lifetime(window), window.slide_us, first, last)
    return combined(operator, panes(operator, source, window), window, first, last, types)


def _lifetime(window: TimeWindow) -> tuple[str, str]:
    """The first and the last instant at which a tuple is inside."""
    own = sql.name(TS)
    # the end of a half-open window is not in it
    begin = f"({own} + 1L)" if isinstance(window, HopWindow) else own
    return begin, f"{own} + {window.range_us}L"


def copies(operator: Aggregate, source: str, window: TimeWindow, first: sql.Bound, last: sql.Bound) -> str:
    """The keys of every tuple at each boundary of the windows that hold it."""
    assert window.slide_us is not None
    exploded = _exploded(window.slide_us, source, *_lifetime(window), first, last)
    return sql.select([f"{_BOUNDARY} AS {sql.name(TS)}", *group_names(operator)], exploded)


def over_lifetimes(
    operator: Aggregate,
    source: str,
    lifetime: tuple[str, str],
    slide_us: int,
    first: sql.Bound,
    last: sql.Bound,
) -> str:
    """Every group at each boundary; a tuple is copied to all boundaries from its begin to its end."""
    exploded = _exploded(slide_us, source, *lifetime, first, last)
    values = [f"{_plain(operator, call)} AS {sql.name(call.name)}" for call in operator.aggregates]
    return _grouped([f"{_BOUNDARY} AS {sql.name(TS)}", *group_names(operator), *values], exploded, operator)


def panes(operator: Aggregate, source: str, window: TimeWindow) -> str:
    """Partial aggregates by group and pane.

    A window reaches back to a timestamp and takes it in: tuples on the edge of a pane, at its last
    microsecond, belong to one boundary more than the others and are kept apart. Half-open windows have no
    such tuples: what is at the end of a pane belongs to the next one.
    """
    assert window.slide_us is not None
    width, own = gcd(window.range_us, window.slide_us), sql.name(TS)
    is_half_open = isinstance(window, HopWindow)
    to_end = f"{width}L - pmod({own}, {width}L)" if is_half_open else f"pmod(-{own}, {width}L)"
    end = f"({own} + {to_end})"
    edge = "FALSE" if is_half_open else f"{end} = {own}"
    items = [f"{end} AS {_PANE}", f"{edge} AS {_EDGE}", *group_names(operator)]
    parts = [f"{text} AS {sql.name(name)}" for name, text in partials(operator)]
    by = ", ".join([end, *([] if is_half_open else [edge]), *group_names(operator)])
    return f"{sql.select([*items, *parts], source)}\nGROUP BY {by}"


def combined(
    operator: Aggregate,
    partial: str,
    window: TimeWindow,
    old_ts: sql.Bound,
    new_ts: sql.Bound,
    types: Mapping[str, str],
) -> str:
    """Groups at boundaries, from panes."""
    assert window.slide_us is not None
    width = gcd(window.range_us, window.slide_us)
    reach = f"{_PANE} + {window.range_us}L - IF({_EDGE}, 0L, {width}L)"
    exploded = _exploded(window.slide_us, partial, _PANE, reach, old_ts, new_ts)
    values = [f"{text} AS {sql.name(name)}" for name, text in merged(operator, types)]
    return _grouped([f"{_BOUNDARY} AS {sql.name(TS)}", *group_names(operator), *values], exploded, operator)


def _exploded(slide_us: int, source: str, first: str, last: str, old: sql.Bound, new: sql.Bound) -> str:
    """Each row once for every due boundary between its first and its last instant."""
    low = f"greatest({first} + pmod(-({first}), {slide_us}L), {old.at(first)})"
    high = f"least({last} - pmod({last}, {slide_us}L), {new.at(first)})"
    due = f"explode(sequence(\n    {low},\n    {high},\n    {slide_us}L)) AS {_BOUNDARY}"
    return sql.select(["*", due], source, [f"{low}\n  <= {high}"])


def _grouped(items: Sequence[str], source: str, operator: Aggregate) -> str:
    return f"{sql.select(items, source)}\nGROUP BY {', '.join([_BOUNDARY, *group_names(operator)])}"


def group_names(operator: Grouped) -> list[str]:
    """The columns of group keys."""
    return [sql.name(key.name) for key in operator.keys]


def _argument(position: int, place: int = 0) -> str:
    return f"`$arg{position}.{place}`" if place else f"`$arg{position}`"


def _arguments(operator: Grouped, call: AggregateExpression) -> list[str]:
    """What a function is called with: columns, or constants as they were written."""
    position = operator.aggregates.index(call)
    others = enumerate(call.others, start=1)
    return [_argument(position), *(_argument(position, n) if o.columns else o.text for n, o in others)]


def partials(operator: Grouped) -> list[tuple[str, str]]:
    """Mergeable partial values, by name."""
    found = []
    for position, call in enumerate(operator.aggregates):
        argument = _argument(position)
        if call.function == "AVG":
            found.append((f"{call.name}_sum", f"sum({argument})"))
            found.append((f"{call.name}_count", f"count({argument})"))
        elif call.distinct:
            found.append((f"{call.name}_set", f"collect_set({argument})"))
        else:
            found.append((f"{call.name}_{call.function.lower()}", _plain(operator, call)))
    return found


def merge(name: str, over: str = "") -> str:
    """Merge several partial values into one; ``over`` is a frame, if it is not over a group."""
    kind = name.rsplit("_", 1)[1]
    if kind == "set":
        return f"array_distinct(flatten(collect_list({sql.name(name)}) {over}))"
    if kind == "list":
        return f"flatten(collect_list({sql.name(name)}) {over})"
    function = kind if kind in ("min", "max") else "sum"
    return f"{function}({sql.name(name)}) {over}".rstrip()


def merged(operator: Grouped, types: Mapping[str, str]) -> list[tuple[str, str]]:
    """Final values from partial ones, in the types that Spark gives them."""
    values = []
    for call in operator.aggregates:
        if call.function == "AVG":
            total, count = merge(f"{call.name}_sum"), merge(f"{call.name}_count")
            value = f"CASE WHEN {count} > 0 THEN {total} / {count} END"
        else:
            value = merge(f"{call.name}_{call.function.lower()}")
        values.append((call.name, f"CAST({value} AS {types[call.name]})"))
    return values


def final(operator: Grouped, types: Mapping[str, str]) -> list[tuple[str, str]]:
    """Final values from partial ones that are merged already."""
    values = []
    for call in operator.aggregates:
        if call.function == "AVG":
            total, count = sql.name(f"{call.name}_sum"), sql.name(f"{call.name}_count")
            value = f"CASE WHEN {count} > 0 THEN {total} / {count} END"
        elif call.distinct:
            value = f"size({sql.name(f'{call.name}_set')})"
        else:
            value = sql.name(f"{call.name}_{call.function.lower()}")
        values.append((call.name, f"CAST({value} AS {types[call.name]})"))
    return values


def per_tuple(operator: Aggregate, tuples: str, old_ts: sql.Bound) -> str:
    """The new value of its group for every tuple from ``old_ts`` on.

    ``tuples`` hold all that may be in a window; those of partitioned row windows with their expiry.
    """
    window, groups = operator.window, group_names(operator)
    own, seq = sql.name(TS), sql.name(SEQ)
    by = f"PARTITION BY {', '.join(groups)} " if groups else ""
    if isinstance(window, TimeWindow):
        source, over = _time_frame(keyed(operator, tuples, [TS, SEQ]), groups, window)
    elif isinstance(window, RowWindow) and not window.keys:
        source = keyed(operator, tuples, [TS, SEQ])
        over = f"({by}ORDER BY {seq} RANGE BETWEEN {window.rows - 1} PRECEDING AND CURRENT ROW)"
    elif isinstance(window, RowWindow) and _groups_by_key(operator, window):
        source, place = keyed(operator, tuples, [TS, PLACE_IN_KEY]), sql.name(PLACE_IN_KEY)
        over = f"({by}ORDER BY {place} RANGE BETWEEN {window.rows - 1} PRECEDING AND CURRENT ROW)"
    elif isinstance(window, UntilWindow):
        source = keyed(operator, tuples, [TS, SEQ, UNTIL])
        return _by_lifetime(operator, source, UNTIL, f"{sql.name(UNTIL)} >= n.{own}", old_ts)
    else:
        source, expiry = keyed(operator, tuples, [TS, SEQ, EXPIRY_SEQ]), sql.name(EXPIRY_SEQ)
        is_inside = f"({expiry} IS NULL OR {expiry} > `$now`)"
        return _by_lifetime(operator, source, EXPIRY_SEQ, is_inside, old_ts)
    values = [f"{_framed(operator, call, over)} AS {sql.name(call.name)}" for call in operator.aggregates]
    everything = sql.select([own, *groups, *values], source)
    return sql.select(["*"], everything, [f"{own} >= {old_ts.at(own)}"])


def _groups_by_key(operator: Aggregate, window: RowWindow) -> bool:
    """Whether all tuples of a group have the same key of the window, so that a frame holds the window."""
    grouped = {key.expression.text.lower() for key in operator.keys}
    return {sql.name(column_of(operator.alias, key)).lower() for key in window.keys} <= grouped


def _time_frame(source: str, groups: Sequence[str], window: TimeWindow) -> tuple[str, str]:
    """A frame over an instant that also orders tuples of equal timestamps.

    The instant is timestamp * 2 * TIES + rank among equals; a reach of half a microsecond more than the
    window takes in all ranks of its first microsecond and none of the one before.
    """
    own = sql.name(TS)
    rank = f"row_number() OVER (PARTITION BY {', '.join([*groups, own])} ORDER BY {sql.name(SEQ)}) - 1"
    instant = f"CAST(CAST({own} AS DECIMAL(38,0)) * {2 * _TIES}BD + {rank} AS DECIMAL(38,0))"
    timed = sql.select(["*", f"{instant} AS `$instant`"], source)
    by = f"PARTITION BY {', '.join(groups)} " if groups else ""
    reach = window.range_us * 2 * _TIES + _TIES
    frame = f"RANGE BETWEEN CAST({reach}BD AS DECIMAL(38,0)) PRECEDING AND CURRENT ROW"
    return timed, f"({by}ORDER BY `$instant` {frame})"


def _by_lifetime(operator: Aggregate, source: str, leaving: str, is_inside: str, old_ts: sql.Bound) -> str:
    """Join each arriving tuple with the tuples of its group that are inside the window at that instant.

    ``leaving`` is the column that decides when a tuple leaves.
    """
    own, seq, groups = sql.name(TS), sql.name(SEQ), group_names(operator)
    arriving = sql.select(
        [own, f"{seq} AS `$now`", *(f"{group} AS `$g{i}`" for i, group in enumerate(groups))],
        source,
        [f"{own} >= {old_ts.at(own)}"],
    )
    texts = (text for call in operator.aggregates for text in _arguments(operator, call))
    arguments = [text for text in texts if text.startswith("`$arg")]
    alive = sql.select([seq, sql.name(leaving), *groups, *arguments], source)
    together = [f"{seq} <= `$now`", is_inside]
    together += [f"`$g{position}` <=> {group}" for position, group in enumerate(groups)]
    values = [f"{_plain(operator, call)} AS {sql.name(call.name)}" for call in operator.aggregates]
    return (
        f"SELECT {sql.listed([own, *groups, *values])}\n"
        f"FROM {sql.relation(arriving)} AS n\nJOIN {sql.relation(alive)} AS a\n  ON {sql.all_of(together)}\n"
        f"GROUP BY {', '.join([own, '`$now`', *groups])}"
    )


def _plain(operator: Grouped, call: AggregateExpression) -> str:
    arguments = ", ".join(_arguments(operator, call))
    return f"{call.function.lower()}({'DISTINCT ' if call.distinct else ''}{arguments})"


def _framed(operator: Aggregate, call: AggregateExpression, over: str) -> str:
    argument = _argument(operator.aggregates.index(call))
    if call.distinct:
        # Spark has no DISTINCT over a frame
        return f"CAST(size(collect_set({argument}) OVER {over}) AS BIGINT)"
    return f"{_plain(operator, call)} OVER {over}"


def running(operator: Aggregate, tuples: str, carried: str | None) -> str:
    """The new value of its group for every tuple, over all time; ``carried`` are the groups before."""
    groups, own = group_names(operator), sql.name(TS)
    by = f"PARTITION BY {', '.join(groups)} " if groups else ""
    over = f"OVER ({by}ORDER BY {own}, {sql.name(SEQ)} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    parts = [f"{text} {over} AS {sql.name(name)}" for name, text in partials(operator)]
    partial = sql.select([own, *groups, *parts], keyed(operator, tuples, [TS, SEQ]))
    values = []
    for call in operator.aggregates:
        if call.function == "AVG":
            total, count = (_combined(f"{call.name}_{part}", carried) for part in ("sum", "count"))
            values.append(f"CASE WHEN {count} > 0 THEN {total} / {count} END AS {sql.name(call.name)}")
        else:
            value = _combined(f"{call.name}_{call.function.lower()}", carried)
            values.append(f"{value} AS {sql.name(call.name)}")
    items = [f"n.{own}", *(f"n.{group}" for group in groups), *values]
    if carried is None:
        return f"SELECT {sql.listed(items)}\nFROM {sql.relation(partial)} AS n"
    same = sql.all_of([f"n.{group} <=> o.{group}" for group in groups])
    return (
        f"SELECT {sql.listed(items)}\nFROM {sql.relation(partial)} AS n\n"
        f"LEFT JOIN {sql.relation(carried)} AS o\n  ON {same}"
    )


def _combined(name: str, carried: str | None) -> str:
    new, old = f"n.{sql.name(name)}", f"o.{sql.name(name)}"
    if carried is None:
        return new
    kind = name.rsplit("_", 1)[1]
    if kind in ("min", "max"):
        return f"{'least' if kind == 'min' else 'greatest'}({new}, {old})"
    return f"CASE WHEN {new} IS NULL THEN {old} WHEN {old} IS NULL THEN {new} ELSE {new} + {old} END"


# without tuples there is no group, even if there are no keys
_IF_ANY = "\nHAVING count(*) > 0"


def carry(operator: Grouped, tuples: str, carried: str | None, without_keys: str = _IF_ANY) -> str:
    """The state of every group after these tuples, to be carried to the next tick.

    ``without_keys`` is what stands in place of GROUP BY.
    """
    groups = group_names(operator)
    parts = [f"{text} AS {sql.name(name)}" for name, text in partials(operator)]
    fresh = sql.select([*groups, *parts], keyed(operator, tuples, [TS]))
    by = f"\nGROUP BY {', '.join(groups)}" if groups else without_keys
    fresh += by
    if carried is None:
        return fresh
    names = [name for name, _ in partials(operator)]
    again = [f"{merge(name)} AS {sql.name(name)}" for name in names]
    old = sql.select([*groups, *sql.names(names)], carried)
    both = sql.union([old, fresh])
    assert both is not None
    return sql.select([*groups, *again], both) + by


def direct(operator: Grouped) -> list[tuple[AggregateExpression, str]]:
    """The aggregate functions over all tuples, as plain Spark SQL."""
    return [(call, _plain(operator, call)) for call in operator.aggregates]

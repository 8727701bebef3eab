"""Changes of tables: every row that comes, goes or becomes another one, with the instant at which it does.

The rows at an instant are those after all tuples of that timestamp, so that changes do not depend on ticks. A
*version* is a row of the state from an instant on; consecutive versions with the same identity are compared.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import MapType, StructType, VariantType

from headgate.model.operator import Changes
from headgate.model.table import CHANGE, RANK, Groups, Named, RankedState, Ranking, Where
from headgate.spark import sql
from headgate.spark.operators import aggregate
from headgate.spark.operators.base import OperatorContext, SparkOperator, orderable, spark_operator
from headgate.spark.operators.stateless import TIMESTAMP
from headgate.spark.operators.tables import LAST, TableOperator
from headgate.spark.sql import BEGINNING_US, TS

_AT, _PLACE, _FIRST, _EARLIER, _ENTRY = "`$at`", "`$place`", "`$first`", "`$earlier`", "`$entry`"
_TIER = "`$tier`"
_ROW, _BEFORE, _IS_THERE, _CHANGED = "`$new row`", "`$old row`", "`$is there`", "`$changed`"
# what was carried from earlier ticks is there before the first instant
_CARRIED_AT = f"{BEGINNING_US}L"


class ChangesOperator(TableOperator):
    """Emits every change of the rows of a table, with its kind."""

    settings: Changes

    is_comparable: bool = False
    """Whether two rows can be compared; if not, a row that may have changed counts as changed."""

    def emitted(self, tuples: str, carried: str | None, state: str) -> str:
        """The changes that these tuples bring."""
        del state
        rows, last = self._rows(tuples, carried)
        order = f"OVER ({_by(self._identity)}ORDER BY {_AT})"
        paired = sql.select([_AT, _ROW, f"lag({_ROW}) {order} AS {_BEFORE}"], rows)
        is_other = f"NOT ({_ROW} <=> {_BEFORE})" if self.is_comparable else "TRUE"
        either = f"({_ROW} IS NOT NULL OR {_BEFORE} IS NOT NULL)"
        changed = sql.select(["*"], paired, [f"{_AT} > {_CARRIED_AT}", either, is_other])
        kinds = (
            f"explode(CASE WHEN {_BEFORE} IS NULL THEN array({_kind('insert', _ROW)})\n"
            f"    WHEN {_ROW} IS NULL THEN array({_kind('delete', _BEFORE)})\n"
            f"    ELSE array({_kind('update_before', _BEFORE)}, {_kind('update_after', _ROW)})\n"
            f"  END) AS {_CHANGED}"
        )
        listed = sql.select([f"{_AT} AS {sql.name(TS)}", kinds], changed)
        values = [f"{_CHANGED}.row.{sql.name(item.name)} AS {sql.name(item.name)}" for item in last.items]
        shown = [f"{self._timestamp} AS {TIMESTAMP}", f"{_CHANGED}.kind AS {CHANGE}", *values, sql.name(TS)]
        return sql.select(shown, listed)

    def compared(self, tuples: str) -> str:
        """All rows that are compared."""
        rows, last = self._rows(tuples, None)
        return sql.select([f"{_ROW}.{sql.name(item.name)}" for item in last.items], rows)

    def learn(self, compared: StructType) -> None:
        """Take note of the types of rows."""
        kinds = [field.dataType for field in compared.fields]
        self.is_comparable = not any(isinstance(kind, (MapType, VariantType)) for kind in kinds)

    @property
    def _identity(self) -> list[str]:
        """The columns that are equal for all versions of a row."""
        state = self.settings.state
        if isinstance(state, Groups):
            return _numbered(len(state.keys))
        assert isinstance(state, RankedState)
        is_one = state.ranking.rows == 1 and state.ranking.function == "ROW_NUMBER"
        return _numbered(len(state.ranking.keys) + (not is_one))

    def _rows(self, tuples: str, carried: str | None) -> tuple[str, Named]:
        """Every version of a row as it is selected, NULL if it is not there; and what is selected."""
        state, (*before, last) = self.settings.state, self.settings.steps
        assert isinstance(last, Named), "a select list is the last step"
        if isinstance(state, Groups):
            rows, columns = self._groups(state, tuples, carried)
        else:
            assert isinstance(state, RankedState), "changes are those of all tuples so far"
            rows, columns = self._ranked(state, tuples, carried)
        beside = [*self._identity, _AT, sql.name(TS)]
        for step in before:
            if isinstance(step, Where):
                # what WHERE leaves out is not there; nothing is computed of it
                is_there = (
                    f"{_IS_THERE} AND coalesce({sql.conjunction(step.predicates)}, FALSE) AS {_IS_THERE}"
                )
                rows = sql.select([*beside, is_there, *sql.names(columns)], rows)
            else:
                assert isinstance(step, Named), f"{step} is no step for single rows"
                items = [f"{_if_there(item.expression.text)} AS {sql.name(item.name)}" for item in step.items]
                rows = sql.select([*beside, _IS_THERE, *items], rows)
                columns = [item.name for item in step.items]
        row = f"{_if_there(f'struct({sql.listed([*map(sql.aliased, last.items)])})')} AS {_ROW}"
        return sql.select([*self._identity, _AT, row], rows), last

    def _groups(self, state: Groups, tuples: str, carried: str | None) -> tuple[str, list[str]]:
        """The state of every group after each instant at which it has a tuple."""
        own, groups = sql.name(TS), aggregate.group_names(state)
        partials = [(name, text) for name, text in aggregate.partials(state)]
        names = sql.names([name for name, _ in partials])
        parts = [f"{text} AS {sql.name(name)}" for name, text in partials]
        fresh = sql.select([f"{own} AS {_AT}", own, *groups, *parts], aggregate.keyed(state, tuples, [TS]))
        fresh += f"\nGROUP BY {', '.join([own, *groups])}"
        last = sql.name(f"{LAST.name}_max")
        kept = carried and sql.select(
            [f"{_CARRIED_AT} AS {_AT}", f"{last} AS {own}", *groups, *names], carried
        )
        both = sql.union([kept, fresh])
        assert both is not None
        over = f"OVER ({_by(groups)}ORDER BY {_AT} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
        merged = [f"{aggregate.merge(name, over)} AS {sql.name(name)}" for name, _ in partials]
        after = sql.select([_AT, own, *groups, *merged], both)
        values = [f"{text} AS {sql.name(name)}" for name, text in aggregate.final(state, self.types)]
        identity = [f"{group} AS {name}" for group, name in zip(groups, self._identity, strict=True)]
        rows = sql.select([*identity, _AT, own, f"TRUE AS {_IS_THERE}", *groups, *values], after)
        return rows, [*(key.name for key in state.keys), *(call.name for call in state.aggregates)]

    def _ranked(self, state: RankedState, tuples: str, carried: str | None) -> tuple[str, list[str]]:
        """The first rows of every partition after each instant at which it has a tuple.

        A row is told apart by its rank where that is shown; otherwise by its place among all rows of the
        tick, and the state.
        """
        ranking, keys = state.ranking, _numbered(len(state.ranking.keys))
        placed = self._placed(state, keys, tuples, carried)
        if ranking.function == "ROW_NUMBER":
            rows = self._numbered_rows(state, keys, placed)
        else:
            rows = _tied_rows(ranking, keys, placed, self._shows_rank)
        values = [f"{_ENTRY}.{column} AS {column}" for column in sql.names([TS, *state.columns])]
        items = [*self._identity, _AT, _IS_THERE, sql.name(RANK), *values]
        return sql.select(items, rows), [*state.columns, RANK]

    def _placed(self, state: RankedState, keys: Sequence[str], tuples: str, carried: str | None) -> str:
        """All tuples, and those of the state, with the place of each in its partition."""
        own, columns, ranking = sql.name(TS), sql.names(state.columns), state.ranking
        kept = carried and sql.select([f"{_CARRIED_AT} AS {_AT}", own, *columns], carried)
        both = sql.union([kept, sql.select([f"{own} AS {_AT}", own, *columns], tuples)])
        assert both is not None
        identified = [f"{key.text} AS {name}" for key, name in zip(ranking.keys, keys, strict=True)]
        known = StructType([field for field in self.inputs[0].fields if field.name in state.columns])
        order = ", ".join([*map(str, ranking.order), *orderable(known)])
        placed = sql.select(["*", *identified], both)
        place = f"row_number() OVER ({_by(keys)}ORDER BY {order}) AS {_PLACE}"
        tier = f"dense_rank() OVER ({_by(keys)}ORDER BY {', '.join(map(str, ranking.order))}) AS {_TIER}"
        placed = sql.select(["*", place, tier], placed)
        entry = f"struct({_PLACE} AS place, {', '.join([own, *columns])}) AS {_ENTRY}"
        return sql.select([*keys, _AT, _PLACE, _TIER, entry], placed)

    def _numbered_rows(self, state: RankedState, keys: Sequence[str], placed: str) -> str:
        """Versions of the first rows, each with a rank of its own."""
        rows = state.ranking.rows
        instants = _instants(keys, placed, f"min_by({_ENTRY}, {_PLACE}, {rows})")
        by_rank = rows == 1 or self._shows_rank
        return _by_rank(keys, instants, rows) if by_rank else _by_place(keys, instants)

    @property
    def _shows_rank(self) -> bool:
        selected = next(step for step in self.settings.steps if isinstance(step, Named))
        return any(RANK in item.expression.columns for item in selected.items)


def _instants(keys: Sequence[str], rows: str, first: str) -> str:
    """Of every partition and instant, what comes first so far, and what came first before."""
    so_far = f"OVER ({_by(keys)}ORDER BY {_AT} RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    one = f"row_number() OVER ({_by([*keys, _AT])}ORDER BY {_PLACE}) AS `$peer`"
    instants = sql.select([*keys, _AT, f"{first} {so_far} AS {_FIRST}", one], rows)
    instants = sql.select([*keys, _AT, _FIRST], instants, ["`$peer` = 1"])
    earlier = f"lag({_FIRST}) OVER ({_by(keys)}ORDER BY {_AT}) AS {_EARLIER}"
    return sql.select([*keys, _AT, _FIRST, earlier], instants)


def _tied_rows(ranking: Ranking, keys: Sequence[str], placed: str, shows_rank: bool) -> str:
    """Versions of the rows of RANK and DENSE_RANK, of which any number may have one rank.

    Rows that are equal in the order are a *tier*. The rank of a tier is its place among the first tiers:
    counted once for each of its rows for RANK, and once for DENSE_RANK. Later tuples only move it back, so
    a row has no more versions than there are ranks.
    """
    counted = placed
    if ranking.function == "DENSE_RANK":
        first = f"row_number() OVER ({_by([*keys, _TIER])}ORDER BY {_AT}, {_PLACE}) AS `$of tier`"
        counted = sql.select(["*"], sql.select(["*", first], placed), ["`$of tier` = 1"])
    instants = _instants(keys, counted, f"min_by({_TIER}, {_TIER}, {ranking.rows})")
    tiers = f"explode(array_union({_FIRST}, coalesce({_EARLIER}, slice({_FIRST}, 1, 0)))) AS {_TIER}"
    rank, before = (f"nullif(array_position({of}, {_TIER}), 0)" for of in (_FIRST, _EARLIER))
    is_other = f"NOT ({rank} <=> {before})" if shows_rank else f"({rank} IS NULL) <> ({before} IS NULL)"
    moved = sql.select([*keys, _AT, _FIRST, _EARLIER, tiers], instants)
    moved = sql.select([*keys, _AT, _TIER, f"CAST({rank} AS INT) AS {sql.name(RANK)}"], moved, [is_other])
    until = f"lead({_AT}) OVER ({_by([*keys, _TIER])}ORDER BY {_AT}) AS `$until`"
    versions = sql.select([*keys, _AT, _TIER, sql.name(RANK), until], moved)
    same = [f"p.{column} <=> w.{column}" for column in (*keys, _TIER)]
    place = _numbered(len(keys) + 1)[-1]
    items = [*(f"p.{key}" for key in keys), f"p.{_PLACE} AS {place}", f"p.{_ENTRY}"]
    items += [f"greatest(p.{_AT}, w.{_AT}) AS {_AT}", f"w.{sql.name(RANK)}"]
    items.append(f"w.{sql.name(RANK)} IS NOT NULL AS {_IS_THERE}")
    return (
        f"SELECT {sql.listed(items)}\nFROM {sql.relation(placed)} AS p\nJOIN {sql.relation(versions)} AS w\n"
        f"  ON {sql.all_of([*same, f'(w.`$until` IS NULL OR w.`$until` > p.{_AT})'])}"
    )


def _by_rank(keys: Sequence[str], instants: str, rows: int) -> str:
    """The row of every rank that another one had before."""
    rank = sql.name(RANK)
    ranked = sql.select(["*", f"explode(sequence(1, {rows})) AS {rank}"], instants)
    entry, earlier = f"get({_FIRST}, {rank} - 1)", f"get({_EARLIER}, {rank} - 1)"
    is_other = f"NOT ({entry}.place <=> {earlier}.place)"
    identity = [f"{rank} AS {name}" for name in _numbered(len(keys) + 1)[len(keys) :]] if rows > 1 else []
    items = [*keys, *identity, _AT, rank, f"{entry} AS {_ENTRY}", f"{entry} IS NOT NULL AS {_IS_THERE}"]
    return sql.select(items, ranked, [is_other])


def _by_place(keys: Sequence[str], instants: str) -> str:
    """Rows that come among the first, or are no longer among them."""
    came = _entries(_FIRST, _EARLIER, "TRUE")
    went = _entries(f"coalesce({_EARLIER}, slice({_FIRST}, 1, 0))", _FIRST, "FALSE")
    moved = sql.select([*keys, _AT, f"explode(concat({came}, {went})) AS `$moved`"], instants)
    [identity] = _numbered(len(keys) + 1)[len(keys) :]
    items = [*keys, f"`$moved`.entry.place AS {identity}", _AT, f"CAST(NULL AS INT) AS {sql.name(RANK)}"]
    return sql.select([*items, f"`$moved`.entry AS {_ENTRY}", f"`$moved`.is_there AS {_IS_THERE}"], moved)


def _entries(of: str, without: str, is_there: str) -> str:
    """The entries of an array whose place no entry of another one has."""
    is_new = f"NOT coalesce(array_contains({without}.place, e.place), FALSE)"
    return f"transform(filter({of}, e -> {is_new}), e -> struct({is_there} AS is_there, e AS entry))"


def _numbered(count: int) -> list[str]:
    return [f"`$id{number}`" for number in range(count)]


def _by(columns: Sequence[str]) -> str:
    return f"PARTITION BY {', '.join(columns)} " if columns else ""


def _if_there(value: str) -> str:
    return f"CASE WHEN {_IS_THERE} THEN {value} END"


def _kind(name: str, row: str) -> str:
    return f"struct('{name}' AS kind, {row} AS row)"


@spark_operator.register
def _changes(settings: Changes, context: OperatorContext) -> SparkOperator:
    return ChangesOperator(settings, context.timestamp(settings.name), context.store)

"""Changes of tables: every row that comes, goes or becomes another one, with the instant at which it does.

The rows at an instant are those after all tuples of that timestamp, so that changes do not depend on ticks. A
*version* is a row of the state from an instant on; consecutive versions with the same identity are compared.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import MapType, StructType, VariantType

from headgate.model.operator import Changes
from headgate.model.table import CHANGE, RANK, Groups, Named, RankedState, Where
from headgate.spark import sql
from headgate.spark.operators import aggregate
from headgate.spark.operators.base import OperatorContext, SparkOperator, orderable, spark_operator
from headgate.spark.operators.stateless import TIMESTAMP
from headgate.spark.operators.tables import LAST, TableOperator
from headgate.spark.sql import BEGINNING_US, TS

_AT, _PLACE, _FIRST, _EARLIER, _ENTRY = "`$at`", "`$place`", "`$first`", "`$earlier`", "`$entry`"
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
        return _numbered(len(state.ranking.keys) + (state.ranking.rows > 1))

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
        own, columns, ranking = sql.name(TS), sql.names(state.columns), state.ranking
        kept = carried and sql.select([f"{_CARRIED_AT} AS {_AT}", own, *columns], carried)
        both = sql.union([kept, sql.select([f"{own} AS {_AT}", own, *columns], tuples)])
        assert both is not None
        keys = _numbered(len(ranking.keys))
        identified = [f"{key.text} AS {name}" for key, name in zip(ranking.keys, keys, strict=True)]
        known = StructType([field for field in self.inputs[0].fields if field.name in state.columns])
        order = ", ".join([*map(str, ranking.order), *orderable(known)])
        placed = sql.select(["*", *identified], both)
        placed = sql.select(["*", f"row_number() OVER ({_by(keys)}ORDER BY {order}) AS {_PLACE}"], placed)
        so_far = f"OVER ({_by(keys)}ORDER BY {_AT} RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
        entry = f"struct({_PLACE} AS place, {', '.join([own, *columns])})"
        first = f"min_by({entry}, {_PLACE}, {ranking.rows}) {so_far} AS {_FIRST}"
        one = f"row_number() OVER ({_by([*keys, _AT])}ORDER BY {_PLACE}) AS `$peer`"
        instants = sql.select([*keys, _AT, first, one], placed)
        instants = sql.select([*keys, _AT, _FIRST], instants, ["`$peer` = 1"])
        earlier = f"lag({_FIRST}) OVER ({_by(keys)}ORDER BY {_AT}) AS {_EARLIER}"
        instants = sql.select([*keys, _AT, _FIRST, earlier], instants)
        by_rank = ranking.rows == 1 or self._shows_rank
        rows = _by_rank(keys, instants, ranking.rows) if by_rank else _by_place(keys, instants)
        values = [f"{_ENTRY}.{column} AS {column}" for column in (own, *columns)]
        identity = [*keys, *(_numbered(len(keys) + 1)[len(keys) :] if ranking.rows > 1 else [])]
        return sql.select([*identity, _AT, _IS_THERE, sql.name(RANK), *values], rows), [*state.columns, RANK]

    @property
    def _shows_rank(self) -> bool:
        selected = next(step for step in self.settings.steps if isinstance(step, Named))
        return any(RANK in item.expression.columns for item in selected.items)


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

"""FROM: its streams, relations and windows as a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from sqlglot import exp

from headgate.cql.syntax import ColumnReference, JoinKind
from headgate.errors import QueryError
from headgate.model import joins
from headgate.model.expression import Expression, column_of
from headgate.model.network import RelationDefinition
from headgate.model.sql_tree import operand
from headgate.model.window import (
    HopWindow,
    LandmarkWindow,
    UnboundedWindow,
    Window,
)
from headgate.planning.from_items import BoundColumn, Source
from headgate.planning.logical import (
    Explode,
    GeneratedRows,
    Node,
    RelationJoin,
    RelationScan,
    StreamScan,
    WindowJoin,
)
from headgate.planning.placed_calls import outside_joins
from headgate.planning.source_checks import STREAM_JOINS, SourceChecks
from headgate.planning.time_conditions import Timestamps, bounded_by_conditions

_RELATION_JOINS = {
    JoinKind.INNER: joins.RelationJoin,
    JoinKind.LEFT: joins.LeftRelationJoin,
    JoinKind.SEMI: joins.SemiRelationJoin,
    JoinKind.ANTI: joins.AntiRelationJoin,
}
# types of timestamps whose differences are differences of time
_TIMES = frozenset(("TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"))
IN_RESULTS = "use it in SELECT or HAVING"
_WHOLE_NUMBERS = frozenset(("BIGINT", "LONG", "INT", "INTEGER"))


class Scope(SourceChecks):
    """The sources of one SELECT, and their join."""

    def joined(self, conditions: Sequence[Expression]) -> Node:
        """All sources, joined; ``conditions`` are those of WHERE."""
        scans = self.scans()
        return self.with_relations(scans[0] if len(scans) == 1 else self._joined_streams(scans, conditions))

    def scans(self) -> tuple[StreamScan, ...]:
        """What is read of the streams."""
        return tuple(
            StreamScan(s.definition.name, s.alias, s.brought, self._window_of(s), s.is_derived)
            for s in self.streams
        )

    def with_relations(self, node: Node, renamed: Mapping[str, exp.Expr] = MappingProxyType({})) -> Node:
        """The join of streams, joined with the stored relations; its columns may have been renamed."""
        # conditions of other joins may read the values of subqueries
        for relation in sorted(self.sources, key=lambda source: not source.item.is_value):
            if relation in self.streams:
                continue
            assert isinstance(relation.definition, RelationDefinition)
            if relation.generated is not None and relation.item.generator is not None:
                rows = GeneratedRows(relation.definition.name, relation.alias, relation.schema.names)
                is_outer = relation.item.generator.is_outer
                node = Explode(node, rows, relation.generated.over(renamed), is_outer)
            else:
                named = relation.definition.name, relation.alias, relation.schema.names
                scan = RelationScan(*named, relation.definition if relation.definition.selects else None)
                kind = _RELATION_JOINS[relation.item.join]
                own = tuple(one.over(renamed) for one in self.on_of_relation(relation))
                node = RelationJoin(node, scan, own, kind)
        return node

    def _joined_streams(self, scans: tuple[StreamScan, ...], conditions: Sequence[Expression]) -> WindowJoin:
        outer = next((s for s in self.streams if s.item.join is not JoinKind.INNER), None)
        on = () if outer is None else self.on(outer)
        if outer is not None:
            self._check_condition_of_streams(outer, on)
        bounded = bounded_by_conditions(scans, conditions if outer is None else on, self._timestamps())
        for source, scan in zip(self.streams, bounded, strict=True):
            name = source.item.source
            if source.item.window is None and isinstance(scan.window, UnboundedWindow):
                message = f"{name.text} needs a window in a join, e.g. {name.text} [RANGE 10 SECONDS]"
                others = (
                    "[UNBOUNDED] to keep all tuples" if outer is None else "a condition on both timestamps"
                )
                raise QueryError(f"{message}, or {others}", name.span)
        kind = JoinKind.INNER if outer is None else outer.item.join
        return WindowJoin(bounded, on, self._probe_pools(), STREAM_JOINS[kind])

    def on_of_relation(self, source: Source) -> tuple[Expression, ...]:
        """The condition of a join with a stored relation; that of an inner one is like WHERE."""
        return () if source.item.join is JoinKind.INNER else self.on(source)

    def on_of_stream(self, source: Source) -> tuple[Expression, ...]:
        """The condition of a join with a stream; that of an inner one is like WHERE."""
        on = self.on_of_relation(source)
        self._check_condition_of_streams(source, on)
        return on

    def on(self, source: Source) -> tuple[Expression, ...]:
        """The condition of a join that is not inner."""
        with self._in_join_of(source):
            for one in source.item.on:
                self.check_known(one, IN_RESULTS)
            on = tuple(conjunct(self.condition(one)) for one in source.item.on)
        terms = (*on, *self._equal(source), *self._compared(source))
        return tuple(outside_joins(term, self._catalog) for term in terms)

    def _compared(self, source: Source) -> Iterator[Expression]:
        """What IN compares. For NOT IN, a comparison with NULL is as good as a match, as SQL has it."""
        if source.item.test is None or source.item.test.compared is None:
            return
        value, listed = source.item.test.compared
        self.check_known(value, IN_RESULTS)
        left = self.bind(value)
        with self._in_join_of(source):
            right = self.bind(listed)
        span = replace(value.span, end=listed.span.end)
        equal = exp.EQ(this=operand(left.tree), expression=operand(right.tree))
        if source.item.join is JoinKind.ANTI:
            unknown = exp.Is(this=exp.Paren(this=equal.copy()), expression=exp.Null())
            yield Expression(exp.Paren(this=exp.Or(this=equal.copy(), expression=unknown)), span)
        else:
            yield Expression(equal, span)

    def _timestamps(self) -> Timestamps:
        """The timestamps of the streams, as far as conditions between them tell how far tuples are apart."""
        kinds = {source.timestamp_type.strip().upper() for source in self.streams}
        are_numbers = kinds <= _WHOLE_NUMBERS
        if (not are_numbers and len(kinds) > 1) or not kinds <= _WHOLE_NUMBERS | _TIMES:
            return Timestamps({}, are_numbers)
        columns = {
            column_of(source.alias, column.name): (source.alias, later_us)
            for source in self.streams
            for column in source.schema.columns
            # results may have fractions of seconds, which whole numbers do not show
            if (later_us := self.later_us(source, column)) is not None
            and not (are_numbers and source.is_derived)
        }
        return Timestamps(columns, are_numbers)

    def _window_of(self, source: Source) -> Window:
        """What is read of a stream; when totals are shown is up to the aggregate."""
        is_shown = isinstance(source.window, LandmarkWindow) and len(self.streams) > 1
        is_named = len(self.streams) == 1 and not self._needs_window and isinstance(source.window, HopWindow)
        return UnboundedWindow() if is_shown or is_named else source.window

    def inner_conditions(self) -> Iterator[Expression]:
        """The conditions of USING, for joins whose conditions are like those of WHERE."""
        for source in self.sources:
            if source.item.join is JoinKind.INNER:
                yield from self._equal(source)

    def _equal(self, source: Source) -> Iterator[Expression]:
        """The columns of USING, equal on both sides."""
        before = self.sources[: self.sources.index(source)]
        for name in source.item.using:
            own = source.column(ColumnReference(source.alias, name.text, name.span))
            others = [other for other in before if other.schema.find(name.text) and other.shows(name.text)]
            if not others:
                message = f"{name.text} is no column of {' or '.join(other.alias for other in before)}"
                raise QueryError(f"{message}; USING takes columns of both sides", name.span)
            if len(others) > 1:
                choices = [f"ON {o.alias}.{name.text} = {source.alias}.{name.text}" for o in others]
                message = f"{name.text} of the left side is ambiguous; write {' or '.join(choices)}"
                raise QueryError(message, name.span)
            left = others[0].column(ColumnReference(others[0].alias, name.text, name.span))
            sides = BoundColumn(others[0], left).tree, BoundColumn(source, own).tree
            yield Expression(exp.EQ(this=sides[0].copy(), expression=sides[1].copy()), name.span)


def conjunct(predicate: Expression) -> Expression:
    """The predicate, in parentheses if AND would bind tighter."""
    tree = predicate.tree
    return replace(predicate, tree=exp.Paren(this=tree.copy())) if isinstance(tree, exp.Or) else predicate

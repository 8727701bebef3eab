"""Bind: resolve the names of a SELECT against the catalog, giving the first logical plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from sqlglot import exp

from headgate.cql.syntax import Emission, RankItem, ScalarExpression, Select, SelectItem
from headgate.errors import QueryError
from headgate.model import operator as physical
from headgate.model.expression import (
    TIMESTAMP_US,
    AggregateExpression,
    Expression,
    NamedExpression,
)
from headgate.model.sql_tree import column_tree
from headgate.model.table import RANK, Groups, Ranking, SortKey
from headgate.model.window import (
    HopWindow,
    RowWindow,
    SlidingRowWindow,
    TimeWindow,
    UnboundedWindow,
    Window,
    is_emitted_whole,
)
from headgate.planning.catalog import Catalog
from headgate.planning.from_clause import IN_RESULTS, Scope, conjunct
from headgate.planning.grouping import Grouping
from headgate.planning.join_chain import is_chain, joined_in_turn
from headgate.planning.logical import (
    Aggregate,
    Filter,
    Node,
    Project,
    StreamScan,
    Top,
)
from headgate.planning.placed_calls import with_pool, with_values, without_pool
from headgate.planning.relation_to_stream import check_emission
from headgate.planning.select_list import SelectList
from headgate.planning.source_columns import DerivedStreams, Joins

# the key of all tuples
_ANY = NamedExpression("k0", Expression.parse("TRUE"))


def bound_branches(written: tuple[Select, ...], unbound: list[Branch], derived: Joins) -> tuple[Project, ...]:
    """The branches of a query, all with the column names of the first."""
    branches = [branch.bound(derived) for branch in unbound]
    first = branches[0]
    check_branches(written, [branch.items for branch in branches])
    pairs = [zip(branch.items, first.items, strict=True) for branch in branches]
    items = [tuple(replace(item, name=named.name) for item, named in own) for own in pairs]
    return tuple(replace(branch, items=own) for branch, own in zip(branches, items, strict=True))


def check_branches(written: Sequence[Select], branches: Sequence[Sequence[NamedExpression]]) -> None:
    """Reject two columns of one name, and branches of a UNION ALL that differ in their number of columns."""
    first = branches[0]
    _check_names(first)
    for select, items in zip(written, branches, strict=True):
        if len(items) != len(first):
            message = f"columns of this SELECT: {len(items)}, of the first: {len(first)}"
            raise QueryError(f"{message}; UNION ALL needs as many in each", select.span)


def _check_names(items: Iterable[NamedExpression]) -> None:
    taken: set[str] = set()
    for item in items:
        if item.name.lower() in taken:
            span = item.expression.span
            written = " ".join(span.excerpt.split()) if span else ""
            is_star = written.endswith("*")
            hint = f"name the columns instead of {written}" if is_star else f"write {written} AS another_name"
            raise QueryError(f"two result columns are called {item.name}; {hint}", span)
        taken.add(item.name.lower())


@dataclass(frozen=True)
class Clauses:
    """The clauses of a SELECT behind FROM, bound; what follows GROUP BY is over groups."""

    predicates: tuple[Expression, ...]
    grouping: Groups | None
    having: Expression | None
    ranking: Ranking | None
    items: tuple[NamedExpression, ...]

    @property
    def read(self) -> list[Expression]:
        """What is evaluated for each tuple."""
        if self.grouping is not None:
            return [*self.grouping.expressions]
        ranked = [] if self.ranking is None else [*self.ranking.expressions]
        return [*ranked, *(item.expression for item in self.items)]

    def over(self, trees: Mapping[str, exp.Expr]) -> Clauses:
        """The clauses with columns of the sources replaced."""
        predicates = tuple(one.over(trees) for one in self.predicates)
        return replace(self.changed(lambda one: one.over(trees)), predicates=predicates)

    def changed(self, change: Callable[[Expression], Expression]) -> Clauses:
        """The clauses with what is evaluated for each tuple changed; groups hide it from what is behind."""
        if self.grouping is not None:
            return replace(self, grouping=self.grouping.changed(change))
        ranking = None if self.ranking is None else self.ranking.changed(change)
        items = tuple(replace(item, expression=change(item.expression)) for item in self.items)
        return replace(self, ranking=ranking, items=items)


class Branch(SelectList):
    """Binds one SELECT."""

    scope_kind: ClassVar[type[Scope]] = Scope

    def __init__(self, select: Select, catalog: Catalog, derived: DerivedStreams) -> None:
        if select.is_aggregate and select.is_distinct:
            message = "DISTINCT is for tuples; leave it out, as groups differ in their keys"
            hint = "or select the distinct values of a subquery, (SELECT ... GROUP BY ...) AS x [NOW]"
            raise QueryError(f"{message}, {hint}", select.span)
        super().__init__(select, self.scope_kind(select, catalog, derived))
        self._catalog = catalog
        self._emission = None if select.emission is None else select.emission.kind
        if select.emission is not None:
            check_emission(select, select.emission, self.scope)

    @property
    def timestamp_type(self) -> str:
        """That of its results."""
        types = {source.timestamp_type.lower() for source in self.scope.streams}
        return self.scope.streams[0].timestamp_type if len(types) == 1 else "TIMESTAMP"

    def bound(self, derived: Joins) -> Project:
        """The SELECT as a plan; ``derived`` takes what it computes as a stream of its own."""
        if self._select.is_distinct:
            return self._distinct(derived)
        node, clauses = self.source(self.clauses(Grouping), derived)
        if clauses.ranking is not None and not self._ranks_instants:
            self._check_ranked_windows()
        if clauses.grouping is None:
            return self._of_tuples(node, clauses, derived)
        node = self._aggregated(node, clauses.grouping, derived)
        if clauses.having is not None:
            node = Filter(node, (conjunct(clauses.having),))
        return Project(node if clauses.ranking is None else Top(node, clauses.ranking), clauses.items)

    def _of_tuples(self, node: Node, clauses: Clauses, derived: Joins) -> Project:
        """Results that are tuples, as they come, as they go, or all that a window holds."""
        if clauses.ranking is not None and self._ranks_instants:
            return Project(Top(node, clauses.ranking), clauses.items)
        if clauses.ranking is not None:
            return self._top(node, clauses, derived)
        if self._emission in (Emission.DELETED, Emission.WHOLE):
            kind = physical.Departures if self._emission is Emission.DELETED else physical.Contents
            return _of_window(node, clauses.items, kind)
        return Project(node, clauses.items)

    def _top(self, node: Node, clauses: Clauses, derived: Joins) -> Project:
        """The first tuples of every window."""
        if len(self.scope.streams) > 1:
            node, renamed = derived.joined(node, clauses.read, self.scope.streams[0].window)
            clauses = clauses.over(renamed)
        columns = dict.fromkeys(column for one in clauses.read for column in one.columns)
        names = {column: f"k{n}" for n, column in enumerate(columns) if column not in (TIMESTAMP_US, RANK)}
        keys = [NamedExpression(name, Expression(column_tree(column))) for column, name in names.items()]
        clauses = clauses.over({column: column_tree(name) for column, name in names.items()})
        assert clauses.ranking is not None
        rows = Aggregate(node, tuple(keys), (), physical.Contents)
        return Project(Top(rows, clauses.ranking), clauses.items)

    def source(self, clauses: Clauses, derived: Joins) -> tuple[Node, Clauses]:
        """FROM and WHERE, and the clauses over what they give, with calls of placed functions as columns."""
        scope = self.scope
        if is_chain(scope):
            relations = [one for one in scope.sources if one not in scope.streams]
            on = [condition for relation in relations for condition in scope.on_of_relation(relation)]
            on += [relation.generated for relation in relations if relation.generated is not None]
            node, renamed = joined_in_turn(scope, clauses.predicates, (*clauses.read, *on), derived)
            node, clauses = scope.with_relations(node, renamed), clauses.over(renamed)
        else:
            node = scope.joined(clauses.predicates)
        node = self._filtered(node, clauses.predicates)
        node, rewritten = with_values(node, clauses.read, self._catalog)
        return node, clauses.changed(rewritten)

    def _filtered(self, node: Node, predicates: Sequence[Expression]) -> Node:
        """The tuples for which all conditions hold; what pools evaluate as a whole comes first."""
        pairs = [(predicate, with_pool(predicate, self._catalog)) for predicate in predicates]
        if isinstance(node, StreamScan) and node.counts_derived and self._select.summarizes_windows:
            self._check_placed([one for one, placed in pairs if placed is None or placed.pool is not None])
        whole = tuple(placed for _, placed in pairs if placed is not None)
        others = [predicate for predicate, placed in pairs if placed is None]
        if whole:
            node = Filter(node, whole)
        if others:
            node, rewritten = with_values(node, others, self._catalog)
            node = Filter(node, tuple(map(rewritten, others)))
        return node

    def _check_placed(self, conditions: Sequence[Expression]) -> None:
        """Reject conditions that pools evaluate, below a window that counts tuples of a derived stream."""
        for condition in conditions:
            message = "a window by rows of a derived stream cannot wait for pools"
            hint = "make the call a column, CREATE STREAM t AS SELECT *, f(x) AS y FROM s, and compare y"
            raise QueryError(f"{message}; {hint}", condition.span)

    def clauses(self, kind: type[Grouping]) -> Clauses:
        """The clauses behind FROM; groups are of a kind."""
        predicates, select = self._predicates(), self._select
        grouping = kind(select, self.scope) if select.is_aggregate else None
        items = self.select_list(self.scope.bind if grouping is None else grouping.bind)
        written = select.having
        having = None if grouping is None or written is None else grouping.condition(written)
        ranking = self._ranking(grouping)
        if grouping is None:
            return Clauses(predicates, None, having, ranking, items)
        ranked = () if ranking is None else ranking.expressions
        for expression in (having, *(item.expression for item in items), *ranked):
            if expression is not None:
                without_pool(expression, self._catalog)
        return Clauses(predicates, Groups(grouping.keys, grouping.aggregates), having, ranking, items)

    def _predicates(self) -> tuple[Expression, ...]:
        self._check_conditions()
        written = (conjunct(self.scope.condition(term)) for term in self._select.conjuncts)
        return (*self.scope.inner_conditions(), *written)

    def _check_conditions(self) -> None:
        for term in self._select.conjuncts:
            self.scope.check_known(term, IN_RESULTS)
        for reference in (r for term in self._select.conjuncts for r in term.columns):
            ranks = (item.name.text for item in self._select.items if isinstance(item, RankItem))
            named = next((one for one in ranks if one.lower() == reference.name.lower()), None)
            if named and reference.qualifier is None and not self.scope.find(named, reference.span):
                message = f"{named} is a rank of this SELECT, which is known behind WHERE"
                raise QueryError(f"{message}; write QUALIFY {named} <= 10", reference.span)

    def _ranking(self, grouping: Grouping | None) -> Ranking | None:
        written = self._select.ranking
        if written is None:
            return None
        if written.rows is None:
            message = "a rank is limited, so that only the first rows are kept; write QUALIFY and its name"
            raise QueryError(f"{message}, as in QUALIFY place <= 10", written.span)
        bind = self._sort_key if grouping is None else grouping.sort_key
        order = (SortKey(bind(key.expression), key.is_descending, key.nulls) for key in written.order)
        return Ranking(written.function, tuple(map(bind, written.keys)), tuple(order), written.rows)

    def _sort_key(self, expression: ScalarExpression) -> Expression:
        """What tuples are ranked by, which may be the name of a select item."""
        items = [item for item in self._select.items if isinstance(item, SelectItem)]
        named = {item.alias.text.lower(): item for item in items if item.alias is not None}
        references = [r for r in expression.columns if r.qualifier is None and r.span == expression.span]
        for reference in references:
            item = named.get(reference.name.lower())
            if item is not None and self.scope.find(reference.name, reference.span) is None:
                return self.scope.bind(item.expression)
        return self.scope.bind(expression)

    @property
    def _ranks_instants(self) -> bool:
        """Whether what is ranked against each other has one timestamp, as the results of one window have."""
        ranking, streams = self._select.ranking, self.scope.streams
        if (
            ranking is None
            or self._select.is_aggregate
            or len(streams) > 1
            or streams[0].item.window is not None
        ):
            return False
        keys = (self.scope.plain_column(key) for key in ranking.keys)
        own = (key for key in keys if key is not None and key.source is streams[0] and key.field is None)
        return any(self.scope.later_us(key.source, key.column) is not None for key in own)

    def _check_ranked_windows(self) -> None:
        """Ranks that every tuple may change are those of a table."""
        ranking, windows = self._select.ranking, [source.window for source in self.scope.streams]
        assert ranking is not None
        if isinstance(windows[0], SlidingRowWindow):
            message = f"{windows[0]} may be shown twice at one instant, and rankings are by instant"
            raise QueryError(f"{message}; write [TUMBLE 10 SECONDS]", ranking.span)
        if not all(map(is_emitted_whole, windows)):
            message = "ranks change with every tuple; write INTO ... OPTIONS (mode 'latest')"
            hint = "or a window that is emitted as a whole, such as [TUMBLE 10 SECONDS]"
            raise QueryError(f"{message}, {hint}", ranking.span)
        if not self._select.is_aggregate and not isinstance(windows[0], TimeWindow):
            message = f"tuples of {windows[0]} cannot be ranked"
            raise QueryError(f"{message}; group them, or write [TUMBLE 10 SECONDS]", ranking.span)

    def _aggregated(self, node: Node, grouping: Groups, derived: Joins) -> Node:
        if len(self.scope.streams) > 1:
            node, renamed = derived.joined(node, grouping.expressions, self.scope.streams[0].window)
            grouping = grouping.over(renamed)
        # a window alone is a group: GROUP BY window(ts, '10 seconds')
        keys = grouping.keys if grouping.aggregates else grouping.keys or (_ANY,)
        return Aggregate(node, keys, grouping.aggregates)

    def _distinct(self, derived: Joins) -> Project:
        """Distinct values enter the result as they enter the window; a sliding window lists all it holds."""
        select, window = self._select, self.scope.streams[0].window
        if select.ranking is not None:
            raise QueryError("DISTINCT and a ranking do not go together; use a subquery", select.ranking.span)
        if isinstance(window, UnboundedWindow):
            message = "SELECT DISTINCT without a window would keep all values; add [RANGE 1 HOUR]"
            raise QueryError(f"{message}, or write INTO ... OPTIONS (mode 'latest')", select.span)
        # those of subqueries in WHERE only decide which tuples pass; those in place of values have one row
        others = (s for s in self.scope.sources if not (s.is_hidden or s.item.is_value))
        is_join = len({*others, *self.scope.streams}) > 1
        if is_join:
            self._check_distinct_join(window)
        node, clauses = self.source(self.clauses(Grouping), derived)
        if select.distinct_on:
            return self._distinct_on(node, clauses.items, window)
        if is_join:
            # a tuple may have equal results, which are tuples of their own only behind the join
            node, renamed = derived.joined(node, clauses.read, window)
            clauses = clauses.over(renamed)
        for item in clauses.items:
            if TIMESTAMP_US in item.expression.columns and len(item.expression.columns) > 1:
                message = "an item of SELECT DISTINCT reads columns or bounds of the window, not both"
                raise QueryError(f"{message}; select each by itself", item.expression.span)
        kind = physical.Aggregate if is_emitted_whole(window) else physical.Distinct
        return _of_window(node, clauses.items, kind)

    def _check_distinct_join(self, window: Window) -> None:
        """Reject joins whose results are in the window at other times than their tuples."""
        select, windows = self._select, {source.window for source in self.scope.streams}
        is_alike = len(windows) == 1 and isinstance(window, HopWindow) and window.is_tumbling
        hint = "or select the distinct values of a subquery, FROM (SELECT ...) AS x [RANGE 1 HOUR]"
        if select.distinct_on:
            message = "DISTINCT ON takes one stream, and FROM is a join; make the join a subquery"
            raise QueryError(f"{message}, FROM (SELECT ...) AS x [RANGE 1 HOUR]", select.span)
        if len(self.scope.streams) > 1 and not is_alike:
            message = "SELECT DISTINCT over a join needs the same [TUMBLE 10 SECONDS] for all streams"
            raise QueryError(f"{message}; write it, {hint}", select.span)
        if not isinstance(window, TimeWindow):
            message = f"tuples of {window} are counted before the join; write [RANGE 1 HOUR]"
            raise QueryError(f"{message}, {hint}", select.span)

    def _distinct_on(self, node: Node, items: tuple[NamedExpression, ...], window: Window) -> Project:
        """Tuples whose keys no other tuple of the window has."""
        written = self._select.distinct_on
        if is_emitted_whole(window) or (isinstance(window, RowWindow) and window.keys):
            message = "DISTINCT ON compares a tuple with the window before it; write [RANGE 1 HOUR]"
            hint = "or QUALIFY ROW_NUMBER() OVER (PARTITION BY key ORDER BY ...) = 1"
            raise QueryError(f"{message}, {hint}", written[0].span)
        on = [self.scope.bind(one) for one in written]
        node, rewritten = with_values(node, on, self._catalog)
        keys = tuple(NamedExpression(f"k{n}", rewritten(one)) for n, one in enumerate(on))
        columns = tuple(
            AggregateExpression(f"a{n}", "LAST_VALUE", item.expression) for n, item in enumerate(items)
        )
        distinct = Aggregate(node, keys, columns, physical.Distinct)
        names = (Expression(column_tree(column.name)) for column in columns)
        return Project(distinct, tuple(map(NamedExpression, (item.name for item in items), names)))


def _of_window(node: Node, items: Sequence[NamedExpression], kind: type[physical.Aggregate]) -> Project:
    """The select list as an operator shows it that keeps a window, whose bounds are known behind it."""
    keys: dict[Expression, str] = {}
    named = []
    for item in items:
        columns = item.expression.columns
        read = [Expression(column_tree(one)) for one in columns if one != TIMESTAMP_US]
        of_tuple = read if TIMESTAMP_US in columns else [item.expression]
        trees = {one: column_tree(keys.setdefault(one, f"k{len(keys)}")) for one in of_tuple}
        if TIMESTAMP_US in columns:
            value = item.expression.over({one.columns[0]: tree for one, tree in trees.items()})
        else:
            value = Expression(trees[item.expression])
        named.append(NamedExpression(item.name, value))
    if not keys:
        # without keys, a window without tuples would have a result
        keys[_ANY.expression] = _ANY.name
    own = tuple(NamedExpression(name, key) for key, name in keys.items())
    return Project(Aggregate(node, own, (), kind), tuple(named))

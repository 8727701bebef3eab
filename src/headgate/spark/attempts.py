"""Expressions that fail for a tuple, such as a division by zero: the query sets it aside and goes on.

Nothing is checked beforehand. When a job of a tick fails, the tick is executed again, and expressions that
may have failed are *attempted*: ``java/Attempt.java`` returns their value or their error. That costs more, so
it ends some ticks after the last tuple was set aside. Where all attempts succeed, results are the same.

A tuple is set aside if a predicate fails and no other one rules the tuple out, or if a select item, group key
or argument of an aggregate fails. Of a join, it is the combination of tuples for which a predicate fails, or
the tuple for which one side of an equality does. A tuple of an outer, semi or anti join that is part of such
a combination is not emitted as one without a match: whether it has one is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from py4j.java_gateway import is_instance_of  # type: ignore[import-untyped]
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType
from sqlglot import exp

from headgate.errors import QueryError
from headgate.model.expression import Expression, column_of
from headgate.model.joins import RelationJoin, WindowJoin
from headgate.model.operator import Aggregate, Explode, Project, Select, Table, Top, expressions_of
from headgate.model.operator_inputs import DerivedInput, OperatorInput, StreamInput
from headgate.model.sql_tree import column_tree
from headgate.model.window import UntilWindow, Window
from headgate.spark import sql
from headgate.spark.application.java_classes import ATTEMPT
from headgate.spark.arrival.dead_letters import value_letters
from headgate.spark.blocks import BlockStore
from headgate.spark.operators.base import SparkOperator
from headgate.spark.operators.check import spark_complaint
from headgate.spark.operators.inputs import TickInput
from headgate.spark.operators.outer_join import OuterJoinOperator
from headgate.spark.operators.stateless import RelationJoinOperator
from headgate.spark.operators.windowed import WindowJoinOperator
from headgate.spark.prepared import Prepared, streams_below
from headgate.spark.samples import is_harmless
from headgate.spark.user_functions import is_of_user_code

# ticks without a tuple to set aside, after which expressions are evaluated as usual again
_PATIENCE_TICKS = 16
# class of SQL states
_DATA_EXCEPTION = "22"


@dataclass(frozen=True)
class AttemptedOperator:
    """An operator that sets tuples aside."""

    strict: SparkOperator
    """Its predicates are NULL where they fail."""
    lenient: SparkOperator
    """Its predicates hold where they fail."""
    predicates: tuple[Expression, ...]
    """What may fail for an output of the lenient operator."""
    checks: tuple[tuple[Expression, ...], ...]
    """What may fail for a tuple of each input."""

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """All that is attempted."""
        return (*self.predicates, *(one for checks in self.checks for one in checks))

    def read(self, one: TickInput, number: int) -> TickInput:
        """An input without the tuples that are set aside."""
        checks = self.checks[number]
        if not checks:
            return one
        source = OperatorInput(self.strict.name)
        return one.where(Select(f"check of {self.strict.name}", source, tuple(map(_succeeds, checks))))


class Attempts:
    """The operators of a run whose expressions are attempted."""

    def __init__(self, prepared: Prepared, store: BlockStore) -> None:
        self._prepared = prepared
        self._network = prepared.network
        self._store = store
        self._streams_of = streams_below(prepared.network)
        self._on: dict[str, AttemptedOperator] = {}
        self._lifetimes: dict[UntilWindow, UntilWindow] = {}
        self._quiet_ticks = 0

    def get(self, name: str) -> AttemptedOperator | None:
        """The operator, if its expressions are attempted."""
        return self._on.get(name)

    def operator(self, name: str) -> SparkOperator:
        """The operator as this tick executes it."""
        attempted = self._on.get(name)
        return self._prepared.operators[name] if attempted is None else attempted.strict

    def selects(self, selects: Sequence[Select]) -> tuple[Select, ...]:
        """Selections as this tick evaluates them."""
        return tuple(self._strict_select(one) if one.name in self._on else one for one in selects)

    def _strict_select(self, select: Select) -> Select:
        strict = self._on[select.name].strict.settings
        assert isinstance(strict, Select)
        # under another name, or it would be evaluated in the order of the plain predicates
        return replace(strict, name=f"attempt of {select.name}")

    @property
    def are_lifetimes_on(self) -> bool:
        """Whether ends of tuples are attempted."""
        return bool(self._lifetimes)

    def window(self, window: Window | None) -> Window | None:
        """A window as this tick computes it; a tuple whose own end fails is left out."""
        return self._lifetimes.get(window, window) if isinstance(window, UntilWindow) else window

    def lifetime_letters(
        self, name: str, source: StreamInput | DerivedInput, window: Window, tuples: str, batch_id: int
    ) -> str:
        """Dead letters of tuples that are left out of an attempted window."""
        [written_as] = [one.end for one, attempted in self._lifetimes.items() if attempted == window]
        names = {column: column_of(source.alias, column) for column in source.columns}
        end = written_as.over({column: column_tree(name) for column, name in names.items()})
        error = _part(end, "error").text
        queries, streams = self._network.queries_of(name), sorted(self._streams_of[name])
        return value_letters(
            tuples, [(written(written_as), error)], [*names.values()], queries, streams, batch_id
        )

    @property
    def queries(self) -> tuple[str, ...]:
        """The queries that may set tuples aside."""
        names = {*self._on, *(name for name, window in self._windows() if window in self._lifetimes)}
        found = {query for name in names for query in self._network.queries_of(name)}
        return tuple(query for query in self._network.queries if query in found)

    def catch(self, errors: Sequence[Exception]) -> bool:
        """Whether to execute the tick again, with expressions attempted that may have failed."""
        failed = [part for error in errors if (part := self._failed_fragments(error)) is not None]
        if not failed:
            return False
        fragments = [fragment for part in failed for fragment in part]
        possible = {
            name: found
            for name in self._prepared.operators
            if name not in self._on and (found := self._attempted(name)) is not None
        }
        lifetimes = {window: _attempted_window(window) for _, window in self._windows()}
        ends = {window: one for window, one in lifetimes.items() if window not in self._lifetimes}
        if not possible and not ends:
            return False
        named = {name: found for name, found in possible.items() if _holds(found, fragments)}
        named_ends = {window: one for window, one in ends.items() if _is_part(window.end, fragments)}
        is_known = bool(named or named_ends)
        self._on |= named if is_known else possible
        self._lifetimes |= named_ends if is_known else ends
        self._quiet_ticks = 0
        return True

    def is_of_expression(self, error: Exception) -> bool:
        """Whether a job has failed for a tuple rather than as a whole."""
        return self._failed_fragments(error) is not None

    def blame(self, error: Exception, queries: Sequence[str]) -> None:
        """Raise an error of data that no single tuple is to blame for, such as too large a sum."""
        for cause in self._spark_errors(error):
            if str(cause.getSqlState()).startswith(_DATA_EXCEPTION):
                what = f"query {' or '.join(queries)}" if queries else "a query"
                raise QueryError(f"{what}: {spark_complaint(cause.getMessage())}") from error

    def after_tick(self, set_aside: int) -> None:
        """Evaluate expressions as usual again, once no tuple has been set aside for a while."""
        self._quiet_ticks = 0 if set_aside else self._quiet_ticks + 1
        if self._quiet_ticks >= _PATIENCE_TICKS:
            self._on, self._lifetimes = {}, {}

    def _windows(self) -> Iterator[tuple[str, UntilWindow]]:
        """Windows by operator in which tuples have ends that may fail."""
        for name, operator in self._prepared.operators.items():
            for window in operator.windows:
                if isinstance(window, UntilWindow) and not isinstance(window.end.tree, exp.Column):
                    yield name, window

    def letters(
        self, name: str, arrived: Sequence[str | None], combined: str | None, batch_id: int
    ) -> Iterator[str]:
        """Dead letters of an operator: of new tuples of its inputs, and of outputs of its lenient twin."""
        attempted = self._on[name]
        checked = zip(arrived, attempted.checks, attempted.strict.inputs, strict=True)
        for tuples, expressions, schema in (
            *checked,
            (combined, attempted.predicates, attempted.lenient.output),
        ):
            if tuples is not None and expressions:
                errors = [(written(one), _part(one, "error").text) for one in expressions]
                columns = [column for column in schema.names if not sql.is_system(column)]
                queries, streams = self._network.queries_of(name), sorted(self._streams_of[name])
                yield value_letters(tuples, errors, columns, queries, streams, batch_id)

    def _attempted(self, name: str) -> AttemptedOperator | None:
        """The operator with all expressions attempted that may fail; None if there is none."""
        operator = self._prepared.operators[name]
        settings = operator.settings
        if isinstance(settings, (Select, RelationJoin, WindowJoin)):
            found = self._with_predicates(operator, settings)
        elif isinstance(settings, (Explode, Project, Aggregate, Top, Table)):
            tuples = self._store.empty(operator.inputs[0])
            risky = [one for one in expressions_of(settings) if not is_harmless(one, tuples)]
            found = AttemptedOperator(operator, operator, (), (tuple(dict.fromkeys(risky)),))
        else:
            return None
        return found if found.expressions else None

    def _with_predicates(
        self, operator: SparkOperator, settings: Select | RelationJoin | WindowJoin
    ) -> AttemptedOperator:
        plain = self._inner(operator)
        unpreserved: Any = plain.settings
        tuples = self._store.empty(plain.output)
        checks: list[list[Expression]] = [[] for _ in operator.inputs]
        strict, lenient, failing = [], [], []
        for predicate in settings.predicates:
            if is_harmless(predicate, tuples):
                strict.append(predicate)
                lenient.append(predicate)
            elif (by_sides := self._equality(predicate, operator, tuples)) is not None:
                # still an equality, by which Spark can join
                equality, sides = by_sides
                strict.append(equality)
                lenient.append(equality)
                for number, side in sides:
                    checks[number].append(side)
            else:
                strict.append(_part(predicate, "value"))
                lenient.append(_holds_or_fails(predicate))
                failing.append(predicate)
        own = _with_settings(operator, replace(settings, predicates=tuple(strict)))
        possible = _with_settings(plain, replace(unpreserved, predicates=tuple(lenient)))
        if isinstance(own, OuterJoinOperator):
            own.possible = tuple(lenient)
        elif isinstance(own, RelationJoinOperator) and plain is not operator:
            own.doubtful = _any_fails(failing, lenient)
        return AttemptedOperator(own, possible, tuple(failing), tuple(map(tuple, checks)))

    def _inner(self, operator: SparkOperator) -> SparkOperator:
        """For an outer, semi or anti join the plain join, which emits combinations; else the operator."""
        own: Any = operator.settings
        inner: SparkOperator
        if isinstance(operator, OuterJoinOperator):
            inner = WindowJoinOperator(WindowJoin(own.name, own.sides, own.predicates))
            inner.output = StructType(
                [f for one in operator.inputs for f in one.fields if not sql.is_system(f.name)]
            )
        elif isinstance(operator, RelationJoinOperator) and type(own) is not RelationJoin:
            settings = RelationJoin(own.name, own.input, own.relation, own.alias, own.columns, own.predicates)
            inner = operator.joined_by(settings)
            empty = self._store.views.define(f"tuples of {own.name}", self._store.empty(operator.inputs[0]))
            inner.output = self._store.spark.sql(inner.applied(empty)).schema
        else:
            return operator
        inner.inputs = operator.inputs
        return inner

    def _equality(
        self, predicate: Expression, operator: SparkOperator, tuples: DataFrame
    ) -> tuple[Expression, list[tuple[int, Expression]]] | None:
        """An equality with its sides attempted, and those that may fail by input; None if it has no sides."""
        tree = predicate.tree.unnest()
        if not isinstance(tree, exp.EQ):
            return None
        sides = [Expression(side, predicate.span) for side in (tree.this, tree.expression)]
        risky = [side for side in sides if not is_harmless(side, tuples)]
        owners = {side: _owner(side, operator) for side in sides}
        # rows of a stored relation are no tuples that can be set aside
        if len({*owners.values()}) < 2 or any(owners[side] is None for side in risky):
            return None
        trees = [_part(side, "value").tree if side in risky else side.tree.copy() for side in sides]
        equality = Expression(exp.EQ(this=trees[0], expression=trees[1]), predicate.span)
        # what casts one side to the type of the other may fail, too
        if not is_harmless(equality, tuples):
            return None
        return equality, [(number, side) for side in risky if (number := owners[side]) is not None]

    def _failed_fragments(self, error: Exception) -> list[str] | None:
        """The SQL of the expression that failed, as far as Spark knows it; None if it was no expression."""
        if not isinstance(error, (Py4JJavaError, PySparkException)) or is_of_user_code(error):
            return None
        fragments = []
        for cause in self._spark_errors(error):
            if str(cause.getCondition()).startswith("FAILED_READ_FILE"):
                return None
            fragments += [context.fragment() for context in cause.getQueryContext()]
        return [fragment for fragment in fragments if fragment]

    def _spark_errors(self, error: Exception) -> list[Any]:
        """The error and its causes, as far as Spark raised them."""
        java: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
        jvm: Any = self._store.spark._jvm
        if java is None:
            return []
        causes = jvm.org.apache.commons.lang3.exception.ExceptionUtils.getThrowableList(java)
        gateway = self._store.spark.sparkContext._gateway
        return [one for one in causes if is_instance_of(gateway, one, "org.apache.spark.SparkThrowable")]


def written(expression: Expression) -> str:
    """An expression as the user wrote it."""
    text = expression.text if expression.span is None else expression.span.excerpt
    return " ".join(text.split())


def _owner(side: Expression, operator: SparkOperator) -> int | None:
    """The input that all columns of an expression are from."""
    inputs = (n for n, schema in enumerate(operator.inputs) if {*side.columns} <= {*schema.names})
    return next(inputs, None) if side.columns else None


def _holds(operator: AttemptedOperator, fragments: Sequence[str]) -> bool:
    return any(_is_part(one, fragments) for one in operator.expressions)


def _is_part(expression: Expression, fragments: Sequence[str]) -> bool:
    return any(fragment in expression.text for fragment in fragments)


def _attempted_window(window: UntilWindow) -> UntilWindow:
    return replace(window, end=_part(window.end, "value"))


def _with_settings(operator: SparkOperator, settings: Any) -> SparkOperator:
    """The same operator with other predicates, evaluated in the order in which they were written."""
    other = copy(operator)
    other.settings = settings
    other.predicate_order = None
    return other


def _part(expression: Expression, name: str) -> Expression:
    """The value or the error of an attempt."""
    attempt = exp.Anonymous(this=ATTEMPT, expressions=[expression.tree.copy()])
    return Expression(exp.Dot(this=attempt, expression=exp.Identifier(this=name)), expression.span)


def _succeeds(expression: Expression) -> Expression:
    return Expression(exp.Is(this=_part(expression, "error").tree, expression=exp.Null()), expression.span)


def _any_fails(failing: Sequence[Expression], lenient: Sequence[Expression]) -> tuple[Expression, ...]:
    """The conditions for a combination of which it is unknown whether it matches."""
    errors = [exp.Not(this=_succeeds(one).tree) for one in failing]
    return (*lenient, Expression(exp.or_(*errors))) if errors else ()


def _holds_or_fails(predicate: Expression) -> Expression:
    fails = exp.Not(this=_succeeds(predicate).tree)
    both = exp.Anonymous(this="coalesce", expressions=[_part(predicate, "value").tree, fails])
    return Expression(both, predicate.span)

"""What several queries have in common runs once: equal operators over equal inputs become one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from headgate.model.expression import Expression
from headgate.model.network import Network
from headgate.model.operator import (
    Aggregate,
    Eddy,
    Input,
    Operator,
    OperatorInput,
    Project,
    RelationJoin,
    Select,
    StreamInput,
    Synthetic,
    WindowJoin,
    WindowUpdate,
)
from headgate.model.window import Window
from headgate.planning.predicates import is_volatile

Key = tuple[Operator, frozenset[Window]]


def share_subplans(network: Network) -> Network:
    """The network with one operator where there were equal ones; it reads the columns that any of them read.

    Select lists stay a query's own, and so do joins with placed probes and what draws at random. Operators
    are equal only if their tuples meet the same windows higher up.
    """
    sharing = _Sharing(network)
    for operator in network.operators.values():
        sharing.add(operator)
    shared = {name: first for name, first in sharing.names.items() if name != first}
    return network.changed(operators=tuple(sharing.kept.values()), shared=shared)


@dataclass
class _Sharing:
    network: Network
    kept: dict[str, Operator] = field(default_factory=dict)
    by_key: dict[Key, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def add(self, operator: Operator) -> None:
        given = _with_inputs(operator, [self._renamed(i) for i in operator.inputs])
        if _is_own(operator):
            self.kept[operator.name] = given
            return
        key = (_in_any_order(_without_columns(given)), self._windows_above(operator.name))
        first = self.by_key.setdefault(key, operator.name)
        self.names[operator.name] = first
        self.kept[first] = _with_columns_of(self.kept[first], given) if first in self.kept else given

    def _renamed(self, source: Input) -> Input:
        if isinstance(source, OperatorInput):
            return OperatorInput(self.names.get(source.operator, source.operator))
        return source

    def _windows_above(self, name: str) -> frozenset[Window]:
        """The windows that tuples of an operator come into, here or further up."""
        operator = self.network.operators[name]
        if isinstance(operator, Aggregate):
            return frozenset({operator.window})
        if isinstance(operator, WindowUpdate):
            return frozenset()
        found: set[Window] = set()
        for reader in self.network.readers(name):
            above = self.network.operators[reader]
            if isinstance(above, WindowUpdate):
                found |= {s.window for s in above.sides if s.input == OperatorInput(name)}
            else:
                found |= self._windows_above(reader)
        return frozenset(found)


def _is_own(operator: Operator) -> bool:
    if isinstance(operator, WindowUpdate) and not isinstance(operator, WindowJoin):
        # windows with placed probes stay as long as tuples inside of their one eddy may ask
        return True
    return isinstance(operator, (Project, Synthetic)) or any(map(is_volatile, _expressions(operator)))


def _with_inputs(operator: Operator, inputs: list[Input]) -> Operator:
    if isinstance(operator, WindowUpdate):
        sides = zip(operator.sides, inputs, strict=True)
        return replace(operator, sides=tuple(replace(side, input=i) for side, i in sides))
    if isinstance(operator, Synthetic):
        return replace(operator, inputs=tuple(inputs))
    return replace(operator, input=inputs[0])


def _without_columns(operator: Operator) -> Operator:
    inputs = [replace(i, columns=()) if isinstance(i, StreamInput) else i for i in operator.inputs]
    bare = _with_inputs(replace(operator, name=""), inputs)
    return replace(bare, columns=()) if isinstance(bare, RelationJoin) else bare


def _in_any_order(operator: Operator) -> Operator:
    """Predicates over single tuples say the same however they are ordered."""
    if isinstance(operator, (Select, RelationJoin)):
        return replace(operator, predicates=tuple(sorted(operator.predicates, key=lambda p: p.text)))
    return operator


def _expressions(operator: Operator) -> Iterator[Expression]:
    if isinstance(operator, (Select, RelationJoin, WindowJoin)):
        yield from operator.predicates
    elif isinstance(operator, Eddy):
        yield from (argument for predicate in operator.predicates for argument in predicate.arguments)
    elif isinstance(operator, Aggregate):
        yield from (key.expression for key in operator.keys)
        yield from (call.argument for call in operator.aggregates if call.argument is not None)


def _with_columns_of(one: Operator, other: Operator) -> Operator:
    inputs = [_widened(a, b) for a, b in zip(one.inputs, other.inputs, strict=True)]
    both = _with_inputs(one, inputs)
    if isinstance(both, RelationJoin) and isinstance(other, RelationJoin):
        return replace(both, columns=tuple(dict.fromkeys((*both.columns, *other.columns))))
    return both


def _widened(one: Input, other: Input) -> Input:
    if isinstance(one, StreamInput) and isinstance(other, StreamInput):
        return replace(one, columns=tuple(dict.fromkeys((*one.columns, *other.columns))))
    return one

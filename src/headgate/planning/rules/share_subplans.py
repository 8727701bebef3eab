"""What several queries have in common runs once: equal operators over equal inputs become one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from headgate.model.network import Network
from headgate.model.operator import (
    Aggregate,
    Input,
    Operator,
    OperatorInput,
    Project,
    RelationJoin,
    StreamInput,
    Synthetic,
    WindowUpdate,
)
from headgate.model.window import Window

Key = tuple[Operator, frozenset[Window]]


def share_subplans(network: Network) -> Network:
    """The network with one operator where there were equal ones; it reads the columns that any of them read.

    Select lists stay a query's own. Operators are equal only if their tuples meet the same windows higher up.
    """
    sharing = _Sharing(network)
    for operator in network.operators.values():
        sharing.add(operator)
    return Network(
        tuple(network.streams.values()),
        tuple(network.relations.values()),
        tuple(sharing.kept.values()),
        tuple(network.queries.values()),
        tuple(network.pools.values()),
        tuple(network.functions.values()),
    )


@dataclass
class _Sharing:
    network: Network
    kept: dict[str, Operator] = field(default_factory=dict)
    by_key: dict[Key, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def add(self, operator: Operator) -> None:
        given = _with_inputs(operator, [self._renamed(i) for i in operator.inputs])
        if isinstance(operator, (Project, Synthetic)):
            self.kept[operator.name] = given
            return
        key = (_without_columns(given), self._windows_above(operator.name))
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

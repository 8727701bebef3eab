"""What stays the same when a network changes: operators by what they compute, not by name.

The name of an operator depends on which queries share it. Its identity does not: it is a hash of its
settings, of the identities of its inputs, and so on down to the definitions of streams. An operator of the
same identity goes on with its state, whatever came and went around it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace

from headgate.model.joins import RelationJoin, WindowJoin, WindowUpdate
from headgate.model.network import Network, StreamDefinition
from headgate.model.operator import Aggregate, JoinEddy, Operator, Project, Select, Synthetic, Table, Union
from headgate.model.operator_inputs import DerivedInput, Input, OperatorInput, Start, StreamInput
from headgate.model.window import Window


def owner_of(operator: str) -> str:
    """The query or derived stream that an operator was planned for; subqueries belong to their query."""
    return operator.partition(".")[0]


def with_inputs(operator: Operator, change: Callable[[Input], Input]) -> Operator:
    if isinstance(operator, WindowUpdate):
        sides = tuple(replace(side, input=change(side.input)) for side in operator.sides)
        return replace(operator, sides=sides)
    if isinstance(operator, Union):
        return replace(operator, inputs=tuple(map(change, operator.inputs)))
    assert not isinstance(operator, Synthetic), "no query has one"
    return replace(operator, input=change(operator.input))


def with_starts(unshared: Network, starts: Mapping[str, Start]) -> Network:
    """The network whose queries and derived streams, by name, see tuples from their starts on."""

    def started(operator: Operator) -> Operator:
        owner = owner_of(operator.name)
        start = starts.get(owner)

        def change(source: Input) -> Input:
            # a subquery has the start of its query already
            is_within = isinstance(source, DerivedInput) and owner_of(source.operator) == owner
            if is_within or not isinstance(source, (StreamInput, DerivedInput)):
                return source
            return replace(source, since=start)

        return operator if start is None else with_inputs(operator, change)

    return unshared.changed(operators=tuple(map(started, unshared.operators.values())))


def stream_identity(stream: StreamDefinition) -> str:
    """Changes with the tuples of a stream; its location may change."""
    return f"stream {stream.name} {stream.format} {stream.schema} {stream.timestamp}"


def identities(network: Network) -> dict[str, str]:
    """The identity of every operator, by name."""
    found: dict[str, str] = {}

    def known(source: Input) -> Input:
        if isinstance(source, StreamInput):
            stream = stream_identity(network.streams[source.stream])
            return replace(source, stream=f"{stream} since {source.since}", columns=())
        below = found[source.operator]
        if isinstance(source, DerivedInput):
            return replace(source, operator=below, stream=f"{source.stream} since {source.since}", columns=())
        return replace(source, operator=below)

    for name, operator in network.operators.items():
        bare = _in_normal_form(with_inputs(replace(operator, name=""), known))
        parts = [repr(bare), *sorted(map(repr, windows_above(network, name)))]
        if is_own(operator):
            parts.append(f"of {owner_of(name)}")
        if isinstance(operator, RelationJoin):
            relation = network.relations[operator.relation]
            parts.append(f"{relation.format} {relation.schema}")
            parts += map(repr, relation.selects)
        found[name] = _hashed("\n".join(parts))
    return found


def definitions(unshared: Network) -> dict[str, str]:
    """What queries and derived streams compute, by name; a change of it makes them other ones."""
    own = identities(unshared)
    found = {
        name: _hashed("\n".join(own[output] for output in query.outputs))
        for name, query in unshared.queries.items()
    }
    for stream in derived_streams(unshared):
        # numbers are added for readers, and not part of what the stream is
        parts = [i for name, i in own.items() if owner_of(name) == stream and name != f"{stream}.number"]
        found[stream] = _hashed("\n".join(sorted(parts)))
    return found


def derived_streams(unshared: Network) -> tuple[str, ...]:
    """The derived streams that were declared and are read; subqueries belong to their queries."""
    owners = dict.fromkeys(map(owner_of, unshared.operators))
    return tuple(owner for owner in owners if owner not in unshared.queries)


def is_own(operator: Operator) -> bool:
    """Whether no other query may share the operator."""
    # windows with placed probes are retained for the tuples of their one eddy
    is_probed = isinstance(operator, WindowUpdate) and not isinstance(operator, WindowJoin)
    return is_probed or isinstance(operator, (Project, Table))


def windows_above(network: Network, name: str) -> frozenset[Window]:
    """The windows that tuples of an operator enter, here or further up."""
    operator = network.operators[name]
    if isinstance(operator, Aggregate):
        return frozenset({operator.window})
    if isinstance(operator, WindowUpdate):
        return frozenset()
    found: set[Window] = set()
    for reader in network.readers(name):
        above = network.operators[reader]
        if any(isinstance(i, DerivedInput) and i.operator == name for i in above.inputs):
            # windows over results hold other tuples
            continue
        if isinstance(above, WindowUpdate):
            found |= {s.window for s in above.sides if s.input == OperatorInput(name)}
        else:
            found |= windows_above(network, reader)
    return frozenset(found)


def _in_normal_form(operator: Operator) -> Operator:
    """Predicates of single tuples in one order, and ranks of sides in place of those of all streams."""
    if isinstance(operator, (Select, RelationJoin)):
        return replace(operator, predicates=tuple(sorted(operator.predicates, key=lambda p: p.key)))
    if isinstance(operator, WindowUpdate):
        ranks = _ranks([side.order for side in operator.sides])
        return replace(operator, sides=tuple(replace(s, order=ranks[s.order]) for s in operator.sides))
    if isinstance(operator, JoinEddy):
        ranks = _ranks([probe.order for probe in operator.probes])
        return replace(operator, probes=tuple(replace(p, order=ranks[p.order]) for p in operator.probes))
    return operator


def _ranks(orders: list[tuple[int, int]]) -> dict[tuple[int, int], tuple[int, int]]:
    return {order: (rank, 0) for rank, order in enumerate(sorted(orders))}


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]

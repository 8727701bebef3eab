"""A network that makes no sense cannot be built."""

from __future__ import annotations

import pytest

from headgate.errors import InternalError
from headgate.model.expression import Expression, NamedExpression
from headgate.model.network import Network, QueryDefinition, SinkDefinition, StreamDefinition
from headgate.model.operator import Project, Select
from headgate.model.operator_inputs import OperatorInput, StreamInput

STREAM = StreamDefinition("s", "csv", None)
ITEM = NamedExpression("k", Expression.parse("`s__k`"))


def select(name: str, source: StreamInput | OperatorInput, text: str = "`s__k` > 1") -> Select:
    return Select(name, source, (Expression.parse(text),))


def query(*outputs: str) -> QueryDefinition:
    return QueryDefinition("q", outputs, SinkDefinition("memory"))


def straight(text: str = "`s__k` > 1") -> Network:
    first = select("a", StreamInput("s", "s", ("k",)), text)
    last = Project("b", OperatorInput("a"), (ITEM,))
    return Network((STREAM,), (), (last, first), (query("b"),))


def test_operators_come_in_topological_order_however_they_are_given() -> None:
    assert list(straight().operators) == ["a", "b"]


def test_a_network_knows_readers_leaves_and_paths() -> None:
    network = straight()
    assert network.readers("a") == ("b",)
    assert network.leaves("s") == ("a",)
    assert network.path_from("a") == ("a", "b")
    assert network.is_output("b") and not network.is_output("a")


def test_a_cycle_is_refused() -> None:
    loop = (select("a", OperatorInput("b")), select("b", OperatorInput("a")))
    with pytest.raises(InternalError, match="cycle"):
        Network((STREAM,), (), loop, ())


@pytest.mark.parametrize("source", [StreamInput("nowhere", "n", ()), OperatorInput("nowhere")])
def test_a_dangling_input_is_refused_by_name(source: StreamInput | OperatorInput) -> None:
    with pytest.raises(InternalError, match="nowhere"):
        Network((STREAM,), (), (select("a", source),), ())


def test_a_query_must_end_in_a_known_operator() -> None:
    with pytest.raises(InternalError, match="missing"):
        Network((STREAM,), (), (), (query("missing"),))


def test_two_operators_of_one_name_are_refused() -> None:
    twice = (select("a", StreamInput("s", "s", ())),) * 2
    with pytest.raises(InternalError, match="one name"):
        Network((STREAM,), (), twice, ())


def test_the_fingerprint_changes_with_a_predicate_and_not_with_a_path() -> None:
    moved = StreamDefinition("s", "csv", None, (("path", "/elsewhere"),))
    same = Network((moved,), (), tuple(straight().operators.values()), (query("b"),))
    assert same.fingerprint == straight().fingerprint
    assert straight("`s__k` > 2").fingerprint != straight().fingerprint

"""The ways from streams to operators."""

from __future__ import annotations

import pytest

from headgate.errors import SetupError
from headgate.model.network import Network, StreamDefinition
from headgate.model.operator import Synthetic
from headgate.model.operator_inputs import Input, OperatorInput, StreamInput


def network(inputs: dict[str, list[str]]) -> Network:
    def source(name: str) -> Input:
        return OperatorInput(name) if name in inputs else StreamInput(name, name, ())

    operators = tuple(Synthetic(name, tuple(map(source, below))) for name, below in inputs.items())
    streams = {name for below in inputs.values() for name in below} - set(inputs)
    return Network(tuple(StreamDefinition(s, "synthetic", None) for s in sorted(streams)), (), operators, ())


def test_a_shared_operator_is_on_every_path_through_it() -> None:
    made = network({"a": ["s"], "b": ["r"], "join": ["a", "b"], "x": ["join"], "y": ["join", "t"]})
    assert set(made.paths_to("join")) == {("a", "join"), ("b", "join")}
    ends = [("a", "join", "x"), ("b", "join", "x"), ("a", "join", "y"), ("b", "join", "y"), ("y",)]
    assert set(made.paths()) == set(ends) and len(made.paths()) == len(ends)


def test_an_input_that_is_read_twice_is_one_way() -> None:
    assert network({"a": ["s"], "self": ["a", "a"]}).paths() == (("a", "self"),)


def test_long_paths_need_no_deep_recursion() -> None:
    made = network({f"o{i}": [f"o{i - 1}" if i else "s"] for i in range(3000)})
    assert len(made.paths()[0]) == 3000


def test_ways_that_double_again_and_again_are_refused() -> None:
    inputs = {"j0": ["s"]}
    for i in range(20):
        inputs |= {f"a{i}": [f"j{i}"], f"b{i}": [f"j{i}"], f"j{i + 1}": [f"a{i}", f"b{i}"]}
    with pytest.raises(SetupError, match="more than 2,000 paths lead from streams to j11"):
        network(inputs).paths()


def test_long_ways_that_split_are_refused_before_they_fill_the_memory() -> None:
    inputs = {"j0": ["s"]}
    for i in range(10):
        inputs |= {f"a{i}": [f"j{i}"], f"b{i}": [f"j{i}"], f"j{i + 1}": [f"a{i}", f"b{i}"]}
    inputs |= {f"o{i}": [f"o{i - 1}" if i else "j10"] for i in range(300)}
    with pytest.raises(SetupError, match="have over 5,000,000 steps in all; write fewer operators in a row"):
        network(inputs).paths()

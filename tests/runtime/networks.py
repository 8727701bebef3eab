"""Small networks for tests of the loop and of strategies."""

from __future__ import annotations

from headgate.model.expression import Expression, NamedExpression
from headgate.model.network import Network, QueryDefinition, SinkDefinition, StreamDefinition
from headgate.model.operator import Operator, Project, Select
from headgate.model.operator_inputs import OperatorInput, StreamInput


def chains(*lengths: int) -> Network:
    """One stream a chain; chain i has the operators ``i.0``, ``i.1``, ..."""
    operators: list[Operator] = []
    queries = []
    for number, length in enumerate(lengths):
        stream = f"s{number}"
        for position in range(length - 1):
            source = (
                OperatorInput(f"{number}.{position - 1}") if position else StreamInput(stream, stream, ())
            )
            operators.append(Select(f"{number}.{position}", source, (Expression.parse("true"),)))
        below = OperatorInput(f"{number}.{length - 2}") if length > 1 else StreamInput(stream, stream, ())
        last = f"{number}.{length - 1}"
        operators.append(Project(last, below, (NamedExpression("one", Expression.parse("1")),)))
        queries.append(QueryDefinition(f"q{number}", (last,), SinkDefinition("memory")))
    streams = tuple(StreamDefinition(f"s{i}", "csv", None) for i in range(len(lengths)))
    return Network(streams, (), tuple(operators), tuple(queries))

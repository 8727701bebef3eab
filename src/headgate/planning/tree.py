"""Trees of labels: how every stage of a query prints itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from headgate.model.expression import Expression
from headgate.model.network import SinkDefinition

Json = dict[str, object]


@dataclass(frozen=True)
class Tree:
    """A label and what stands indented below it; ``name`` says what an operator is called."""

    label: str
    children: tuple[Tree, ...] = ()
    name: str | None = None

    def lines(self, depth: int = 0) -> Iterator[str]:
        """The tree, a line a node."""
        name = f"{self.name}: " if self.name else ""
        yield f"{'  ' * depth}{name}{self.label}"
        for child in self.children:
            yield from child.lines(depth + 1)

    def to_json(self) -> Json:
        """The tree as nested dicts and lists."""
        named: Json = {"name": self.name} if self.name else {}
        return {**named, "does": self.label, "inputs": [child.to_json() for child in self.children]}

    def __str__(self) -> str:
        return "\n".join(self.lines())


class QueryRoot(Protocol):
    """What a plan and a query of a network have in common."""

    @property
    def sink(self) -> SinkDefinition: ...  # noqa: D102
    @property
    def latency_s(self) -> float | None: ...  # noqa: D102
    @property
    def memory_bytes(self) -> int | None: ...  # noqa: D102
    @property
    def overload(self) -> str: ...  # noqa: D102


def quality_of_service(query: QueryRoot) -> str:
    """Sink, bounds and overload policy, to stand behind a query's name."""
    # of the options only the path is shown: others can be passwords
    path = next((f" '{value}'" for key, value in query.sink.options if key.lower() == "path"), "")
    parts = [f" INTO {query.sink.format}{path}"]
    if query.latency_s is not None:
        parts.append(f"latency {query.latency_s:g} s")
    if query.memory_bytes is not None:
        parts.append(f"memory {query.memory_bytes / 2**20:g} MB")
    return ", ".join([*parts, f"overload {query.overload}"])


def conjunction(predicates: Iterable[Expression]) -> str:
    """The predicates as one condition."""
    return " AND ".join(predicate.text for predicate in predicates) or "TRUE"

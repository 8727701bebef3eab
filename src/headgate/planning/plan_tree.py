"""How plans print themselves: as trees, in text and in JSON."""

from __future__ import annotations

from dataclasses import dataclass, field

from headgate.formats.plain_json import finite
from headgate.model.network import QueryDefinition

Json = dict[str, object]


@dataclass(frozen=True)
class Tree:
    """A label with its children and the name of an operator; ``note`` follows in text, ``values`` in JSON."""

    label: str
    children: tuple[Tree, ...] = ()
    name: str | None = None
    note: str = ""
    values: Json = field(default_factory=dict)

    def __str__(self) -> str:
        name = f"{self.name}: " if self.name else ""
        indented = "".join(f"\n{child}" for child in self.children).replace("\n", "\n  ")
        return f"{name}{self.label}{self.note}{indented}"

    def to_json(self) -> Json:
        named: Json = {"name": self.name} if self.name else {}
        inputs = [child.to_json() for child in self.children]
        return {**named, "does": self.label, **finite(self.values), "inputs": inputs}


def query_tree(query: QueryDefinition, branches: tuple[Tree, ...]) -> Tree:
    # only the path is shown: other options can be passwords
    path = next((f" '{value}'" for key, value in query.sink.options if key.lower() == "path"), "")
    parts = [f"query {query.name} INTO {query.sink.format}{path}"]
    if query.latency_s is not None:
        parts.append(f"latency {query.latency_s:g} s")
    if query.memory_bytes is not None:
        parts.append(f"memory {query.memory_bytes / 2**20:g} MB")
    return Tree(", ".join([*parts, f"overload {query.overload}"]), branches)


def query_json(query: QueryDefinition, branches: tuple[Tree, ...]) -> Json:
    return {
        "query": query.name,
        "sink": query.sink.format,
        "latency_s": query.latency_s,
        "memory_bytes": query.memory_bytes,
        "overload": query.overload,
        "branches": [branch.to_json() for branch in branches],
    }

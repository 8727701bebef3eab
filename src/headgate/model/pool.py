"""Pools: capacities of their own, and the functions that are placed on them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PoolDefinition:
    """A pool serves ``slots`` calls at a time."""

    name: str
    slots: int


@dataclass(frozen=True)
class FunctionDefinition:
    """A Python function as declared: the Spark type that it returns, and the file or module it is in.

    ``location`` is None for a function that was handed over from Python.
    """

    name: str
    returns: str
    location: str | None = None

    @property
    def is_boolean(self) -> bool:
        """Whether it returns a truth."""
        return self.returns.strip().lower() in ("boolean", "bool")

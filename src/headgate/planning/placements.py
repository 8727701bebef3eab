"""Placements: which functions and pools there are, and which function or probe is placed where."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.errors import QueryError, Span, known_names
from headgate.model.pool import FunctionDefinition, PoolDefinition


class Placements:
    """Functions, pools and what binds them; names match without regard to case."""

    def __init__(self) -> None:
        self._functions: dict[str, FunctionDefinition] = {}
        self._pools: dict[str, PoolDefinition] = {}
        self._pool_of: dict[str, str] = {}
        self._pool_of_probe: dict[str, str] = {}
        self.version = 0
        """How often something has been declared."""

    @property
    def functions(self) -> tuple[FunctionDefinition, ...]:
        """All functions, in order of declaration."""
        return tuple(self._functions.values())

    @property
    def pools(self) -> tuple[PoolDefinition, ...]:
        """All pools, in order of declaration."""
        return tuple(self._pools.values())

    def create_function(self, function: FunctionDefinition, span: Span | None = None) -> None:
        """Register a function of CREATE FUNCTION."""
        if function.name.lower() in self._functions:
            raise QueryError(f"there is a function {function.name} already; choose another name", span)
        self.add_function(function)

    def add_function(self, function: FunctionDefinition) -> None:
        """Register a function; one of the same name gives way."""
        self._functions[function.name.lower()] = function
        self.version += 1

    def create_pool(self, name: str, slots: int) -> None:
        """Register a pool."""
        self._pools[name.lower()] = PoolDefinition(name, slots)
        self.version += 1

    def alter_pool(self, name: str, slots: int, span: Span | None = None) -> None:
        """Give a pool another number of slots."""
        self._pools[name.lower()] = PoolDefinition(self._pool(name, span).name, slots)
        self.version += 1

    def place(
        self,
        function: str,
        pool: str,
        function_span: Span | None = None,
        pool_span: Span | None = None,
    ) -> None:
        """Bind a function to a pool."""
        found = self._functions.get(function.lower())
        if found is None:
            known = known_names([f.name for f in self.functions])
            message = f"unknown function {function}; known: {known}; write CREATE FUNCTION before PLACE"
            raise QueryError(message, function_span)
        placed = self._pool_of.get(function.lower())
        if placed is not None:
            raise QueryError(f"function {found.name} is placed on {placed} already; keep one", function_span)
        self._pool_of[function.lower()] = self._free(pool, self._pool_of_probe, "probes", pool_span)
        self.version += 1

    def place_probe(
        self, stream: str, pool: str, stream_span: Span | None = None, pool_span: Span | None = None
    ) -> None:
        """Bind the probes of a stream's windows to a pool."""
        placed = self._pool_of_probe.get(stream)
        if placed is not None:
            raise QueryError(f"the probe of {stream} is placed on {placed} already; keep one", stream_span)
        self._pool_of_probe[stream] = self._free(pool, self._pool_of, "functions", pool_span)
        self.version += 1

    def pool_of_probe(self, stream: str) -> str | None:
        """Where joins look tuples up in the windows of a stream; None: in ticks, as other joins do."""
        return self._pool_of_probe.get(stream)

    def _free(self, pool: str, others: Mapping[str, str], kind: str, span: Span | None) -> str:
        """A pool without placements of the other kind: a slot is a call of one tuple, or a job on many."""
        found = self._pool(pool, span).name
        if found in others.values():
            message = f"pool {found} serves {kind}; a pool takes functions or probes, so create another one"
            raise QueryError(message, span)
        return found

    def placed(self, name: str) -> tuple[FunctionDefinition, str] | None:
        """The function of that name and its pool, if it is placed."""
        pool = self._pool_of.get(name.lower())
        return None if pool is None else (self._functions[name.lower()], pool)

    def _pool(self, name: str, span: Span | None) -> PoolDefinition:
        if name.lower() not in self._pools:
            known = known_names([pool.name for pool in self.pools])
            raise QueryError(f"unknown pool {name}; known: {known}; write CREATE POOL first", span)
        return self._pools[name.lower()]

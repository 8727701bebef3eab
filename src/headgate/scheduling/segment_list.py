"""The segments of many queries: registered and removed in any order, the list is the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from headgate.errors import InternalError

Operators = tuple[str, ...]


class SegmentList:
    """Of all registered segments, those that are no part of another one."""

    def __init__(self) -> None:
        self._by_query: dict[str, tuple[Operators, ...]] = {}
        self._uses: Counter[str] = Counter()

    def register(self, query: str, segments: Iterable[Operators]) -> None:
        """Add a query's segments."""
        if query in self._by_query:
            raise InternalError(f"query {query} is registered already")
        self._by_query[query] = tuple(segments)
        self._uses.update(_operators(self._by_query[query]))

    def unregister(self, query: str) -> None:
        """Take a query's segments away; those that stood back for them count again."""
        if query not in self._by_query:
            raise InternalError(f"query {query} is not registered")
        self._uses -= Counter(_operators(self._by_query.pop(query)))

    def uses(self, operator: str) -> int:
        """How many queries have the operator."""
        return self._uses[operator]

    @property
    def operators(self) -> frozenset[str]:
        """The operators that some query has."""
        return frozenset(self._uses)

    @property
    def segments(self) -> tuple[Operators, ...]:
        """What is served: in order of their operators' names, whatever the order of registration."""
        there = {segment for segments in self._by_query.values() for segment in segments}
        by_operator: dict[str, list[frozenset[str]]] = {}
        kept = []
        # the longest first: only they can hold others
        for segment in sorted(there, key=lambda segment: (-len(segment), segment)):
            members = frozenset(segment)
            if not any(members <= longer for longer in by_operator.get(segment[0], ())):
                kept.append(segment)
                for operator in segment:
                    by_operator.setdefault(operator, []).append(members)
        return tuple(sorted(kept))


def _operators(segments: Iterable[Operators]) -> set[str]:
    return {operator for segment in segments for operator in segment}

"""The order in which the sides of a window join are joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

# a join has far fewer sides
_DEEPEST = 32


class JoinOrder(tuple["str | JoinOrder", ...]):
    """Aliases, each joined with all before it; an order within it is joined first (a bushy plan)."""

    __slots__ = ()

    @staticmethod
    def of(items: Any, deepest: int = _DEEPEST) -> JoinOrder:
        """The order that nested lists of aliases stand for; raises ValueError for anything else."""
        if not isinstance(items, Sequence) or isinstance(items, (str, bytes)) or not items or not deepest:
            raise ValueError("an order is a list of aliases, in which a bushy plan has lists of its own")
        return JoinOrder(item if isinstance(item, str) else JoinOrder.of(item, deepest - 1) for item in items)

    @staticmethod
    def read(text: str) -> JoinOrder:
        """The order of a text such as ``a b (c d)``; raises ValueError if parentheses do not match."""
        unclosed: list[list[Any]] = [[]]
        for word in text.replace("(", " ( ").replace(")", " ) ").split():
            if word == "(":
                unclosed.append([])
            elif word != ")":
                unclosed[-1].append(word)
            elif len(unclosed) == 1:
                raise ValueError("')' closes nothing")
            else:
                unclosed[-2].append(unclosed.pop())
        if len(unclosed) > 1:
            raise ValueError("'(' is not closed")
        return JoinOrder.of(unclosed[0])

    @property
    def aliases(self) -> tuple[str, ...]:
        """All aliases, from left to right."""
        own = ((item,) if isinstance(item, str) else item.aliases for item in self)
        return tuple(alias for aliases in own for alias in aliases)

    def __str__(self) -> str:
        return ", ".join(item if isinstance(item, str) else f"({item})" for item in self)

    def to_json(self) -> list[Any]:
        return [item if isinstance(item, str) else item.to_json() for item in self]

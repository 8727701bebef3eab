"""Which sides of a window join a predicate looks at, and the order in which they are joined unless told."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.model.expression import Expression
from headgate.model.operator import WindowJoin


def aliases_of(predicate: Expression, aliases: Sequence[str]) -> set[str]:
    """The sources that a predicate looks at."""
    found = set()
    for column in predicate.columns:
        owners = [alias for alias in aliases if column.startswith(f"{alias}__")]
        found.add(max(owners, key=len))
    return found


def connected_order(operator: WindowJoin) -> list[int]:
    """Sides in FROM order, but each one joined by a predicate to those before it, if any is."""
    left = list(range(len(operator.sides)))
    order = [left.pop(0)]
    while left:
        known = {operator.sides[i].alias for i in order}
        linked = [i for i in left if _links(operator, known, operator.sides[i].alias)]
        order.append(left.pop(left.index(linked[0] if linked else left[0])))
    return order


def _links(operator: WindowJoin, known: set[str], alias: str) -> bool:
    aliases = [side.alias for side in operator.sides]
    used = (aliases_of(predicate, aliases) for predicate in operator.predicates)
    return any(alias in u and u & known for u in used)

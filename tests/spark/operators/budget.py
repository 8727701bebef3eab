"""How often a property is tried."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st


def few(examples: int) -> Any:
    """So many random cases by seed; each costs some Spark queries.

    The smallest cases of a strategy, which come first, would be all that so few examples see: streams of one
    tuple. A seed makes every case a dense one.
    """

    def tried(test: Any) -> Any:
        limited = settings(
            max_examples=examples,
            deadline=None,
            database=None,
            # a smaller seed is no simpler case
            phases=[Phase.generate],
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
        )
        return limited(given(seed=st.integers(0, 2**32 - 1))(test))

    return tried


untimed: Any = settings(deadline=None)
"""For properties without Spark: other processes may have the processors."""

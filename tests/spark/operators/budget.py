"""How often a property that needs Spark is tried: each example costs some queries."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, Phase, settings


def few(examples: int) -> Any:
    """So many examples, the same ones in every run; a failure is made smaller before it is shown."""
    return settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )


untimed: Any = settings(deadline=None)
"""For properties without Spark: other processes may have the processors."""

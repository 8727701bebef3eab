"""A few hundred mutated cases; ``python -m tests.mutations`` runs as many as one likes."""

from __future__ import annotations

import random

import pytest
from tests.mutations.cases import kinds
from tests.mutations.judging import Outcomes, run_mutated, run_unchanged

pytestmark = pytest.mark.slow

_CASES = 200


@pytest.fixture(scope="module")
def unchanged() -> Outcomes:
    """What becomes of cases as they are; the first of them import what all others need."""
    return run_unchanged(random.Random(0))


def test_of_each_kind_something_is_accepted_as_it_is(unchanged: Outcomes) -> None:
    assert not [failure for failure in unchanged.failures if ": takes " not in failure]
    assert all(unchanged.counts[f"{kind.name}: accepted"] for kind, _ in kinds())
    assert not unchanged.counts["cql: refused"]


@pytest.mark.usefixtures("unchanged")
def test_mutated_documents_and_options_are_accepted_or_refused_in_one_line_within_a_second(
    run_seed: int,
) -> None:
    outcomes = run_mutated(range(_CASES), run_seed)
    assert not outcomes.failures, "\n\n".join(outcomes.failures[:5])
    refused = sum(count for name, count in outcomes.counts.items() if name.endswith("refused"))
    # most must reach the border, and some must get past it
    assert _CASES / 4 < refused < _CASES

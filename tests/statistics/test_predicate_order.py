"""Predicates by rank: the cheapest of all orders, and nothing moved that could fail."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from headgate.model.expression import Expression
from headgate.model.operator import Select
from headgate.model.operator_inputs import StreamInput
from headgate.model.profile import Profile
from headgate.statistics.store import PredicateEstimates, PredicateOrder

NAMES = "abcd"
SELECT = Select("q.select_s", StreamInput("s", "s", ()), tuple(Expression.parse(name) for name in NAMES))
FIGURES = st.tuples(st.floats(1e-8, 1e-3), st.floats(0, 1)).map(lambda f: Profile(*f))


def ordering(movable: str = NAMES, **known: Profile) -> PredicateOrder:
    estimates = PredicateEstimates({SELECT.name: known})
    return PredicateOrder({SELECT.name: SELECT}, {SELECT.name: frozenset(movable)}, estimates)


def order(ordered: PredicateOrder) -> str:
    return "".join(predicate.text for predicate in ordered.order(SELECT))


def cost_s(names: str, figures: dict[str, Profile]) -> float:
    seconds, passing = 0.0, 1.0
    for name in names:
        seconds += passing * figures[name].seconds_per_tuple
        passing *= figures[name].selectivity
    return seconds


@given(st.fixed_dictionaries(dict.fromkeys(NAMES, FIGURES)))
def test_no_order_saves_more_than_another_plan_is_worth(figures: dict[str, Profile]) -> None:
    found = cost_s(order(ordering(**figures)), figures)
    best = min(cost_s("".join(names), figures) for names in permutations(NAMES))
    assert found <= max(best / 0.8, best + 5e-7) * (1 + 1e-9)


@given(st.fixed_dictionaries(dict.fromkeys(NAMES, FIGURES)), st.sets(st.sampled_from(NAMES)))
def test_a_predicate_that_could_fail_is_asked_behind_the_same_ones(
    figures: dict[str, Profile], movable: set[str]
) -> None:
    found = order(ordering("".join(movable), **figures))
    for place, name in enumerate(NAMES):
        if name not in movable:
            assert set(found[: found.index(name)]) == set(NAMES[:place])


def test_the_written_order_stays_until_all_figures_are_known_and_worth_it() -> None:
    dear, cheap = Profile(1e-3, 0.9), Profile(1e-6, 0.5)
    assert order(ordering(a=dear, b=cheap)) == NAMES
    ordered = ordering()
    assert order(ordered) == NAMES
    ordered.add_trials({SELECT.name: {"a": dear, "b": cheap, "c": cheap, "d": Profile(1e-6, 0.1)}})
    assert order(ordered) == "dbca"
    # a saving that nobody would notice
    tiny = ordering(a=Profile(2e-7, 0.9), b=Profile(1e-8, 0.5), c=cheap, d=cheap)
    assert order(tiny)[:2] == "ab"


def test_trials_become_rare_once_they_tell_and_leave_out_what_cannot_move() -> None:
    ordered, tried = ordering("abd"), []
    for tick in range(1, 300):
        if ordered.wants_trial():
            tried.append(tick)
            # of too few tuples, nothing can be told
            ordered.add_trials({} if tick == 4 else {SELECT.name: {"a": Profile()}})
    assert tried == [4, 5, 20, 80]
    assert [predicate.text for predicate in ordered.to_try(SELECT)] == ["a", "b"]
    alone = ordering("a")
    assert not any(alone.wants_trial() for _ in range(100))

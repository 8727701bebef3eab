"""``explain --profile``: candidate plans, the chosen one, its drop boxes, and why.

Statistics come from a TOML file written by hand, or from a profile that a run has measured.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from rich import box
from rich.table import Table as TextTable

from headgate.cli.script import Script, answers_json, print_answers
from headgate.cli.working import Working
from headgate.errors import SetupError
from headgate.formats.plain_json import json_text
from headgate.planning.catalog import Catalog
from headgate.planning.join_order.choose import Decision, PlansOf, QueryDecision, choose
from headgate.planning.join_order.pose import problems_of
from headgate.planning.join_order.search import Candidate, all_plans, left_deep_plans, operators_of
from headgate.planning.lower import Stages
from headgate.planning.plan_statistics import Context, MeasuredStatistics, Missing, WrittenStatistics, form_of
from headgate.planning.plan_tree import Json
from headgate.planning.rules import optimize
from headgate.planning.statistics_file import written_statistics
from headgate.report.screen import screen
from headgate.statistics.completeness import with_idle_operators
from headgate.statistics.profile_file import FILE_NAME, Measured


def show_decision(file: Path, profile: Path, capacity: float, bushy: bool, as_json: bool) -> None:
    """Print candidate plans of every query, the chosen one, its drop boxes, and why."""
    plans_of = all_plans if bushy else left_deep_plans
    executed = Script.read(file).with_queries()
    with Working("comparing plans"):
        decision, assumed = _decide(executed.catalog, profile, capacity, plans_of)
    if as_json:
        queries = {name: _query_json(own, capacity) for name, own in decision.queries.items()}
        found = {"capacity": capacity, "queries": queries, **({"assumed": assumed} if assumed else {})}
        print(json_text({**answers_json(executed.answers), **found}))
        return
    print_answers(executed.answers)
    console = screen()
    for assumption in assumed:
        console.print(f"assumed: {assumption}", soft_wrap=True, markup=False)
    for name, own in decision.queries.items():
        console.print(f"query {name}: {own.why}", soft_wrap=True, markup=False)
        console.print(_table(own, capacity))
        console.print(str(operators_of(own.chosen)), soft_wrap=True, markup=False)
        console.print()


def _decide(
    catalog: Catalog, profile: Path, capacity: float, plans_of: PlansOf
) -> tuple[Decision, list[str]]:
    """The decision, and what it assumes."""
    stages = Stages.of(catalog)
    measured = profile / FILE_NAME if profile.is_dir() else profile
    statistics: MeasuredStatistics | WrittenStatistics
    texts: Collection[str] = ()
    if measured.suffix.lower() == ".json":
        statistics = MeasuredStatistics(with_idle_operators(Measured.read(measured), stages.lowered))
    else:
        statistics, texts = written_statistics(profile, catalog)
    missing = Missing()
    running = stages.lowered.running
    plans = [optimize(plan, Context(statistics, running)) for plan in stages.bound]
    posed = [one for plan in plans for one in problems_of(plan, statistics, missing, running)]
    predicates = [predicate for one in posed for predicate in one.predicates]
    forms = {form for predicate in predicates for form in predicate.forms}
    for text in texts:
        if form_of(text) not in forms:
            known = ", ".join(dict.fromkeys(f'"{predicate.text}"' for predicate in predicates))
            raise SetupError(f'{profile}: predicates."{text}" is in no query; known: {known or "none"}')
    if missing.what:
        raise SetupError(f"{profile} lacks {', '.join(missing.what)}; headgate profile measures it")
    if missing.by_hand:
        raise SetupError(
            f"{profile} lacks {', '.join(missing.by_hand)}, which nothing measures; write a profile "
            "in TOML with [streams.NAME] keys = 50"
        )
    return choose([one.problem for one in posed], capacity, plans_of), missing.assumed


def _query_json(own: QueryDecision, capacity: float) -> Json:
    chosen = own.chosen
    return {
        "feasible": chosen.is_feasible,
        "why": own.why,
        "chosen": {**_candidate_json(chosen, capacity), "plan": operators_of(chosen).to_json()},
        "shares_join_with": chosen.problem.shares_with,
        "considered": own.considered,
        "candidates": [_candidate_json(candidate, capacity) for candidate in own.candidates],
    }


def _candidate_json(candidate: Candidate, capacity: float) -> Json:
    return {
        "order": candidate.order,
        "feasible": candidate.is_feasible,
        "utilisation": candidate.cost_per_s / capacity,
        "utilisation_kept": candidate.shed_cost_per_s / capacity,
        "output_rate": candidate.output_per_s,
        "keep": dict(candidate.keep),
        "cross_products": candidate.crosses,
    }


def _table(own: QueryDecision, capacity: float) -> TextTable:
    title = f"the best {len(own.candidates)} of {own.considered} plans"
    table = TextTable(box=box.SIMPLE_HEAD, title=title if len(own.candidates) < own.considered else None)
    for heading in ("", "order"):
        table.add_column(heading)
    for heading in (f"utilisation (of {capacity:g} processors)", "results (tuples/s)"):
        table.add_column(heading, justify="right")
    table.add_column("keep (share of the stream)")
    for candidate in own.candidates:
        is_chosen = str(candidate) == str(own.chosen)
        # with other queries beside it, the chosen one has boxes of its own
        shown = own.chosen if is_chosen else candidate
        kept = ", ".join(f"{s} {share:.4g}" for s, share in shown.keep.items() if share < 1)
        numbers = (f"{shown.cost_per_s / capacity:.4g}", f"{shown.output_per_s:,.6g}")
        table.add_row("chosen" if is_chosen else "", str(shown), *numbers, kept or "all")
    return table

"""``explain --profile``: candidate plans, the chosen one, its drop boxes, and why."""

from __future__ import annotations

from pathlib import Path

from rich import box
from rich.table import Table

from headgate.cli.statistics_file import predicate_texts, read_statistics
from headgate.cli.summary import screen
from headgate.errors import SetupError
from headgate.planning.catalog import Catalog
from headgate.planning.join_problem import Posed, problems_of
from headgate.planning.joins.candidate import Candidate
from headgate.planning.joins.choose import Decision, PlansOf, QueryDecision, choose
from headgate.planning.joins.operators import operators_of
from headgate.planning.predicates import form_of
from headgate.planning.rules.order_filters import order_filters
from headgate.planning.stages import Stages
from headgate.planning.statistics import Missing
from headgate.planning.tree import Json


def decide(catalog: Catalog, stages: Stages, profile: Path, capacity: float, plans_of: PlansOf) -> Decision:
    """Choose plans and boxes for all queries on the figures of a file."""
    statistics = read_statistics(profile, catalog)
    missing = Missing()
    running = stages.lowered.running
    plans = [order_filters(plan, statistics, running) for plan in stages.optimized]
    posed = [one for plan in plans for one in problems_of(plan, statistics, missing, running)]
    _refuse_unknown(posed, profile)
    if missing.what:
        raise SetupError(f"{profile} does not tell {', '.join(missing.what)}; headgate profile measures it")
    if missing.by_hand:
        raise SetupError(
            f"{profile} does not tell {', '.join(missing.by_hand)}, which nothing measures; write a profile "
            "in TOML with [streams.NAME] keys = 50"
        )
    return choose([one.problem for one in posed], capacity, plans_of)


def _refuse_unknown(posed: list[Posed], profile: Path) -> None:
    known = {form for one in posed for asked in one.asked for form in asked.forms}
    for text in predicate_texts(profile):
        if form_of(text) not in known:
            texts = dict.fromkeys(f'"{asked.text}"' for one in posed for asked in one.asked)
            raise SetupError(
                f'{profile}: predicates."{text}" is in no query; known: {", ".join(texts) or "none"}'
            )


def decision_json(decision: Decision) -> Json:
    """The document of ``--json``."""
    return {
        "capacity": decision.capacity,
        "queries": {name: _query_json(own, decision) for name, own in decision.queries.items()},
    }


def _query_json(own: QueryDecision, decision: Decision) -> Json:
    return {
        "feasible": own.chosen.is_feasible,
        "why": own.why,
        "chosen": {
            **_candidate_json(own.chosen, decision.capacity),
            "plan": operators_of(own.chosen).to_json(),
        },
        "shares_join_with": own.chosen.problem.shares_with,
        "considered": own.considered,
        "candidates": [_candidate_json(c, decision.capacity) for c in own.candidates],
    }


def _candidate_json(candidate: Candidate, capacity: float) -> Json:
    return {
        "order": candidate.order,
        "feasible": candidate.is_feasible,
        "utilisation": candidate.cost_per_s / capacity,
        "utilisation_kept": candidate.kept_cost_per_s / capacity,
        "output_rate": candidate.output_per_s,
        "keep": dict(candidate.keep),
        "cross_products": candidate.crosses,
    }


def print_decision(decision: Decision) -> None:
    """The same for people to read."""
    console = screen()
    for name, own in decision.queries.items():
        console.print(f"query {name}: {own.why}", soft_wrap=True, markup=False)
        console.print(_table(own, decision.capacity))
        console.print(str(operators_of(own.chosen).tree()), soft_wrap=True, markup=False)
        console.print()


def _table(own: QueryDecision, capacity: float) -> Table:
    title = f"the best {len(own.candidates)} of {own.considered} plans"
    table = Table(box=box.SIMPLE_HEAD, title=title if len(own.candidates) < own.considered else None)
    table.add_column("")
    table.add_column("order")
    for heading in ("utilisation", "results/s"):
        table.add_column(heading, justify="right")
    table.add_column("keep")
    shown = own.candidates
    if str(own.chosen) in map(str, shown):
        # with other queries beside it, the chosen one has boxes of its own
        shown = tuple(own.chosen if str(c) == str(own.chosen) else c for c in shown)
    for candidate in shown:
        kept = ", ".join(f"{s} {share:.4g}" for s, share in candidate.keep.items() if share < 1)
        table.add_row(
            "chosen" if str(candidate) == str(own.chosen) else "",
            str(candidate),
            f"{candidate.cost_per_s / capacity:.4g}",
            f"{candidate.output_per_s:,.6g}",
            kept or "all",
        )
    return table

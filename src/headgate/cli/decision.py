"""``explain --profile``: candidate plans, the chosen one, its drop boxes, and why.

Statistics come from a TOML file written by hand, or from a profile that a run has measured.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table as TextTable

from headgate.cli.script import Script, answers_json, print_answers
from headgate.errors import SetupError, known_names
from headgate.plain_json import json_text
from headgate.planning.catalog import Catalog
from headgate.planning.join_order.choose import Decision, PlansOf, QueryDecision, choose
from headgate.planning.join_order.pose import problems_of
from headgate.planning.join_order.problem import WindowSeconds
from headgate.planning.join_order.search import Candidate, all_plans, left_deep_plans, operators_of
from headgate.planning.logical import Json
from headgate.planning.lower import Stages
from headgate.planning.rules import optimize
from headgate.planning.statistics import (
    Context,
    MeasuredStatistics,
    Missing,
    PredicateStatistics,
    WrittenStatistics,
    form_of,
)
from headgate.report import screen
from headgate.simulator.toml_table import Table, toml_content
from headgate.statistics.completeness import with_idle_operators
from headgate.statistics.profile_file import FILE_NAME, Measured

_WINDOW = ("insert_seconds", "expire_seconds", "probe_seconds")
_PASSING = ("project_seconds", "relation_seconds", "aggregate_seconds")


def show_decision(file: Path, profile: Path, capacity: float, bushy: bool, as_json: bool) -> None:
    """Print candidate plans of every query, the chosen one, its drop boxes, and why."""
    plans_of = all_plans if bushy else left_deep_plans
    executed = Script.read(file).with_queries()
    decision = _decide(executed.catalog, profile, capacity, plans_of)
    if as_json:
        queries = {name: _query_json(own, capacity) for name, own in decision.queries.items()}
        print(json_text({**answers_json(executed.answers), "capacity": capacity, "queries": queries}))
        return
    print_answers(executed.answers)
    console = screen()
    for name, own in decision.queries.items():
        console.print(f"query {name}: {own.why}", soft_wrap=True, markup=False)
        console.print(_table(own, capacity))
        console.print(str(operators_of(own.chosen)), soft_wrap=True, markup=False)
        console.print()


def _decide(catalog: Catalog, profile: Path, capacity: float, plans_of: PlansOf) -> Decision:
    stages = Stages.of(catalog)
    measured = profile / FILE_NAME if profile.is_dir() else profile
    statistics: MeasuredStatistics | WrittenStatistics
    texts: Collection[str] = ()
    if measured.suffix.lower() == ".json":
        statistics = MeasuredStatistics(with_idle_operators(Measured.read(measured), stages.lowered))
    else:
        content = toml_content(profile, "a profile (.toml or .json)", "; headgate profile writes one")
        statistics, texts = _written(content, str(profile), catalog), content.get("predicates", {})
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
    return choose([one.problem for one in posed], capacity, plans_of)


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


def _written(content: dict[str, Any], file: str, catalog: Catalog) -> WrittenStatistics:
    """Statistics written in TOML; names that the catalog does not have are an error."""
    whole = Table(content, file)
    whole.only("streams", "predicates", "cost", "relations", "queries")
    own = _known(whole, "stream", catalog.streams, "rate = 100", "keys", *_WINDOW)
    predicates = _tables(whole, "predicates", '[predicates."A.a = B.a"] with selectivity = 0.5')
    by_query = _known(whole, "query", catalog.queries, "weight = 2")
    by_relation = _known(whole, "relation", catalog.relations, "rows = 1000")
    cost = Table(content.get("cost", {}), file, "cost")
    cost.only("join_seconds", "select_seconds", *_WINDOW, *_PASSING)
    join = _join(cost)
    return WrittenStatistics(
        rates={name: table.number("rate") for name, table in own.items() if "rate" in table},
        predicates={form_of(text): _predicate(table) for text, table in predicates.items()},
        join=join,
        windows={
            name: _window(table, join or WindowSeconds())
            for name, table in own.items()
            if any(key in table for key in _WINDOW)
        },
        select_seconds=cost.number("select_seconds", 0.0),
        passing={key.removesuffix("_seconds"): cost.number(key, 0.0) for key in _PASSING},
        partition_keys={name: table.number("keys") for name, table in own.items() if "keys" in table},
        relation_rows={name: table.number("rows") for name, table in by_relation.items()},
        weights={name: table.number("weight", 1.0) for name, table in by_query.items()},
    )


def _known(
    whole: Table, kind: str, known: Collection[str], example: str, *others: str
) -> Mapping[str, Table]:
    """The tables of streams, relations or queries, by declared name; keys are the example's and others."""
    plural = "queries" if kind == "query" else f"{kind}s"
    names = {name.lower(): name for name in known}
    found = {}
    for name, table in _tables(whole, plural, f"[{plural}.NAME] with {example}").items():
        if name.lower() not in names:
            raise whole.error(f"{plural}.{name}", f"is no {kind}; known: {known_names(list(known))}")
        table.only(example.split()[0], *others)
        found[names[name.lower()]] = table
    return found


def _tables(whole: Table, key: str, example: str) -> dict[str, Table]:
    return whole.tables(key, example) if key in whole else {}


def _predicate(table: Table) -> PredicateStatistics:
    table.only("selectivity", "seconds")
    selectivity = table.number("selectivity")
    if selectivity > 1:
        raise table.error("selectivity", f"= {selectivity:g} is out of range; write a share from 0 to 1")
    return PredicateStatistics(selectivity, table.number("seconds", None))


def _join(cost: Table) -> WindowSeconds | None:
    parts = [key for key in _WINDOW if key in cost]
    if "join_seconds" not in cost:
        return _window(cost, WindowSeconds()) if parts else None
    if parts:
        raise cost.error("join_seconds", f"is the sum of {', '.join(_WINDOW)}; keep one or the others")
    return WindowSeconds(probe_seconds=cost.number("join_seconds"))


def _window(table: Table, default: WindowSeconds) -> WindowSeconds:
    return WindowSeconds(**{key: table.number(key, getattr(default, key)) for key in _WINDOW})

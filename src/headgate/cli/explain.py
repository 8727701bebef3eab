"""``headgate explain``: what becomes of the queries of a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from headgate.cli.options import DEBUG, FILE, JSON
from headgate.errors import SetupError

if TYPE_CHECKING:
    from headgate.cli.script import Script
    from headgate.planning.catalog import Catalog
    from headgate.planning.logical import LogicalPlan
    from headgate.planning.stages import Stages

EXAMPLE = "Example: headgate explain examples/network.sql --after lower"


# shown if none is named; they need no Spark
_STAGES = ("bind", "optimize", "lower")
_SQL = "sql"
# texts do not depend on where they would run
_MASTER = "local[*]"


def explain(
    file: Path = FILE,
    after: str | None = typer.Option(
        None, metavar="STAGE", help="Show bind, optimize or lower alone; or sql, the Spark SQL of a tick."
    ),
    profile: Path | None = typer.Option(
        None,
        metavar="PROFILE",
        help="Rates, selectivities and costs: choose join orders and what to shed on these figures.",
        show_default=False,
    ),
    capacity: float | None = typer.Option(
        None, metavar="N", help="Processors that there are; 1 if not given.", show_default=False
    ),
    bushy: bool = typer.Option(False, "--bushy", help="Try plans of all shapes, not left-deep ones alone."),
    as_json: bool = JSON,
    debug: bool = DEBUG,
) -> None:
    """Show the plan of every query after bind, optimize and lower; nothing runs.

    With a profile, show what each join order would take and give instead, and which one is chosen.
    Spark is only started for ``--after sql``, or if the columns of a source are not declared.
    """
    del debug
    if after is not None and after not in (*_STAGES, _SQL):
        raise SetupError(f"--after takes bind, optimize, lower or sql, not {after}")
    if profile is None and (capacity is not None or bushy):
        option = "--bushy" if capacity is None else "--capacity"
        raise SetupError(f"{option} needs figures to judge plans by; add --profile PROFILE")
    if profile is not None and after is not None:
        raise SetupError("--after and --profile exclude each other; keep one of them")
    if capacity is not None and not 0 < capacity < float("inf"):
        raise SetupError(f"--capacity {capacity:g} runs nothing; write a number of processors above 0")
    if after == _SQL:
        _show_sql(file, as_json)
        return
    from headgate.cli.script import Script
    from headgate.planning.stages import Stages

    catalog = Script.read(file).catalog()
    stages = Stages.of(catalog)
    if profile is not None:
        _decide(catalog, stages, profile, 1.0 if capacity is None else capacity, bushy, as_json)
        return
    wanted = _STAGES if after is None else (after,)
    if as_json:
        print(json.dumps({stage: _as_json(stages, stage) for stage in wanted}, indent=2))
    elif after is not None:
        print(_as_text(stages, after))
    else:
        print("\n\n".join(f"-- after {stage}\n{_as_text(stages, stage)}" for stage in wanted))


def _show_sql(file: Path, as_json: bool) -> None:
    from headgate.cli.early import read_script

    texts = _sql(read_script(file, _MASTER))
    if as_json:
        print(json.dumps({_SQL: texts}, indent=2))
    else:
        print("\n\n".join(f"-- query {name}\n{text}" for name, text in texts.items()))


def _sql(script: Script) -> dict[str, str]:
    from headgate.cli.progress import Progress
    from headgate.session import Session

    with Progress("starting Spark"):
        return Session(master=_MASTER).execute(script.text, script.origin).sql()


def _decide(
    catalog: Catalog, stages: Stages, profile: Path, capacity: float, bushy: bool, as_json: bool
) -> None:
    from headgate.cli.decision import decide, decision_json, print_decision
    from headgate.planning.joins.exhaustive import all_plans, left_deep_plans

    decision = decide(catalog, stages, profile, capacity, all_plans if bushy else left_deep_plans)
    if as_json:
        print(json.dumps(decision_json(decision), indent=2))
    else:
        print_decision(decision)


def _as_text(stages: Stages, stage: str) -> str:
    from headgate.planning.describe import describe

    return describe(stages.lowered) if stage == "lower" else "\n\n".join(map(str, _plans(stages, stage)))


def _as_json(stages: Stages, stage: str) -> object:
    from headgate.planning.describe import describe_json

    if stage == "lower":
        return describe_json(stages.lowered)
    return [plan.to_json() for plan in _plans(stages, stage)]


def _plans(stages: Stages, stage: str) -> tuple[LogicalPlan, ...]:
    return stages.bound if stage == "bind" else stages.optimized

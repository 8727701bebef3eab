"""``headgate explain``: what becomes of the queries of a file."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from headgate.cli.options import DEBUG, FILE, JSON
from headgate.cli.script import Script, Stages
from headgate.errors import SetupError
from headgate.planning.describe import describe, describe_json
from headgate.planning.logical import LogicalPlan

EXAMPLE = "Example: headgate explain examples/network.sql --after lower"


_STAGES = ("bind", "optimize", "lower")


def explain(
    file: Path = FILE,
    after: str | None = typer.Option(None, metavar="STAGE", help="Show bind, optimize or lower alone."),
    as_json: bool = JSON,
    debug: bool = DEBUG,
) -> None:
    """Show the plan of every query after each stage; nothing runs.

    Spark is only started if the columns of a source are not declared.
    """
    del debug
    if after is not None and after not in _STAGES:
        raise SetupError(f"--after takes bind, optimize or lower, not {after}")
    stages = Stages.of(Script.read(file).catalog())
    wanted = _STAGES if after is None else (after,)
    if as_json:
        print(json.dumps({stage: _as_json(stages, stage) for stage in wanted}, indent=2))
    elif after is not None:
        print(_as_text(stages, after))
    else:
        print("\n\n".join(f"-- after {stage}\n{_as_text(stages, stage)}" for stage in wanted))


def _as_text(stages: Stages, stage: str) -> str:
    return describe(stages.lowered) if stage == "lower" else "\n\n".join(map(str, _plans(stages, stage)))


def _as_json(stages: Stages, stage: str) -> object:
    if stage == "lower":
        return describe_json(stages.lowered)
    return [plan.to_json() for plan in _plans(stages, stage)]


def _plans(stages: Stages, stage: str) -> tuple[LogicalPlan, ...]:
    return stages.bound if stage == "bind" else stages.optimized

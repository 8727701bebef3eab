"""Imports point one way: what a folder may import is listed here, and nothing else passes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = "headgate"
SOURCE = Path(__file__).parents[1] / "src" / PACKAGE

# plain functions over texts, numbers and rows: JSON, HTML
PLAIN = {"formats.arrow_rows", "formats.html", "formats.plain_json"}
# documents and numbers of users, checked
BORDER = {"formats.document", "formats.quantity"}
ENGINE = {"errors", "model", "formats.outputs", "routing", "runtime", "scheduling", "statistics", "workload"}
ENGINE |= PLAIN | BORDER
BELOW_SESSION = ENGINE | {"control", "cql", "planning", "queueing", "simulator", "spark"}
BELOW_FRONT = BELOW_SESSION | {
    "session.declarations",
    "session.handle",
    "session.placed",
    "session.predicting",
    "session.run_options",
    "session.session",
}
BELOW_FRONT |= {"session.preview", "session.state", "session.statements"}

# A folder or a module, and what of ours it may import. Modules that are not listed are as their folder.
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "formats": set(),
    "formats.outputs": {"errors"},
    "formats.quantity": {"errors"},
    "formats.document": {"errors"},
    "formats.arrow_rows": set(),
    "formats.html": set(),
    "formats.plain_json": set(),
    "model": {"errors"} | PLAIN,
    "cql": {"errors", "model"},
    "queueing": {"errors", "model"} | PLAIN,
    # streams declare rates
    "statistics": {"errors", "model", "workload"} | PLAIN | BORDER,
    "planning": {"cql", "errors", "model", "queueing", "statistics", "workload"} | PLAIN | BORDER,
    "scheduling": {"errors", "model", "formats.quantity"} | PLAIN,
    "routing": {"errors", "model"},
    "workload": BORDER | {"errors", "model"},
    "runtime": {"errors", "model", "routing", "scheduling", "statistics"},
    # engines take a Network, whoever planned it: neither planning nor cql is theirs to know
    "simulator": ENGINE,
    "spark": ENGINE,
    "session": set(),
    # functions by their place in files, and the router that runs use
    "session.placed": {"errors", "routing", "spark"},
    # what library users pass in, by name or as objects of their own
    "session.arguments": {"cql", "errors", "model", "session.placed", "routing", "runtime", "scheduling"},
    # decides by statistics and the planner's model; touches no engine
    "control": {"errors", "model", "planning", "queueing", "runtime", "statistics"} | PLAIN,
    # tables and plots of results
    "report": ENGINE | {"simulator", "spark"},
    # of a run, by observers that come late
    "session.following": {"model", "runtime"},
    "session.run_settings": ENGINE | {"control", "session.following", "planning", "spark"},
    # reads what a run has written
    "session.run_results": {"errors", "model", "session.arguments", "spark"},
    "session.handle": ENGINE
    | {
        "session.arguments",
        "control",
        "cql",
        "planning",
        "session.run_results",
        "session.run_settings",
        "spark",
        "report",
    },
    # all that it takes to start a network that has been planned
    "session.launching": ENGINE
    | {"control", "session.following", "session.handle", "session.run_settings", "spark"},
    # a run that goes on with other queries
    "session.changing": ENGINE
    | {"session.handle", "session.launching", "planning", "session.run_settings", "spark"},
    # a run for each round of a profiler
    "session.profile_runs": ENGINE | {"control", "session.launching", "session.run_settings", "spark"},
    # texts of options, with the checks of whatever they are for
    "session.run_options": {"control", "cql", "errors", "model", "session.placed", "planning", "scheduling"},
    "session.statements": {"cql", "errors", "planning", "session.run_options"},
    # what is declared, the Spark application, and plans
    "session.state": BELOW_SESSION | {"session.arguments", "session.run_options"},
    "session.declarations": BELOW_SESSION
    | {"session.arguments", "session.placed", "session.state", "session.statements"},
    # by the models of queueing, with the priorities of the simulator
    "session.predicting": {"control", "errors", "model", "queueing", "scheduling", "simulator", "statistics"},
    "session.preview": {
        "session.changing",
        "control",
        "errors",
        "session.handle",
        "planning",
        "session.predicting",
        "queueing",
        "statistics",
    }
    | PLAIN,
    # the run that is on, and how it goes on with other queries
    "session.runs": BELOW_SESSION
    | {
        "session.arguments",
        "session.changing",
        "session.declarations",
        "session.handle",
        "session.launching",
        "session.run_settings",
    },
    "session.session": BELOW_SESSION
    | {
        "session.arguments",
        "session.handle",
        "session.predicting",
        "session.preview",
        "session.profile_runs",
        "session.run_settings",
        "session.runs",
    },
    # all that it knows of queries and runs it asks the session
    "server": {"cql", "errors", "session.following", "session.handle", "model", "session.session"} | PLAIN,
    # a table or figure of a paper is drawn by report
    "experiments": BELOW_FRONT | {"report"},
    # a command starts the thing it is named after
    "cli": BELOW_FRONT | {"experiments", "report", "server"},
    "__init__": BELOW_FRONT,
    "__main__": {"cli"},
}

# Packages of others that only some folders may import.
RESERVED = {"pyspark": {"spark"}, "py4j": {"spark"}}


def imported_modules(path: Path, module: str) -> Iterator[tuple[int, str]]:
    """Line and absolute name of all that a file imports, wherever in the file it does so."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # a name may be a submodule: `from headgate import spark` imports headgate.spark
            base = absolute_base(node, module)
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def absolute_base(node: ast.ImportFrom, module: str) -> str:
    if node.level == 0:
        return node.module or ""
    parent = module.split(".")[: -node.level]
    return ".".join([*parent, node.module] if node.module else parent)


def unit_of(dotted: str) -> str:
    """The module or folder of ours that a name belongs to: the narrowest that the table lists."""
    parts = dotted.split(".")[1:]
    lengths = range(len(parts), 0, -1)
    return next((unit for n in lengths if (unit := ".".join(parts[:n])) in ALLOWED), "__init__")


def objection(unit: str, dotted: str) -> str | None:
    root = dotted.split(".")[0]
    if root == PACKAGE:
        target = unit_of(dotted)
        permitted = target == unit or target in ALLOWED[unit]
        return None if permitted else f"{unit} may not import {target}"
    if root in RESERVED and unit not in RESERVED[root]:
        return f"only {', '.join(sorted(RESERVED[root]))} may import {root}, not {unit}"
    return None


def violations(source: Path) -> list[str]:
    found = []
    for path in sorted(source.rglob("*.py")):
        place = path.relative_to(source)
        module = ".".join([PACKAGE, *place.with_suffix("").parts])
        top, unit = place.parts[0].removesuffix(".py"), unit_of(module)
        if top not in ALLOWED:
            found.append(f"{place}: {top} is not in the table of allowed imports")
            continue
        for line, dotted in imported_modules(path, module):
            if reason := objection(unit, dotted):
                found.append(f"{place}:{line}: {reason}")
    return found


def test_imports_of_the_package_point_one_way() -> None:
    assert SOURCE.is_dir()
    assert violations(SOURCE) == []


def test_the_table_lists_nothing_that_does_not_exist() -> None:
    units = {".".join(path.relative_to(SOURCE).with_suffix("").parts) for path in SOURCE.rglob("*")}
    assert set(ALLOWED) <= units


def test_the_table_itself_has_no_cycle() -> None:
    assert set(TopologicalSorter(ALLOWED).static_order()) == set(ALLOWED)


@pytest.mark.parametrize("engine", ["simulator", "spark"])
def test_engines_know_neither_planning_nor_cql_nor_each_other(engine: str) -> None:
    assert not ALLOWED[engine] & {"control", "planning", "cql", "queueing", "session", "simulator", "spark"}


@pytest.mark.parametrize(
    ("place", "statement", "reason"),
    [
        ("model/a.py", "import headgate.cql.parser", "model may not import cql"),
        ("scheduling/a.py", "from headgate.routing import policy", "scheduling may not import routing"),
        ("scheduling/a.py", "from ..routing.policy import Policy", "scheduling may not import routing"),
        ("scheduling/a.py", "from .. import routing", "scheduling may not import routing"),
        ("scheduling/__init__.py", "from ..routing import x", "scheduling may not import routing"),
        ("planning/rules/a.py", "from ...spark import engine", "planning may not import spark"),
        ("spark/a.py", "from headgate import planning", "spark may not import planning"),
        ("simulator/a.py", "from headgate.spark.engine import Engine", "simulator may not import spark"),
        ("runtime/a.py", "def f():\n    import headgate.session.session", "runtime may not import session"),
        ("cql/a.py", "if TYPE_CHECKING:\n    from headgate.planning import x", "cql may not import planning"),
        ("session/session.py", "import headgate.cli.app", "session.session may not import cli"),
        ("report/a.py", "from headgate.session.session import Session", "report may not import session"),
        ("session/handle.py", "from headgate.session import session", "may not import session.session"),
        ("model/a.py", "from headgate import Session", "model may not import __init__"),
        ("session/session.py", "from pyspark.sql import SparkSession", "only spark may import pyspark"),
        ("runtime/a.py", "import py4j", "only spark may import py4j"),
        ("odds/a.py", "", "odds is not in the table"),
    ],
)
def test_a_forbidden_import_is_reported(tmp_path: Path, place: str, statement: str, reason: str) -> None:
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(statement + "\n")
    [report] = violations(tmp_path)
    assert report.startswith(place)
    assert reason in report


@pytest.mark.parametrize(
    ("place", "statement"),
    [
        ("scheduling/a.py", "from headgate.model.network import Network\nfrom .b import helper"),
        ("scheduling/sub/__init__.py", "from ..a import x\nfrom ...errors import SetupError"),
        ("spark/a.py", "import pyspark\nfrom headgate.runtime import drive"),
        ("session/session.py", "from headgate.spark import engine\nimport headgate.planning"),
        ("cli/a.py", "from headgate.experiments import chain\nimport numpy"),
        ("__init__.py", "from .session.session import Session\nfrom headgate import errors"),
    ],
)
def test_a_permitted_import_is_not_reported(tmp_path: Path, place: str, statement: str) -> None:
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(statement + "\n")
    assert violations(tmp_path) == []

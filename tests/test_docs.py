"""Every code block of the documentation is run, or at least read, as its reader would."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from headgate import cql
from headgate.cli.app import app
from headgate.planning.bind import bind
from headgate.planning.catalog import Catalog
from headgate.planning.lower import lower
from headgate.planning.optimize import optimize
from headgate.simulator.network_file import is_network, read_network
from headgate.simulator.workload_file import read_workload

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:)([^)#]+)\)")


def blocks(language: str) -> list[Any]:
    found = []
    for page in PAGES:
        texts = [text for kind, text in _BLOCK.findall(page.read_text()) if kind == language]
        found += [pytest.param(text, id=f"{page.name}-{n}") for n, text in enumerate(texts, start=1)]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_cql_blocks_of_a_page_can_be_planned_one_after_the_other(page: Path) -> None:
    catalog = Catalog()
    for kind, text in _BLOCK.findall(page.read_text()):
        if kind == "sql":
            for statement in cql.parse(text, page.name):
                catalog.declare(statement)
    lower([optimize(bind(query, catalog)) for query in catalog.queries.values()], catalog)


@pytest.mark.parametrize("block", blocks("sh"))
def test_shell_blocks_use_commands_and_options_that_exist(block: str) -> None:
    recipes = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for line in block.splitlines():
        program, command, *arguments = shlex.split(line)
        if program == "make":
            assert command in recipes
            continue
        assert program == "headgate"
        known = options_of(command, *arguments)
        assert {argument for argument in arguments if argument.startswith("--")} <= known
        assert all((ROOT / file).exists() for file in arguments if file.endswith(".sql"))


def options_of(*words: str) -> set[str]:
    from typer.main import get_command

    command: Any = get_command(app)
    for word in words:
        if not hasattr(command, "commands"):
            break
        assert word in command.commands
        command = command.commands[word]
    return {option for parameter in command.params for option in parameter.opts}


@pytest.mark.parametrize("block", blocks("toml"))
def test_toml_blocks_are_workloads_or_networks(block: str, tmp_path: Path) -> None:
    path = tmp_path / "block.toml"
    path.write_text(block)
    if is_network(path):
        read_network(path)
    else:
        read_workload(path)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("block", blocks("python"))
def test_python_blocks_run(
    block: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {"__name__": "block"}
    if re.search(r"\bspark\b[.)]", block):
        names["spark"] = request.getfixturevalue("spark")
    exec(compile(block, "block", "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_that_exist(page: Path) -> None:
    assert [link for link in _LINK.findall(page.read_text()) if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_is_in_a_language_that_is_checked(page: Path) -> None:
    assert {kind for kind, _ in _BLOCK.findall(page.read_text())} <= {"", "sh", "sql", "python", "toml"}

"""Every code block of the documentation is run, or at least read, as its reader would."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headgate import cql
from headgate.cli.app import app
from headgate.planning.catalog import Catalog
from headgate.planning.lower import lower
from headgate.planning.queries import bind
from headgate.planning.rules import optimize
from headgate.session.run_options import RunOptions
from headgate.session.statements import perform
from headgate.simulator.routing_file import is_network, read_network
from headgate.simulator.workload_file import read_workload

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
# commands of examples that need neither a JVM nor a profile
WITHOUT_SPARK = ("explain", "route", "simulate")
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
    catalog, options = Catalog(), RunOptions()
    answers, shown = [], []
    for kind, text in _BLOCK.findall(page.read_text()):
        if kind == "sql":
            answers += [perform(statement, catalog, options) for statement in cql.parse(text, page.name)]
        elif text.startswith("-- "):
            shown.append(text)
    lower([optimize(bind(query, catalog)) for query in catalog.queries.values()], catalog)
    given = "\n\n".join(f"-- {answer.statement}\n{answer}" for answer in answers if answer)
    assert all(text.strip() in given for text in shown), given


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


@pytest.mark.slow
@pytest.mark.parametrize("block", blocks("sh"))
def test_commands_of_shell_blocks_that_need_no_spark_succeed(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    for line in block.splitlines():
        program, *arguments = shlex.split(line, comments=True)
        files = [word for word in arguments if word.endswith((".sql", ".toml", ".py", "/"))]
        runs = program == "headgate" and arguments[0] in WITHOUT_SPARK and "sql" not in arguments
        if runs and files and all(Path(file).exists() for file in files):
            result = CliRunner().invoke(app, arguments)
            assert result.exit_code == 0, f"{line}: {result.stderr}"


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
@pytest.mark.usefixtures("compiled")
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


@pytest.mark.slow
def test_the_site_has_every_page_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    built = {path.stem for path in tmp_path.glob("*.html")}
    assert {"index" if page.name == "README.md" else page.stem for page in PAGES} <= built
    assert (tmp_path / "search" / "search_index.json").stat().st_size > 10_000
    loaded = re.compile(r"""(?:<script[^>]*src|<link[^>]*href|@import|url\()[="'(]+(?:https?:)?//[^"')]*""")
    for path in (*tmp_path.glob("*.html"), *tmp_path.glob("assets/stylesheets/*.css")):
        assert loaded.findall(path.read_text()) == []
    assert "Continuous queries over one Spark application" in (tmp_path / "api.html").read_text()


def test_paths_that_newcomers_are_sent_to_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    paths = set(re.findall(r"`((?:src|tests|docs)/[\w/.]+)`", text))
    assert len(paths) > 20
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []

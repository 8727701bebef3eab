"""The story that docs/capacity.md tells: its commands print what it shows, and what they promise is kept."""

from __future__ import annotations

import re
import shlex
from contextlib import nullcontext
from pathlib import Path

import pytest
from tests.busy import busy_processors
from tests.commands import Commands, commands

ROOT = Path(__file__).parents[1]
QUIET, BUSY = (ROOT / "docs" / "capacity.md").read_text().split("\n## On a busy machine\n")
EXAMPLE = Path("examples/capacity.sql")
BOUND_S = 5.0
# an edit of the example, a command, or what the command before it prints
_STEP = re.compile(r"Change `(.+?)` to `(.+?)`|^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"\d[\d,.]*(?:e[-+]\d+)?")
# how sure an answer is, and how long it took, depends on what else the machine does
_VARYING = ("sure within", "not sure", "measuring longer", "starting Spark", "warning: ")


def test_the_page_shows_the_example_and_all_of_its_steps() -> None:
    [shown] = [text for _, _, kind, text in _STEP.findall(QUIET) if kind == "sql"]
    assert words(shown) == words((ROOT / EXAMPLE).read_text())
    assert commands_of(QUIET) == ["profile", "advise", "run", "run", "advise", "run"]
    assert commands_of(BUSY) == ["profile", "advise", "run"]


def commands_of(page: str) -> list[str]:
    return [text.split()[1] for _, _, kind, text in _STEP.findall(page) if kind == "sh"]


def words(cql: str) -> list[str]:
    return re.sub(r"--.*", "", cql).split()


@pytest.mark.spark
@pytest.mark.takes_minutes
@pytest.mark.long
def test_what_is_promised_is_kept(tmp_path: Path) -> None:
    with commands() as process:
        for page, is_busy in ((QUIET, False), (BUSY, True)):
            story = Story(process, tmp_path / ("busy" if is_busy else "quiet"))
            with busy_processors() if is_busy else nullcontext():
                for old, new, kind, text in _STEP.findall(page):
                    if old:
                        story.edit(old, new)
                    elif kind == "sh":
                        story.run(text)
                    elif not kind and not is_busy:
                        story.compare(text)


class Story:
    """The commands so far: the verdict of the last ``advise``, and what the last one printed."""

    def __init__(self, process: Commands, folder: Path) -> None:
        self._process = process
        self._folder = folder
        self._example = folder / EXAMPLE
        self._example.parent.mkdir(parents=True)
        self._example.write_text((ROOT / EXAMPLE).read_text())
        self._verdict = ""
        self._printed = ""
        self._is_as_shown = True

    def edit(self, old: str, new: str) -> None:
        assert old in self._example.read_text()
        self._example.write_text(self._example.read_text().replace(old, new))

    def run(self, line: str) -> None:
        """Run a command, whose exit code must be what it prints."""
        _, *arguments = shlex.split(line)
        result = self._process.run(self._folder, arguments)
        self._printed = printed = result.stdout + result.stderr
        if arguments[0] == "profile":
            assert result.exit_code == ("not measured: " in printed), printed
        elif arguments[0] == "advise":
            self._verdict = printed
            is_refused = result.stderr.startswith("error: ")
            assert result.exit_code == (2 if is_refused else not result.stdout.startswith("fits: ")), printed
        elif "error: " in result.stderr:
            assert result.exit_code == 2 and "query web: " in result.stderr, printed
        else:
            assert result.exit_code == 0, printed
            self._check_promise()

    def _check_promise(self) -> None:
        """As far as the answer is sure, the run is as fast as promised."""
        if self._verdict.startswith("fits: ") and "not sure" not in self._verdict:
            assert p99_s(self._printed, "web") <= BOUND_S, f"{self._verdict}\n{self._printed}"

    def compare(self, shown: str) -> None:
        """Compare what was printed with the page, unless other tests keep processors too busy for that."""
        if "fits: " in shown and not self._printed.startswith("fits: "):
            self._is_as_shown = False
        if not self._is_as_shown:
            return
        missing = patterns(shown) - patterns(self._printed)
        assert not missing, f"{missing} not in {self._printed}"


def patterns(text: str) -> set[str]:
    """Lines without their numbers, and without the blanks and rules that depend on how long these are."""
    lines = [line for line in text.splitlines() if not line.startswith(_VARYING)]
    return {" ".join(_NUMBER.sub("#", line).replace("─", "").split()) for line in lines}


def p99_s(tables: str, query: str) -> float:
    """The 99th percentile of a query's latency, in the table of a run."""
    lines = tables.splitlines()
    [heading] = [line for line in lines if line.split()[:1] == ["query"]]
    [row] = [line for line in lines if line.split()[:1] == [query]]
    columns = re.split(r"\s{2,}", heading.strip())
    return float(re.split(r"\s{2,}", row.strip())[columns.index("p99 (s)")].replace(",", ""))

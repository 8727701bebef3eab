"""A user's own strategy, in a file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.runtime.networks import chains

from headgate.errors import SetupError
from headgate.model.profile import Profile
from headgate.model.view import QueueView, SystemView
from headgate.scheduling import strategy_named

DOCS = Path(__file__).parents[2] / "docs" / "strategies.md"


def example() -> str:
    found = re.search(r"```python\n(.*?class LongestQueue.*?)```", DOCS.read_text(encoding="utf-8"), re.S)
    assert found
    return found[1]


def test_the_documented_example_is_a_strategy_of_at_most_twenty_lines(tmp_path: Path) -> None:
    text = example()
    assert len(text.strip().splitlines()) <= 20
    file = tmp_path / "longest.py"
    file.write_text(text)
    strategy = strategy_named(f"{file}:LongestQueue")
    network = chains(2, 2)
    strategy.prepare(network, {name: Profile() for name in network.operators})
    queues = {n: QueueView(n, i, i, 1.0, 0.0) for i, n in enumerate(sorted(network.operators))}
    turn = strategy.choose(SystemView(0.0, queues))
    assert turn is not None and turn.operators[0] == max(queues) and turn.max_tuples == 3
    assert strategy_named(f"{file}:LongestQueue+oldest").name.endswith("+oldest")


@pytest.mark.parametrize(
    ("text", "named", "message"),
    [
        ("class A: pass", "B", "has no class B; it has A"),
        (
            "class A:\n    def prepare(self, n, p): ...",
            "A",
            "is not a strategy: it needs a method choose(self, view)",
        ),
        ("class A:\n    def choose(self, v): ...", "A", "it needs a method prepare(self, network, profiles)"),
        (
            "class A:\n def __init__(self, x): ...\n def choose(self, v): ...\n def prepare(self, n, p): ...",
            "A",
            "cannot be created without arguments: TypeError",
        ),
        ("class A(:", "A", "own.py:1: SyntaxError"),
        ("x = 1\ny = z", "A", "own.py:2: NameError: name 'z' is not defined"),
    ],
)
def test_what_is_no_strategy_is_told_in_one_line(tmp_path: Path, text: str, named: str, message: str) -> None:
    file = tmp_path / "own.py"
    file.write_text(text)
    with pytest.raises(SetupError) as error:
        strategy_named(f"{file}:{named}")
    assert message in str(error.value) and "\n" not in str(error.value)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"there is no file nowhere\.py"):
        strategy_named("nowhere.py:Any")

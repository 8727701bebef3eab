"""Options of the command line go before those of SET; both are read and checked alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.cql.parser import parse
from headgate.cql.statement import SetOption
from headgate.errors import QueryError, SetupError
from headgate.session.run_options import RunOptions


def options(text: str = "", **command_line: str | bool) -> RunOptions:
    """Options of a command line, and the statements of a text."""
    found = RunOptions({name.replace("for_", "for"): written for name, written in command_line.items()})
    for statement in parse(text) if text else ():
        assert isinstance(statement, SetOption)
        found.set(statement)
    return found


VALUES = {
    "strategy": ("chain", "chain"),
    "tick_budget": ("0.5 s", 0.5),
    "memory": ("64 MB", 64 * 2**20),
    "checkpoint": ("state/", "state/"),
    "until_done": ("true", True),
    "for_": ("1 min", 60.0),
    "routing": ("wsc", "wsc"),
    "balance_pools": ("true", True),
    "keep": ("packets=0.5, flows=1", {"packets": 0.5, "flows": 1.0}),
    "seed": ("-7", -7),
    "orders": ("one=p f (h i), two = a b", {"one": ("p", "f", ("h", "i")), "two": ("a", "b")}),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_text_has_one_value_on_the_command_line_and_in_set(name: str) -> None:
    text, value = VALUES[name]
    plain = name.strip("_")
    assert options(f"SET {plain} = {text}").value(plain) == value
    assert options(f"SET {plain.upper()} = '{text}'").value(plain) == value
    assert options(**{name: text}).value(plain) == value


def test_every_option_is_listed_and_has_a_default() -> None:
    rows = options().listing().rows
    assert [name for name, _, _ in rows] == [name.strip("_") for name in VALUES]
    assert {name: value for name, value, _ in rows if value is not None} == {
        "strategy": "fifo",
        "until_done": "false",
        "routing": "optimal",
        "balance_pools": "false",
    }


def test_the_command_line_goes_before_set() -> None:
    found = options(
        "SET strategy = chain; SET balance_pools = true; SET seed = 3", strategy="greedy", seed="0"
    )
    assert (found.value("strategy"), found.value("balance_pools"), found.value("seed")) == ("greedy", True, 0)
    assert options("SET balance_pools = true", balance_pools=False).value("balance_pools") is False
    listed = {name: (value, source) for name, value, source in found.listing().rows}
    assert listed["strategy"] == ("greedy", "command line")
    assert listed["balance_pools"] == ("true", "SET")
    assert listed["memory"] == (None, "default")


@pytest.mark.parametrize(
    ("text", "given", "until_done", "for_s"),
    [
        ("SET until_done = true", {"for_": "5 s"}, False, 5.0),
        ("SET for = 5 s", {"until_done": True}, True, None),
        ("SET for = 5 s", {"until_done": False}, False, 5.0),
        ("SET until_done = true", {"until_done": False}, False, None),
    ],
)
def test_an_end_on_the_command_line_replaces_that_of_the_file(
    text: str, given: dict[str, str | bool], until_done: bool, for_s: float | None
) -> None:
    found = options(text, **given)
    assert (found.value("until_done"), found.value("for")) == (until_done, for_s)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"keep": "packets"}, r"^--keep: 'packets' is not a name, '=' and a value; write packets=0.5$"),
        ({"keep": "packets=nan"}, r"^--keep: packets=nan is out of range; write a share from 0 to 1$"),
        ({"seed": "x"}, r"^--seed: 'x' is not a whole number; write one, such as 7$"),
        (
            {"orders": "q=a (b c"},
            r"^--orders: q=a \(b c: '\(' is not closed; write q=a b \(c d\)$",
        ),
        ({"orders": "q="}, r"^--orders: 'q=' is not a name, '=' and a value; write matched=p f$"),
        ({"checkpoint": ""}, r"^--checkpoint: the folder has no name"),
        ({"tick_budget": "0 s"}, r"^--tick-budget must be more than 0$"),
        ({"until_done": True, "for_": "5 s"}, r"^--until-done and --for exclude each other"),
    ],
)
def test_wrong_options_of_the_command_line_are_named_as_there(
    given: dict[str, str | bool], message: str
) -> None:
    with pytest.raises(SetupError, match=message):
        options(**given)


def test_a_statement_that_is_refused_sets_nothing() -> None:
    found = options("SET seed = 3")
    for text in ("SET seed = x", "SET sead = 4"):
        [statement] = parse(text)
        assert isinstance(statement, SetOption)
        with pytest.raises(Exception, match="seed"):
            found.set(statement)
    assert found.value("seed") == 3


def test_what_a_file_raises_is_one_line_at_the_place(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "class Own:\n    def __init__(self):\n        raise ValueError('not\\nnow')\n"
    )
    [statement] = parse(f"SET routing = '{tmp_path}/own.py:Own'", "net.sql")
    assert isinstance(statement, SetOption)
    with pytest.raises(
        QueryError, match=r"^net.sql:1:15: .*own.py:Own does not create a router: ValueError: not now$"
    ):
        RunOptions().set(statement)


def test_renewed_options_have_those_of_the_command_line_alone() -> None:
    found = options("SET seed = 3; SET strategy = chain", memory="1 KB").renewed()
    assert (found.value("memory"), found.value("seed"), found.value("strategy")) == (1024, None, "fifo")

"""Documents of users: read within limits, checked by models, errors in one line."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pytest

from headgate.errors import SetupError
from headgate.formats.document import (
    REQUIRED,
    NamedTables,
    Names,
    Right,
    Section,
    checked,
    parse_json,
    read_json,
    read_toml,
)
from headgate.formats.quantity import RATE, SHARE


class Part(Section):
    example: ClassVar[str] = "[parts.NAME] with share = 0.5"
    share: Annotated[float, SHARE] = REQUIRED
    names: Annotated[Names, Right('"a", or ["a", "b"]')] = ("a",)


class Whole(Section):
    rate: Annotated[float, RATE] | None = None
    is_open: bool = False
    parts: Annotated[dict[str, Part], NamedTables(most=3)] = REQUIRED
    rates: tuple[Annotated[float, RATE], ...] = ()


GOOD = {"parts": {"p": {"share": 0.5}}}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "parts is missing; write [parts.NAME] with share = 0.5"),
        ({"parts": {}}, "parts is empty; write [parts.NAME] with share = 0.5"),
        ({"parts": 3}, "parts = 3 is wrong; write [parts.NAME] with share = 0.5"),
        ({"parts": {"p": [1]}}, "parts.p = [1] is wrong; write [parts.NAME] with share = 0.5"),
        ({"parts": {key: {"share": 1} for key in "abcd"}}, "parts has 4 entries; write 3 at most"),
        ({"parts": {"p": {}}}, "parts.p.share is missing; write a number from 0 to 1"),
        ({"parts": {"p": {"share": 2}}}, "parts.p.share = 2 is out of range; write a number from 0 to 1"),
        ({"parts": {"p": {"share": {}}}}, "parts.p.share = {} is wrong; write a number from 0 to 1"),
        ({"parts": {"a b": {"share": True}}}, 'parts."a b".share = true is wrong; write a number'),
        ({"parts": {"p": {"share": 10**400}}}, "parts.p.share = a number of over 19 digits is out of range"),
        ({"parts": {"p": {"share": "x" * 99}}}, f'parts.p.share = "{"x" * 37}..." is wrong'),
        (
            {"parts": {"p": {"shares": 1}}},
            "parts.p.shares is not a known key; did you mean share? known here",
        ),
        ({"parts": {"p": {"share": 1, "names": 4}}}, 'parts.p.names = 4 is wrong; write "a", or ["a", "b"]'),
        ({"parts": {"p": {"share": 1, "names": []}}}, "parts.p.names = [] is wrong"),
        ({**GOOD, "is_open": 1}, "is_open = 1 is wrong; write true or false"),
        ({**GOOD, "rate": float("nan")}, "rate = nan is out of range; write a number of tuples per second"),
        ({**GOOD, "rates": (1, -1)}, "rates"),
        ([], "[] is wrong; write a table"),
    ],
)
def test_errors_name_the_path_of_the_value_and_what_is_right(document: Any, message: str) -> None:
    with pytest.raises(SetupError) as refusal:
        checked(Whole, document, "file.toml")
    assert str(refusal.value).startswith(f"file.toml: {message}")
    assert "\n" not in str(refusal.value)


def test_defaults_are_those_of_the_models() -> None:
    found = checked(Whole, GOOD, "file.toml")
    assert (found.rate, found.parts["p"].names) == (None, ("a",))
    assert checked(Part, {"share": 1, "names": ["x", "y"]}, "f").names == ("x", "y")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = ", "is not valid TOML: Invalid value"),
        ("a = 1\na = 2", "is not valid TOML: Cannot overwrite a value"),
        (f"a = {'9' * 5000}", "is not valid TOML: Exceeds the limit"),
        (f"a = {'[' * 5000}", "nests too deeply; pass a thing"),
        (f"{'a.' * 500}a = 1", "has a key of over 32 parts; pass a thing"),
        ("#" * 1_000_001, "is larger than 1 MB; pass a thing"),
    ],
)
def test_toml_is_read_within_limits(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "x.toml"
    path.write_text(text)
    begin_s = time.process_time()
    with pytest.raises(SetupError) as refusal:
        read_toml(path, "a thing")
    assert str(refusal.value).startswith(f"{path} {message}")
    assert time.process_time() - begin_s < 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "p.json is not valid JSON"),
        ('{"a": 1, "a": 2}', "p.json: the key a occurs twice in one object; keep one of them"),
        ("[" * 100_000, "p.json nests too deeply to be read as JSON"),
        (f'{{"a": {"9" * 5000}}}', "p.json is not valid JSON: Exceeds the limit"),
    ],
)
def test_json_is_read_within_limits(text: str, message: str) -> None:
    with pytest.raises(SetupError) as refusal:
        parse_json(text, "p.json")
    assert str(refusal.value).startswith(message)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_bytes(b"\xff")
    for path, message in [
        (tmp_path / "nowhere.json", "no such file: .*nowhere.json; make one"),
        (tmp_path, "is a folder; pass a thing"),
        (tmp_path / "odd.json", "is not valid UTF-8; pass a thing"),
        (tmp_path / ("a" * 300), "cannot be read: File name too long"),
        (tmp_path / "a\0b", "is not the path of a file; pass a thing"),
    ]:
        with pytest.raises(SetupError, match=message):
            read_json(path, "a thing", "; make one")

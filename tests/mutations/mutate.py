"""Texts changed at random: values, keys, structure, characters."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

NUMBERS = (
    *("0", "-0.0", "1", "-1", "0.5", "2", "3", "7", "40", "100", "1e3", "1e6", "1e9", "1e12", "1e18"),
    *("1e300", "1e999", "1e-3", "1e-9", "1e-18", "1e-300", "5e-324", "nan", "inf", "-inf", "1_000"),
    *("1.7976931348623157e308", "9223372036854775807", "18446744073709551616"),
    *("1" + "0" * 400, "0x" + "f" * 5000, "9" * 5000),
)
_WORDS = (
    *("true", "false", "null", "[]", "{}", "[[]]", "[nan]", "2026-02-30", "1979-05-27T07:32:00Z"),
    *('""', '"x"', "'s'", '"é"', '"\\u0000"', '"\\n"', "[1, 2, 1]", '["s", "s"]', "{ a = 1 }"),
    "[" * 300 + "]" * 300,
)
_PIECES = (*"=[]{}\"'.,# -1é\\", "\n", "\t", "\0", "\ufeff")
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e-?\d+)?(?![\w.])")
_NAME = re.compile(r"[A-Za-z_]\w*")


def mutate(text: str, chance: random.Random) -> str:
    """The text after one to four changes of values, keys, structure or characters."""
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 4))):
        text = chance.choice(_MUTATIONS)(text, chance)
    return text


def _at(pattern: re.Pattern[str], text: str, chance: random.Random, new: Callable[[str], str]) -> str:
    found = list(pattern.finditer(text))
    if not found:
        return text
    match = chance.choice(found)
    return text[: match.start()] + new(match[0]) + text[match.end() :]


def _other_number(text: str, chance: random.Random) -> str:
    return _at(_NUMBER, text, chance, lambda _: chance.choice(NUMBERS))


def _near_number(text: str, chance: random.Random) -> str:
    """A number that is likely to be accepted, so that the work behind the border is reached."""

    def near(number: str) -> str:
        value = min(float(number), 1e100) * 10 ** chance.uniform(-3, 3)
        return chance.choice((f"{value:.3g}", str(round(value)), str(chance.randrange(5))))

    return _at(_NUMBER, text, chance, near)


def _other_value(text: str, chance: random.Random) -> str:
    return _at(re.compile(r"(?<=[=:] )[^\n,}]+"), text, chance, lambda _: chance.choice(_WORDS + NUMBERS))


def _misspelt(text: str, chance: random.Random) -> str:
    def changed(name: str) -> str:
        place = chance.randrange(len(name))
        return name[:place] + chance.choice(("", "x", name[place] * 2)) + name[place + 1 :]

    return _at(_NAME, text, chance, changed)


def _other_name(text: str, chance: random.Random) -> str:
    names = _NAME.findall(text)
    return _at(_NAME, text, chance, lambda _: chance.choice(names)) if names else text


def _lines(text: str, chance: random.Random) -> str:
    """Lines dropped, doubled, exchanged, or many times as many."""
    lines = text.splitlines(keepends=True) or [""]
    first, second = chance.randrange(len(lines)), chance.randrange(len(lines))
    kind = chance.randrange(4)
    if kind == 0:
        del lines[first]
    elif kind == 1:
        lines.insert(second, lines[first])
    elif kind == 2:
        lines[first], lines[second] = lines[second], lines[first]
    else:
        lines[first : first + 1] = [lines[first]] * chance.choice((2, 50, 2000))
    return "".join(lines)


def _more_tables(text: str, chance: random.Random) -> str:
    """A table again under many other names."""
    tables = re.findall(r"^\[(\w+)\.(\w+)\]\n((?:[^\[].*\n)+)", text, re.MULTILINE)
    if not tables:
        return text
    kind, name, content = chance.choice(tables)
    count = chance.choice((1, 3, 30, 1500))
    return text + "\n" + "".join(f"[{kind}.{name}{i}]\n{content}" for i in range(count))


def _characters(text: str, chance: random.Random) -> str:
    begin = chance.randrange(len(text) + 1)
    end = min(len(text), begin + chance.choice((0, 1, 2, 10)))
    return text[:begin] + chance.choice(_PIECES) * chance.choice((0, 1, 1, 1, 3, 500)) + text[end:]


def _cut(text: str, chance: random.Random) -> str:
    return text[: chance.randrange(len(text) + 1)]


_MUTATIONS = (
    *(_near_number,) * 8,
    *(_other_number, _other_number, _other_number, _other_value, _misspelt, _other_name, _other_name),
    *(_lines, _more_tables, _characters, _cut),
)

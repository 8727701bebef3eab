"""Functions that expressions may call, and what Spark makes of arguments by their types.

The catalogue of Spark's functions and operators is made from Spark itself by ``tools/spark_functions.py``, so
that a query is checked without a JVM. A type is a letter of ``kind_names``, or None if it is not known.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from headgate.cql.expressions import AGGREGATES, GROUPING_CALLS

Kind = str | None

# their values depend on when they are called
_CLOCKS = (
    "current_date",
    "curdate",
    "current_time",
    "current_timestamp",
    "localtime",
    "localtimestamp",
    "now",
)
_DIVISION = (
    "input_file_block_length",
    "input_file_block_start",
    "input_file_name",
    "monotonically_increasing_id",
    "spark_partition_id",
)
_OF_CLOCKS = "depends on when a tick runs; use the stream's timestamp column"
_BY_GROUP = {
    "agg_funcs": "is not supported: what it gives depends on the order of rows",
    "generator_funcs": "gives several rows for one tuple; write FROM s LATERAL VIEW explode(array) t AS x, "
    "and expressions of x",
    "window_funcs": "needs OVER (...), which is not supported; give the stream a window in FROM, as in "
    "s [ROWS 100], and aggregate",
}
_BY_NAME = {
    **dict.fromkeys(_CLOCKS, _OF_CLOCKS),
    **dict.fromkeys(_DIVISION, "depends on how Spark divides a tick; use columns of the stream"),
    "window_time": "is of windows in GROUP BY, which are not supported; every result has its timestamp in ts",
}
_WITH_VECTOR = 5
_RANDOM = "may differ when a tick is repeated after a crash; use a hash of columns, such as xxhash64(column)"


@cache
def _document() -> Mapping[str, Any]:
    text = Path(__file__).with_name("spark_functions.json").read_text(encoding="utf-8")
    found: Mapping[str, Any] = json.loads(text)
    return found


def kind_names() -> Mapping[str, str]:
    """The types by letter, as CQL writes them."""
    found: Mapping[str, str] = _document()["kinds"]
    return found


def function_names() -> Iterable[str]:
    """All functions of Spark, in lower case."""
    found: Mapping[str, Any] = _document()["functions"]
    return found.keys()


@dataclass(frozen=True)
class CallResult:
    """What becomes of a call: the type of its result, or the first argument that Spark refuses.

    ``takes`` are the types that it would take in that place.
    """

    kind: Kind = None
    refused: int | None = None
    takes: str = ""


@dataclass(frozen=True)
class SparkFunction:
    """A function or an operator of Spark."""

    name: str
    entry: Mapping[str, Any]

    def objection(self, arguments: int) -> str | None:
        """Why it cannot be called in a query over streams; None if it can."""
        group = self.entry.get("group")
        if self.name in GROUPING_CALLS:
            # where GROUP BY has no groupings, they have been refused already
            return None
        if self.name in _BY_NAME:
            return _BY_NAME[self.name]
        if self.name == "unix_timestamp" and arguments == 0:
            return _OF_CLOCKS
        if self.name == "aes_encrypt" and arguments < _WITH_VECTOR:
            return "draws an initialization vector at random; write it as the fifth argument"
        if self.entry.get("random"):
            return _RANDOM
        return None if self.name.upper() in AGGREGATES else _BY_GROUP.get(str(group))

    def takes(self, arguments: int) -> bool:
        """Whether it can be called with so many arguments; true of one with a syntax of its own."""
        counts = list(self._counts())
        return not counts or any(least <= arguments <= most for least, most in counts)

    @property
    def counts(self) -> str:
        """How many arguments it takes, in words."""
        texts = []
        for least, most in self._counts():
            number = f"{least}" if least == most else f"{least} to {most}"
            texts.append(f"at least {least}" if most == float("inf") else number)
        plural = "" if texts == ["1"] else "s"
        return f"{' or '.join(texts)} argument{plural}" if texts != ["0"] else "no arguments"

    def _counts(self) -> Iterable[tuple[int, float]]:
        for part in filter(None, self.entry["counts"].split(",")):
            least, _, most = part.rstrip("+").partition("-")
            yield int(least), float("inf") if part.endswith("+") else int(most or least)

    def outcome(self, kinds: Sequence[Kind]) -> CallResult:
        """What becomes of arguments of these types."""
        table = self.entry.get(str(len(kinds)))
        if table is None:
            return CallResult()
        if len(kinds) == 1:
            return _of_one(table, kinds[0])
        if len(kinds) == 2:
            return _of_two(table, kinds[0], kinds[1])
        are_tried = all(kind is not None and kind in _document()["tried"] for kind in kinds)
        if table["gives"] == "." and not are_tried:
            # what goes with types that have not been tried, such as arrays, is not known
            return CallResult()
        for place, (kind, takes) in enumerate(zip(kinds, table["takes"], strict=True)):
            if kind is not None and kind not in takes:
                return CallResult(None, place, takes)
        return CallResult(_joint(table["gives"]) if are_tried else None)


def spark_function(name: str) -> SparkFunction | None:
    """The function of Spark of this name, in whatever case."""
    entry = _document()["functions"].get(name.lower())
    return None if entry is None else SparkFunction(name.lower(), entry)


def spark_operator(symbol: str) -> SparkFunction:
    """An operator of Spark by its symbol."""
    return SparkFunction(symbol, _document()["operators"][symbol])


def cast(kind: Kind, to: str) -> CallResult:
    """What becomes of a type that is cast to another one."""
    found = _of_one(_document()["casts"][to], kind)
    return found if found.refused is not None else CallResult(to)


def _of_one(results: str, kind: Kind) -> CallResult:
    letters = "".join(kind_names())
    if kind is None:
        return CallResult(_joint(results))
    if results[letters.index(kind)] != ".":
        return CallResult(_joint(results[letters.index(kind)]))
    takes = "".join(letter for letter, result in zip(letters, results, strict=True) if result != ".")
    return CallResult(None, 0, takes)


def _of_two(rows: Mapping[str, str], first: Kind, second: Kind) -> CallResult:
    letters = "".join(kind_names())
    possible = [row for firsts, row in rows.items() if first is None or first in firsts]
    if not possible:
        return CallResult(None, 0, "".join(firsts for firsts in rows))
    # the results for each type of the second argument, whatever the first may be
    results = ["".join(results).replace(".", "") for results in zip(*possible, strict=True)]
    if second is None:
        return CallResult(_joint("".join(results)))
    if results[letters.index(second)]:
        return CallResult(_joint(results[letters.index(second)]))
    return CallResult(
        None, 1, "".join(letter for letter, found in zip(letters, results, strict=True) if found)
    )


def _joint(results: str) -> Kind:
    kinds = set(results) - {"."}
    kind = kinds.pop() if len(kinds) == 1 else "?"
    return None if kind == "?" else kind

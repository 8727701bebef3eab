"""Writes the catalogue of Spark's functions and operators, from which queries are checked without a JVM.

    python tools/spark_functions.py

asks the installed Spark, and writes ``src/headgate/planning/spark_functions.json``. A type is one letter: see
the table ``kinds``. Of every function the document has its ``group``, whether it is ``random``, how many
arguments it takes (``counts``), and what becomes of arguments of each type:

* ``1``: the type of the result for each type of the argument, in the order of ``kinds``;
* ``2``: the same for the second argument, by the types of the first; types always refused are left out;
* ``3``: which types each argument may have, and that of the result, if all are of the types ``tried``.

``.`` is a type that Spark refuses, ``?`` one that it takes with a result that depends on more than types.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headgate.planning.functions import AGGREGATES
from headgate.spark.application.cluster import own_session

CATALOGUE = Path(__file__).parents[1] / "src" / "headgate" / "planning" / "spark_functions.json"

KINDS = {
    "y": "TINYINT",
    "h": "SMALLINT",
    "i": "INT",
    "l": "BIGINT",
    "f": "FLOAT",
    "d": "DOUBLE",
    "m": "DECIMAL(10, 2)",
    "s": "STRING",
    "x": "BINARY",
    "b": "BOOLEAN",
    "D": "DATE",
    "t": "TIMESTAMP",
    "n": "TIMESTAMP_NTZ",
    "V": "INTERVAL DAY TO SECOND",
    "Y": "INTERVAL YEAR TO MONTH",
    "a": "ARRAY<INT>",
    "p": "MAP<STRING, INT>",
    "r": "STRUCT<x: INT, y: STRING>",
    "v": "VARIANT",
}
_NESTED = "apr"
# three arguments of every type would be too many calls
_FEWER = "ildsbDt"
_MOST_ARGUMENTS = 9
_FEW = 16
_SIMPLE = {
    "tinyint": "y",
    "smallint": "h",
    "int": "i",
    "bigint": "l",
    "float": "f",
    "double": "d",
    "string": "s",
    "binary": "x",
    "boolean": "b",
    "date": "D",
    "timestamp": "t",
    "timestamp_ntz": "n",
    "variant": "v",
}
OPERATORS = {
    1: {"-": "-{0}", "~": "~{0}", "NOT": "NOT {0}"},
    2: {
        **{symbol: f"{{0}} {symbol} {{1}}" for symbol in ("+", "-", "*", "/", "%", "DIV", "&", "|", "^")},
        **{symbol: f"{{0}} {symbol} {{1}}" for symbol in ("=", "<", "<=>", "||", "<<", ">>", "AND", "OR")},
        **{symbol: f"{{0}} {symbol} {{1}}" for symbol in ("LIKE", "ILIKE", "RLIKE")},
    },
}
# what no query calls, all but the aggregates of CQL
_REFUSED = ("agg_funcs", "generator_funcs", "window_funcs")
_WRONG_COUNT = ("WRONG_NUM_ARGS", "REQUIRED_PARAMETER_NOT_FOUND", "UNEXPECTED_POSITIONAL_ARGUMENT")
# why Spark refuses arguments by their types alone, whatever their values
_TYPE_ERRORS = (
    "ARRAY_FUNCTION_DIFF_TYPES BINARY_ARRAY_DIFF_TYPES BINARY_OP_DIFF_TYPES BINARY_OP_WRONG_TYPE "
    "CAST_WITHOUT_SUGGESTION CAST_WITH_CONF_SUGGESTION CAST_WITH_FUNC_SUGGESTION "
    "CREATE_MAP_KEY_DIFF_TYPES CREATE_MAP_VALUE_DIFF_TYPES DATA_DIFF_TYPES HASH_MAP_TYPE HASH_VARIANT_TYPE "
    "INVALID_ORDERING_TYPE MAP_CONCAT_DIFF_TYPES MAP_FUNCTION_DIFF_TYPES MAP_ZIP_WITH_DIFF_TYPES "
    "UNEXPECTED_INPUT_TYPE"
)
_BY_TYPE = frozenset(_TYPE_ERRORS.split())
_SUBCLASS = re.compile(r"DataTypeMismatch\((\w+)")


class Analyser:
    """Has expressions over columns of all types analysed by Spark, many at a time, without running any."""

    def __init__(self, spark: SparkSession) -> None:
        self._types: dict[str, str] = {}
        scalars = [letter for letter in KINDS if letter not in _NESTED]
        for letter, ddl in KINDS.items():
            self._types[letter] = ddl
        for letter in scalars:
            self._types[f"a_{letter}"] = f"ARRAY<{KINDS[letter]}>"
            # what may be a key may be a value
            self._types[f"p_{letter}"] = f"MAP<{KINDS[letter if letter != 'v' else 's']}, {KINDS[letter]}>"
        self._types["a_a"], self._types["a_r"] = "ARRAY<ARRAY<INT>>", "ARRAY<STRUCT<x: STRING, y: INT>>"
        self._types["a_p"] = "ARRAY<MAP<STRING, INT>>"
        columns = ", ".join(f"`{self._column(name)}` {ddl}" for name, ddl in self._types.items())
        spark.createDataFrame([], columns).createOrReplaceTempView("probe")
        java: Any = spark._jsparkSession
        self._state = java.sessionState()
        self._parser, self._analyzer = self._state.sqlParser(), self._state.analyzer()

    def _column(self, name: str) -> str:
        # column names match without regard to case
        return "c_" + "_".join(f"upper_{part}" if part.isupper() else part for part in name.split("_"))

    def groups(self) -> dict[str, str]:
        """Every function of Spark, and the group it belongs to."""
        registry, found = self._state.functionRegistry(), {}
        names = registry.listFunction()
        for place in range(names.size()):
            identifier = names.apply(place)
            info = registry.lookupFunction(identifier)
            if info.isDefined():
                found[str(identifier.funcName())] = str(info.get().getGroup())
        return {name: found[name] for name in sorted(found) if name.replace("_", "a").isalnum()}

    def counts(self, name: str) -> list[int]:
        """How many arguments a function may have, up to a limit."""
        return [n for n in range(_MOST_ARGUMENTS + 1) if not self._is_wrong_count(name, n)]

    def _is_wrong_count(self, name: str, arguments: int) -> bool:
        try:
            self._plan([f"{name}({', '.join([self._column('s')] * arguments)})"])
        except PySparkException as error:
            return str(error.getCondition()).startswith(_WRONG_COUNT)
        return False

    def _plan(self, calls: Sequence[str]) -> Any:
        items = ", ".join(f"{call} AS x{number}" for number, call in enumerate(calls))
        try:
            return self._analyzer.execute(self._parser.parsePlan(f"SELECT {items} FROM probe"))
        except Py4JJavaError as error:
            # some functions try to compute their arguments
            raise PySparkException(str(error)) from error

    def _analysed(self, calls: Sequence[str]) -> list[Any]:
        found = self._plan(calls).expressions()
        return [found.apply(place) for place in range(len(calls))]

    def is_random(self, name: str, counts: Iterable[int]) -> bool:
        """Whether two calls with equal arguments may differ."""
        for arguments in counts:
            for kind in "is":
                try:
                    [call] = self._analysed([f"{name}({', '.join([self._column(kind)] * arguments)})"])
                except PySparkException:
                    continue
                if not call.deterministic():
                    return True
        return False

    def results(self, template: str, arguments: Sequence[str]) -> list[str]:
        """What becomes of a call with arguments of these kinds, each written as letters: see the top."""
        # of arrays and maps there are many kinds, and a call is refused only if all of them are
        cases = [list(self._samples(kinds)) for kinds in arguments]
        flat = [template.format(*map(self._column, sample)) for case in cases for sample in case]
        outcomes = iter(self._outcomes(flat))
        return [_joint([next(outcomes) for _ in case]) for case in cases]

    def _samples(self, kinds: str) -> Iterable[tuple[str, ...]]:
        scalars = [kind for kind in kinds if kind not in _NESTED] or ["s"]
        elements = dict.fromkeys([*scalars, "i", "s", "r", "a", "p"]) if set(kinds) & set(_NESTED) else [""]
        for element in elements:
            names = [f"{kind}_{element}" if kind in "ap" else kind for kind in kinds]
            yield tuple(name if name in self._types else name[0] for name in names)

    def _outcomes(self, calls: list[str]) -> list[str]:
        try:
            return [_outcome(found) for found in self._analysed(calls)]
        except PySparkException as error:
            if len(calls) == 1:
                return ["." if _is_by_type(str(error.getCondition())) else "?"]
        half = len(calls) // 2
        # a call that Spark refuses at once spoils those beside it; if all are, it is not for their types
        if len(calls) > _FEW and {self._outcomes([calls[n]])[0] for n in (0, half, -1)} == {"?"}:
            return ["?"] * len(calls)
        return self._outcomes(calls[:half]) + self._outcomes(calls[half:])


def _outcome(item: Any) -> str:
    if item.resolved():
        return letter_of(str(item.dataType().simpleString()))
    # the item is an alias of the call
    found = item.child()
    while not found.childrenResolved():
        children = found.children()
        parts = (children.apply(place) for place in range(children.size()))
        found = next(part for part in parts if not part.resolved())
    subclass = _SUBCLASS.match(str(found.checkInputDataTypes().toString()))
    return "." if subclass is not None and subclass[1] in _BY_TYPE else "?"


def _is_by_type(condition: str) -> bool:
    return condition.startswith("DATATYPE_MISMATCH.") and condition.partition(".")[2] in _BY_TYPE


def letter_of(simple: str) -> str:
    """The letter of a type, as Spark writes it in short."""
    for prefix, letter in (("decimal", "m"), ("array", "a"), ("map", "p"), ("struct", "r")):
        if simple.startswith(prefix):
            return letter
    if simple.startswith("interval "):
        return "Y" if "year" in simple or "month" in simple else "V"
    return _SIMPLE.get(simple, "?")


def _joint(outcomes: Sequence[str]) -> str:
    taken = {outcome for outcome in outcomes if outcome != "."}
    return "." if not taken else taken.pop() if len(taken) == 1 else "?"


def _by_types(analyser: Analyser, template: str, arguments: int) -> Any:
    if arguments == 1:
        return "".join(analyser.results(template, list(KINDS)))
    if arguments == 2:
        return _rows(analyser, template)
    triples = ["".join(kinds) for kinds in product(_FEWER, repeat=3)]
    found = dict(zip(triples, analyser.results(template, triples), strict=True))
    taken = {kinds: result for kinds, result in found.items() if result != "."}
    # of a type that was not tried, nothing is known
    others = "".join(letter for letter in KINDS if letter not in _FEWER)
    tried = [{kinds[place] for kinds in taken} for place in range(3)]
    accepted = [others + "".join(k for k in _FEWER if k in found) for found in tried]
    return {"takes": accepted, "gives": _joint(list(taken.values()))}


def _rows(analyser: Analyser, template: str) -> dict[str, str]:
    """The results for all types of the second argument, by the types of the first that have the same."""
    pairs = ["".join(kinds) for kinds in product(KINDS, repeat=2)]
    found = analyser.results(template, pairs)
    rows: dict[str, str] = {}
    for number, first in enumerate(KINDS):
        row = "".join(found[number * len(KINDS) : (number + 1) * len(KINDS)])
        if set(row) != {"."}:
            rows[row] = rows.get(row, "") + first
    return {letters: row for row, letters in rows.items()}


def _counts(counts: Sequence[int]) -> str:
    """``1``, ``1-3``, ``0,2`` or ``2+``."""
    parts: list[list[int]] = []
    for count in counts:
        if parts and parts[-1][-1] == count - 1:
            parts[-1].append(count)
        else:
            parts.append([count])
    texts = [str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts]
    if counts and counts[-1] == _MOST_ARGUMENTS:
        texts[-1] = f"{parts[-1][0]}+"
    return ",".join(texts)


def described(analyser: Analyser, name: str, group: str) -> dict[str, Any]:
    """The entry of a function."""
    counts = analyser.counts(name)
    entry: dict[str, Any] = {"group": group, "counts": _counts(counts)}
    if group in _REFUSED and name not in AGGREGATES:
        return entry
    if analyser.is_random(name, counts):
        entry["random"] = True
    for arguments in (1, 2, 3):
        if arguments in counts:
            places = ", ".join(f"{{{place}}}" for place in range(arguments))
            entry[str(arguments)] = _by_types(analyser, f"{name}({places})", arguments)
    return entry


def catalogue(spark: SparkSession) -> dict[str, Any]:
    """The whole document."""
    analyser = Analyser(spark)
    functions = {}
    for name, group in analyser.groups().items():
        functions[name] = described(analyser, name, group)
        print(name, end=" ", flush=True, file=sys.stderr)
    operators: dict[str, dict[str, Any]] = {}
    for arguments, templates in OPERATORS.items():
        for symbol, template in templates.items():
            operators.setdefault(symbol, {})[str(arguments)] = _by_types(analyser, template, arguments)
    casts = {
        letter: "".join(analyser.results(f"CAST({{0}} AS {ddl})", list(KINDS)))
        for letter, ddl in KINDS.items()
    }
    return {
        "spark": spark.version,
        "kinds": KINDS,
        "tried": _FEWER,
        "casts": casts,
        "operators": operators,
        "functions": functions,
    }


def written(document: dict[str, Any]) -> str:
    """JSON with a line for every function, so that differences can be read."""
    parts = []
    for key, value in document.items():
        text = json.dumps(value)
        if key in ("casts", "operators", "functions"):
            lines = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items())
            text = f"{{\n{lines}\n}}"
        parts.append(f"{json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> None:
    spark = own_session("local[1]")
    try:
        CATALOGUE.write_text(written(catalogue(spark)), encoding="utf-8")
    finally:
        spark.stop()


if __name__ == "__main__":
    main()

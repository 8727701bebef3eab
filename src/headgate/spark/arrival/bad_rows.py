"""Why a row is bad: which column of it does not parse or is missing, and how its value begins.

Spark hands out the text of a row that does not parse, and NULL for what it could not read. Reading that text
again, with all columns as strings, shows what stands in their places.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql.types import StructField

from headgate.model.kafka import parser_options, value_columns, value_format
from headgate.spark import sql
from headgate.spark.arrival.late_rows import FARTHEST_US, RawRows
from headgate.spark.sources import BAD_ROW
from headgate.spark.sql import TS

_TEXTS = "$texts"
_DOES_NOT_PARSE = "the row does not parse"
# longer values are cut
_SHOWN = 30
# options that determine where values begin and end
_CSV_OPTIONS = (
    "sep delimiter quote escape charToEscapeQuoteEscaping unescapedQuoteHandling maxColumns "
    "maxCharsPerColumn ignoreLeadingWhiteSpace ignoreTrailingWhiteSpace"
)
_JSON_PREFIX = "allow"


def with_reason(rows: RawRows, query: str) -> tuple[str, str]:
    """A query of bad rows, extended as the reason needs it, and SQL for the reason of each."""
    reason = _of_timestamp(rows) if rows.definition.timestamp is not None else sql.text(_DOES_NOT_PARSE)
    if BAD_ROW not in rows.columns.names:
        return query, reason
    parsed_names = {column.name for column in value_columns(rows.definition)}
    own = [field for field in rows.columns.fields if field.name in parsed_names]
    options = {name.lower(): value for name, value in parser_options(rows.definition).items()}
    kind = value_format(rows.definition)
    if kind == "avro":
        return query, f"CASE WHEN {BAD_ROW} IS NOT NULL THEN {sql.text(_DOES_NOT_PARSE)} ELSE {reason} END"
    if kind == "csv":
        texts, detail = _csv_texts(own, options), _of_csv(own, options)
    else:
        texts, detail = _json_texts(own, options), _of_json(own)
    parsed = f"concat_ws(': ', {sql.text(_DOES_NOT_PARSE)}, {detail})"
    extended = sql.select(["*", f"{texts} AS {sql.name(_TEXTS)}"], query)
    return extended, f"CASE WHEN {BAD_ROW} IS NOT NULL THEN {parsed} ELSE {reason} END"


def _of_timestamp(rows: RawRows) -> str:
    name, ts = str(rows.definition.timestamp), sql.name(TS)
    shown = _shown(f"CAST({sql.name(name)} AS STRING)")
    ahead, beyond = "is further ahead than max_ahead allows", "is out of range"
    return (
        f"CASE WHEN {sql.name(name)} IS NULL THEN {sql.text(f'no timestamp in column {name}')} "
        f"ELSE concat({sql.text(f'timestamp in column {name} ')}, "
        f"CASE WHEN {ts} BETWEEN 0L AND {FARTHEST_US}L THEN '{ahead}: ' ELSE '{beyond}: ' END, {shown}) END"
    )


def _shown(text: str) -> str:
    """The beginning of a value in quotes, on one line."""
    start = f"translate(substring({text}, 1, {_SHOWN}), '\\n\\r\\t', '   ')"
    return f"concat('\\'', {start}, IF(length({text}) > {_SHOWN}, '...', ''), '\\'')"


def _place(number: int) -> str:
    return f"{sql.name(_TEXTS)}.c{number}"


def _csv_texts(own: list[StructField], options: Mapping[str, str]) -> str:
    # one more column shows a value too many
    schema = ", ".join(f"c{number} STRING" for number in range(len(own) + 1))
    taken = {name: options[name.lower()] for name in _CSV_OPTIONS.split() if name.lower() in options}
    return _parsed("from_csv", schema, taken)


def _json_texts(own: list[StructField], options: Mapping[str, str]) -> str:
    schema = ", ".join(f"{sql.name(name)} STRING" for name in (*(field.name for field in own), BAD_ROW))
    taken = {name: value for name, value in options.items() if name.startswith(_JSON_PREFIX)}
    return _parsed("from_json", schema, {**taken, "columnNameOfCorruptRecord": BAD_ROW})


def _parsed(function: str, schema: str, options: Mapping[str, str]) -> str:
    given = {**options, "mode": "PERMISSIVE"}
    pairs = ", ".join(f"{sql.text(name)}, {sql.text(value)}" for name, value in given.items())
    return f"{function}({BAD_ROW}, {sql.text(schema)}, map({pairs}))"


def _of_csv(own: list[StructField], options: Mapping[str, str]) -> str:
    null, columns = options.get("nullvalue", ""), len(own)
    count = _csv_values(columns, options)
    names = ", ".join(sql.text(field.name) for field in own)
    first = f"element_at(array({names}), {count} + 1)"
    missing = f"'column ', {first}, ' is missing: ', {count}, ' of {columns} values'"
    beyond = f"{count}, ' values for {columns} columns, the first too many: ', {_shown(_place(columns))}"
    wrong = _first_wrong(own, [f"{_place(number)} <> {sql.text(null)}" for number in range(columns)], _place)
    return (
        f"CASE WHEN {count} < {columns} THEN concat({missing}) "
        f"WHEN {count} > {columns} THEN concat({beyond}) {wrong} END"
    )


def _csv_values(columns: int, options: Mapping[str, str]) -> str:
    """How many values a row has: one more than separators, unless there are quotes around some.

    Then the last value that is not empty is what is known.
    """
    separator, quote = options.get("sep", options.get("delimiter", ",")), options.get("quote", '"')
    if separator.startswith("\\"):
        separator = separator.encode().decode("unicode_escape")
    pieces = f"size(split({BAD_ROW}, concat('\\\\Q', {sql.text(separator)}, '\\\\E'), -1))"
    if not quote:
        return pieces
    last = ", ".join(f"IF({_place(number)} IS NOT NULL, {number + 1}, 0)" for number in range(columns + 1))
    return f"IF(instr({BAD_ROW}, {sql.text(quote)}) = 0, {pieces}, greatest({last}, 1))"


def _of_json(own: list[StructField]) -> str:
    def place(number: int) -> str:
        return f"{sql.name(_TEXTS)}.{sql.name(own[number].name)}"

    malformed = f"{sql.name(_TEXTS)}.{BAD_ROW} IS NOT NULL"
    wrong = _first_wrong(own, [f"{place(n)} IS NOT NULL" for n in range(len(own))], place)
    return f"CASE WHEN {malformed} THEN concat('it is not JSON: ', {_shown(BAD_ROW)}) {wrong} END"


def _first_wrong(own: list[StructField], is_given: Sequence[str], place: Callable[[int], str]) -> str:
    """The first column of which there is a text but no value, as terms of a CASE."""
    terms = []
    for number, field in enumerate(own):
        kind = field.dataType.simpleString().upper()
        reason = sql.text(f"column {field.name} is not {kind}: ")
        condition = f"{sql.name(field.name)} IS NULL AND {is_given[number]}"
        terms.append(f"WHEN {condition} THEN concat({reason}, {_shown(place(number))})")
    return " ".join(terms)

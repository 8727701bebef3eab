"""The parser on case files: a title, a text, ``----``, and the statements or the error it gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from headgate.cql.parser import parse
from headgate.cql.statement import (
    AggregateCall,
    AlterPool,
    ColumnReference,
    CreateFunction,
    CreatePool,
    CreateQuery,
    Describe,
    Drop,
    Existing,
    FromItem,
    Place,
    PlaceProbe,
    ScalarExpression,
    Select,
    SetOption,
    Setting,
    Show,
    Star,
    Statement,
    WindowClause,
)
from headgate.errors import QueryError
from headgate.model.window import HopWindow, RowWindow, UnboundedWindow


class Case(NamedTuple):
    """One entry of a case file."""

    title: str
    text: str
    expected: str


def read_cases(folder: Path) -> Iterator[Case]:
    """All cases of all files, in order."""
    for path in sorted(folder.glob("*.txt")):
        for entry in path.read_text(encoding="utf-8").split("==== ")[1:]:
            title, _, rest = entry.partition("\n")
            text, _, expected = rest.partition("\n----\n")
            yield Case(f"{path.stem}: {title}", text, expected.strip("\n"))


CASES = list(read_cases(Path(__file__).parent / "cases"))


def outcome(text: str) -> str:
    """What the parser makes of a text, in a form that is easy to compare and to read."""
    try:
        return "\n".join(line for statement in parse(text) for line in statement_lines(statement))
    except QueryError as error:
        return error.detailed()


def statement_lines(statement: Statement) -> Iterator[str]:
    """A statement, one line for every clause."""
    if isinstance(statement, (Drop, SetOption, Show, Describe)):
        yield short_line(statement)
        return
    existing = getattr(statement, "existing", Existing.REFUSE)
    if existing is not Existing.REFUSE:
        yield existing.value.lower()
    if isinstance(statement, CreateQuery):
        yield f"query {statement.name.text}{settings(statement.settings)}"
        for branch in statement.branches:
            yield from (f"  {line}" for line in select_lines(branch))
        if statement.sink:
            yield f"  into {statement.sink.format.text}{settings(statement.sink.options)}"
        return
    if isinstance(statement, (CreatePool, AlterPool, CreateFunction, Place, PlaceProbe)):
        yield pool_line(statement)
        return
    kind = type(statement).__name__.removeprefix("Create").lower()
    yield f"{kind} {statement.name.text} from {statement.format.text}{settings(statement.options)}"
    for column in statement.columns:
        yield f"  column {column.name.text}: {column.type}"


def short_line(statement: Drop | SetOption | Show | Describe) -> str:
    """A statement that has no clauses."""
    if isinstance(statement, Show):
        return f"show {statement.what}"
    if isinstance(statement, SetOption):
        return f"set {statement.name.text} = {statement.value!r} <{statement.span.excerpt}>"
    kind = f"{statement.kind} " if statement.kind else ""
    if isinstance(statement, Describe):
        return f"describe {kind}{statement.name.text}"
    return f"drop {kind}{statement.name.text}{' if exists' if statement.if_exists else ''}"


def pool_line(statement: CreatePool | AlterPool | CreateFunction | Place | PlaceProbe) -> str:
    """A statement about pools and what is placed on them."""
    name = statement.name.text
    if isinstance(statement, CreateFunction):
        return f"function {name} as {statement.location.text!r} returns {statement.returns}"
    if isinstance(statement, Place):
        return f"place {name} on {statement.pool.text}"
    if isinstance(statement, PlaceProbe):
        return f"place probe of {name} on {statement.pool.text}"
    return f"{'pool' if isinstance(statement, CreatePool) else 'alter pool'} {name} slots {statement.slots}"


def settings(entries: Sequence[Setting]) -> str:
    """Keys and values."""
    return "".join(f" {entry.key.text}={entry.value!r}" for entry in entries)


def select_lines(select: Select) -> Iterator[str]:
    """A branch, one line for every part."""
    yield "select distinct" if select.is_distinct else "select"
    for item in select.items:
        if isinstance(item, Star):
            yield f"  item {item.qualifier.text}.*" if item.qualifier else "  item *"
        else:
            yield f"  item {expression(item.expression)}" + (f" as {item.alias.text}" if item.alias else "")
    yield from (f"  from {from_item(source)}" for source in select.sources)
    yield from (f"  where {expression(conjunct)}" for conjunct in select.conjuncts)
    yield from (f"  group by {expression(group)}" for group in select.group_by)
    if select.having:
        yield f"  having {expression(select.having)}"


def expression(scalar: ScalarExpression) -> str:
    """The text, the columns, the aggregates."""
    notes = [column(reference) for reference in scalar.columns] + [
        aggregate(call) for call in scalar.aggregates
    ]
    return f"<{scalar.text}>" + (f" uses {', '.join(notes)}" if notes else "")


def column(reference: ColumnReference) -> str:
    """A column as ``qualifier|name``."""
    return f"{reference.qualifier}|{reference.name}" if reference.qualifier else reference.name


def aggregate(call: AggregateCall) -> str:
    """An aggregate call with its argument."""
    argument = call.argument.text if call.argument else "*"
    return f"{call.function}({'distinct ' if call.distinct else ''}{argument})"


def from_item(source: FromItem) -> str:
    """A source with window and alias."""
    return f"{source.source.text}{window(source.window)} as {source.alias.text}"


def window(given: WindowClause | None) -> str:
    """A window with times in microseconds."""
    if given is None:
        return ""
    one = given.window
    if isinstance(one, RowWindow):
        by = f"partition by {', '.join(map(column, given.keys))} " if given.keys else ""
        return f" [{by}rows {one.rows}]"
    if isinstance(one, UnboundedWindow):
        return " [unbounded]"
    if one.range_us == 0:
        return " [now]"
    if isinstance(one, HopWindow):
        return f" [hop {one.range_us} us every {one.slide_us} us]"
    slide = "" if one.slide_us is None else f" slide {one.slide_us} us"
    return f" [range {one.range_us} us{slide}]"


@pytest.mark.parametrize("case", CASES, ids=[case.title for case in CASES])
def test_case_files_give_what_they_say(case: Case) -> None:
    assert outcome(case.text) == case.expected


def test_every_case_has_a_title_of_its_own() -> None:
    assert len({case.title for case in CASES}) == len(CASES)

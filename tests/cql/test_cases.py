"""The parser on case files: a title, a text, ``----``, and the statements or the error it gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from headgate.cql.parser import parse
from headgate.cql.statement import (
    AlterPool,
    AlterQuery,
    CreateFunction,
    CreatePool,
    CreateQuery,
    CreateView,
    DeriveStream,
    Describe,
    Drop,
    Existing,
    PauseQuery,
    Place,
    PlaceProbe,
    ResumeQuery,
    SetOption,
    Setting,
    Show,
    Statement,
)
from headgate.cql.syntax import (
    AggregateCall,
    ColumnReference,
    FromItem,
    JoinKind,
    RankItem,
    ScalarExpression,
    Select,
    Star,
    WindowClause,
)
from headgate.errors import QueryError
from headgate.model.window import (
    HopWindow,
    LandmarkWindow,
    RowWindow,
    SessionWindow,
    SlidingRowWindow,
    TimeWindow,
    UnboundedWindow,
    UntilWindow,
)


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
    if isinstance(statement, (AlterQuery, PauseQuery, ResumeQuery)):
        yield living_line(statement)
        return
    if isinstance(statement, (Drop, SetOption, Show, Describe)):
        yield short_line(statement)
        return
    existing = getattr(statement, "existing", Existing.REFUSE)
    if existing is not Existing.REFUSE:
        yield existing.value.lower()
    if isinstance(statement, (DeriveStream, CreateView)):
        yield f"{statement.kind} {statement.name.text}"
        for branch in statement.branches:
            yield from (f"  {line}" for line in select_lines(branch))
        return
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
        computed = f" as {expression(column.computed)}" if column.computed else ""
        yield f"  column {column.name.text}: {column.type}{computed}"
    if statement.primary_key:
        yield f"  primary key {', '.join(key.text for key in statement.primary_key)}"


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


def living_line(statement: AlterQuery | PauseQuery | ResumeQuery) -> str:
    """A change of a query that runs."""
    if isinstance(statement, AlterQuery):
        settings = ", ".join(f"{setting.key.text} = {setting.value}" for setting in statement.settings)
        return f"alter query {statement.name.text} set {settings}"
    return f"{'pause' if isinstance(statement, PauseQuery) else 'resume'} query {statement.name.text}"


def pool_line(statement: CreatePool | AlterPool | CreateFunction | Place | PlaceProbe) -> str:
    """A statement about pools and what is placed on them."""
    name = statement.name.text
    if isinstance(statement, CreateFunction):
        where = " in processes" if statement.in_processes else ""
        return f"function {name} as {statement.location.text!r} returns {statement.returns}{where}"
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
    emission = f" {select.emission.kind.value.lower()}" if select.emission else ""
    yield f"select{emission}{' distinct' if select.is_distinct else ''}"
    for item in select.items:
        if isinstance(item, Star):
            yield f"  item {item.qualifier.text}.*" if item.qualifier else "  item *"
        elif isinstance(item, RankItem):
            yield f"  rank {item.name.text}"
        else:
            yield f"  item {expression(item.expression)}" + (f" as {item.alias.text}" if item.alias else "")
    for source in select.sources:
        yield f"  from {from_item(source)}"
        yield from (f"    {line}" for branch in source.branches for line in select_lines(branch))
    yield from (f"  where {expression(conjunct)}" for conjunct in select.conjuncts)
    yield from (f"  group by {expression(group)}" for group in select.group_by)
    if select.having:
        yield f"  having {expression(select.having)}"
    if select.ranking:
        ranking = select.ranking
        yield f"  {ranking.function.lower()} <= {ranking.rows}"
        yield from (f"    by {expression(key)}" for key in ranking.keys)
        for key in ranking.order:
            direction = " desc" if key.is_descending else ""
            nulls = f" nulls {key.nulls}" if key.nulls else ""
            yield f"    order {expression(key.expression)}{direction}{nulls}"
    yield from (f"  distinct on {expression(key)}" for key in select.distinct_on)


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
    arguments = ", ".join(argument.text for argument in call.arguments) or "*"
    condition = f" filter {call.condition.text}" if call.condition else ""
    return f"{call.function}({'distinct ' if call.distinct else ''}{arguments}){condition}"


def from_item(source: FromItem) -> str:
    """A source with window and alias, and how it is joined."""
    join = "" if source.join is JoinKind.INNER else f"{source.join.value.lower()} "
    on = "".join(f" on {expression(condition)}" for condition in source.on)
    using = f" using {', '.join(name.text for name in source.using)}" if source.using else ""
    name = f"{source.source.text}{window(source.window)} as {source.alias.text}"
    return f"{join}{name}{on}{using}{subquery(source)}{generator(source)}"


def generator(source: FromItem) -> str:
    """The rows of a tuple that a source stands for."""
    own = source.generator
    if own is None:
        return ""
    columns = f" columns {', '.join(name.text for name in own.columns)}" if own.columns else ""
    return f" outer{'' if own.is_outer else ' no'} of {expression(own.argument)}{columns}"


def subquery(source: FromItem) -> str:
    """The condition of WHERE that a source stands for."""
    if source.test is None:
        return ""
    compared = "".join(f" {expression(one)}" for one in source.test.compared or ())
    return f" for {source.test.words.lower()} of {source.test.name}{compared}"


def window(given: WindowClause | None) -> str:
    """A window with times in microseconds."""
    if given is None:
        return ""
    one = given.window
    if isinstance(one, RowWindow):
        by = f"partition by {', '.join(map(column, given.keys))} " if given.keys else ""
        slide = f" slide {one.slide}" if isinstance(one, SlidingRowWindow) else ""
        return f" [{by}rows {one.rows}{slide}]"
    if isinstance(one, UnboundedWindow):
        return f" [unbounded{f' slide {one.slide_us} us' if isinstance(one, LandmarkWindow) else ''}]"
    if given.until is not None and isinstance(one, UntilWindow):
        slide = f" slide {one.slide_us} us" if one.slide_us else ""
        return f" [until {expression(given.until)}{slide}]"
    if isinstance(one, SessionWindow):
        return f" [session {one.gap_us} us]"
    assert isinstance(one, TimeWindow)
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

"""``headgate sql``: SELECT over the relations, results and dead letters of a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headgate.cli.commands import DEBUG, JSON, MASTER, argument, value
from headgate.errors import QueryError

if TYPE_CHECKING:
    from headgate.planning.listing import Answer
    from headgate.spark.stored_tables import Tables

_SHOWN_ROWS = 100
_KINDS = {"TABLES": "", "RELATIONS": "relation", "QUERIES": "query"}


def sql(
    statement: str = argument("SELECT", "A SELECT of Spark SQL, SHOW TABLES, or DESCRIBE name."),
    checkpoint: str = value("DIR", "The folder of --checkpoint.", default=..., show_default=False),
    limit: int = value("N", "Rows to show in a table.", default=_SHOWN_ROWS, min=1, max=1_000_000),
    master: str = MASTER,
    as_json: bool = JSON,
    debug: bool = DEBUG,
) -> None:
    """Query what a run has kept: stored relations, results of queries, and dead_letters.

    Results are those of the ticks that have been committed, also while the run goes on. Queries have the
    names that they were created with. Relations that are not in files are left out.
    """
    from headgate.cli.checkpoint import opened
    from headgate.cql.tokens import Cursor
    from headgate.spark.application.cluster import own_session
    from headgate.spark.file_system import Files
    from headgate.spark.stored_tables import Tables

    cursor = Cursor(statement, "sql")
    root, _ = opened(checkpoint)
    word = cursor.word()
    if word not in ("SELECT", "WITH", "SHOW", "DESCRIBE"):
        raise cursor.expected("SELECT, WITH, SHOW TABLES or DESCRIBE name")
    session = own_session(master)
    tables = Tables(session, Files(session), root)
    if word in ("SELECT", "WITH"):
        _print_rows(tables, statement.rstrip().removesuffix(";"), limit, as_json)
    else:
        _print_answer(_listed(tables, cursor) if word == "SHOW" else _described(tables, cursor), as_json)


def _print_rows(tables: Tables, text: str, limit: int, as_json: bool) -> None:
    from headgate.cli.rows import plain_rows
    from headgate.plain_json import json_text
    from headgate.report import rows_table, screen

    found = tables.select(text)
    if as_json:
        columns = {field.name: field.dataType.simpleString() for field in found.schema.fields}
        print(json_text({"columns": columns, "rows": plain_rows(found.toArrow())}))
        return
    # one row more than is shown, to know whether there are more
    rows = found.limit(limit + 1).toArrow()
    count = rows.num_rows
    title = "rows" if count > limit else "1 row" if count == 1 else f"{count:,} rows"
    screen().print(rows_table(title, rows, limit))


def _print_answer(answer: Answer, as_json: bool) -> None:
    from headgate.plain_json import json_text

    print(json_text(answer.to_json()) if as_json else answer)


def _listed(tables: Tables, cursor: Any) -> Answer:
    from headgate.planning.listing import Listing

    cursor.take()
    what = cursor.word()
    if what not in _KINDS:
        raise cursor.expected("TABLES, RELATIONS or QUERIES after SHOW")
    wanted = [table for table in tables.tables if _KINDS[what] in ("", table.kind)]
    rows = tuple((one.name, one.kind, one.format, len(tables.columns(one.name))) for one in wanted)
    return Listing(f"SHOW {what}", ("table", "kind", "format", "columns"), rows)


def _described(tables: Tables, cursor: Any) -> Answer:
    from headgate.planning.listing import Description

    cursor.take()
    name = cursor.name("the name of a table")
    if not cursor.at_end:
        raise QueryError("DESCRIBE takes one name", cursor.span)
    return Description(f"DESCRIBE {name.text}", {"table": name.text, "columns": tables.columns(name.text)})

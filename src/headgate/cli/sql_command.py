"""``headgate sql``: a shell for a server, or SELECT over what a checkpoint keeps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from headgate.cli.parameters import (
    CONF,
    DEBUG,
    JARS,
    JSON,
    MASTER,
    PACKAGES,
    SERVER,
    TOKEN_FILE,
    flag,
    value,
)
from headgate.errors import QueryError, SetupError

if TYPE_CHECKING:
    from headgate.planning.listing import Answer
    from headgate.spark.application.extras import Extras
    from headgate.spark.stored_tables import StoredTables

_SHOWN_ROWS = 100
_KINDS = {"TABLES": "", "RELATIONS": "relation", "QUERIES": "query"}


def sql(
    statement: str | None = typer.Argument(
        None, metavar="[STATEMENT]", help="Statements; without them, a shell starts.", show_default=False
    ),
    url: str = SERVER,
    token_file: Path | None = TOKEN_FILE,
    checkpoint: str | None = value("DIR", "Query the state of a run in this folder instead of a server."),
    force: bool = flag("--force", "Admit queries that would break their bounds, or those of others."),
    limit: int = value("N", "Rows to show in a table.", default=_SHOWN_ROWS, min=1, max=1_000_000),
    master: str = MASTER,
    packages: str | None = PACKAGES,
    jars: str | None = JARS,
    conf: list[str] = CONF,
    as_json: bool = JSON,
    debug: bool = DEBUG,
) -> None:
    """Execute statements on a server; or SELECT from what a run has kept, without one.

    The shell has a history and completes names; \\? lists its commands. SELECT reads stored relations,
    results of queries and dead_letters, as of the last committed tick, also while the run goes on. Relations
    that are not in files are left out. With --checkpoint, there is SELECT of Spark SQL, SHOW TABLES and
    DESCRIBE name.
    """
    if checkpoint is None:
        from headgate.cli.client import Client
        from headgate.cli.shell import Shell

        shell = Shell(Client.of(url, token_file), limit, as_json)
        shell.loop() if statement is None else shell.execute(statement, force)
        return
    if statement is None:
        raise SetupError("--checkpoint needs a statement, such as 'SELECT * FROM q'; a shell needs a server")
    from headgate.spark.application.extras import Extras

    _ask_checkpoint(statement, checkpoint, limit, master, Extras.of(packages, jars, conf), as_json)


def _ask_checkpoint(
    statement: str, checkpoint: str, limit: int, master: str, extras: Extras, as_json: bool
) -> None:
    from headgate.cli.checkpoint_commands import opened
    from headgate.cql.tokens import Cursor, check_only_reads
    from headgate.spark.application.cluster import own_session
    from headgate.spark.file_system import Files
    from headgate.spark.stored_tables import StoredTables

    cursor = Cursor(statement, "sql")
    root, _ = opened(checkpoint, extras)
    word = cursor.word()
    if word not in ("SELECT", "WITH", "SHOW", "DESCRIBE"):
        raise cursor.expected("SELECT, WITH, SHOW TABLES or DESCRIBE name")
    session = own_session(master, extras=extras)
    tables = StoredTables(session, Files(session), root)
    if word in ("SELECT", "WITH"):
        check_only_reads(statement)
        _print_rows(tables, statement.rstrip().removesuffix(";"), limit, as_json)
    else:
        _print_answer(_listed(tables, cursor) if word == "SHOW" else _described(tables, cursor), as_json)


def _print_rows(tables: StoredTables, text: str, limit: int, as_json: bool) -> None:
    from headgate.formats.arrow_rows import plain_rows
    from headgate.formats.plain_json import json_text
    from headgate.report.screen import rows_table, screen

    if as_json:
        found = tables.rows(text)
        print(json_text({"columns": found.columns, "rows": plain_rows(found.table)}))
        return
    # one row more than is shown, to know whether there are more
    rows = tables.rows(text, limit + 1).table
    count = rows.num_rows
    title = "rows" if count > limit else "1 row" if count == 1 else f"{count:,} rows"
    screen().print(rows_table(title, rows, limit))


def _print_answer(answer: Answer, as_json: bool) -> None:
    from headgate.formats.plain_json import json_text

    print(json_text(answer.to_json()) if as_json else answer)


def _listed(tables: StoredTables, cursor: Any) -> Answer:
    from headgate.planning.listing import Listing

    cursor.take()
    what = cursor.word()
    if what not in _KINDS:
        raise cursor.expected("TABLES, RELATIONS or QUERIES after SHOW")
    wanted = [table for table in tables.tables if _KINDS[what] in ("", table.kind)]
    rows = tuple((one.name, one.kind, one.format, len(tables.columns(one.name))) for one in wanted)
    return Listing(f"SHOW {what}", ("table", "kind", "format", "columns"), rows)


def _described(tables: StoredTables, cursor: Any) -> Answer:
    from headgate.planning.listing import Description

    cursor.take()
    name = cursor.name("the name of a table")
    if not cursor.at_end:
        raise QueryError("DESCRIBE takes one name", cursor.span)
    return Description(f"DESCRIBE {name.text}", {"table": name.text, "columns": tables.columns(name.text)})

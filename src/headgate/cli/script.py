"""A CQL file: read, parsed, and planned without Spark where that is possible.

Functions import the planner when they are called: for commands that need Spark, its JVM starts first.
"""

from __future__ import annotations

import atexit
import logging
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.errors import SetupError
from headgate.plain_json import json_text
from headgate.spark.application import archive, jvm
from headgate.spark.application.java import find_java

if TYPE_CHECKING:
    from headgate.cql.statement import Statement
    from headgate.planning.catalog import Catalog


@dataclass(frozen=True)
class Script:
    """Statements, and the text they came from."""

    text: str
    origin: str
    statements: tuple[Statement, ...]

    @staticmethod
    def parse(text: str, origin: str) -> Script:
        """A script from text; it must have a query."""
        from headgate import cql
        from headgate.cql.statement import CreateQuery

        statements = tuple(cql.parse(text, origin))
        if not any(isinstance(statement, CreateQuery) for statement in statements):
            raise SetupError(f"{origin}: nothing to run; add a CREATE QUERY")
        return Script(text, origin, statements)

    @staticmethod
    def read(path: Path) -> Script:
        if path.is_dir():
            raise SetupError(f"{path} is a folder; pass a CQL file")
        try:
            return Script.parse(path.read_text(encoding="utf-8"), str(path))
        except FileNotFoundError:
            raise SetupError(f"no such file: {path}") from None
        except UnicodeDecodeError:
            raise SetupError(f"{path} is not valid UTF-8; pass a CQL file") from None
        except OSError as error:
            raise SetupError(f"{path} cannot be read: {error.strerror}") from None

    @property
    def needs_lookup(self) -> bool:
        """Whether a query reads a source whose columns only Spark can find out."""
        from headgate.cql.statement import CreateQuery, Source

        queries = [s for s in self.statements if isinstance(s, CreateQuery)]
        sources = [s for s in self.statements if isinstance(s, Source)]
        unknown = {s.name.text.lower() for s in sources if not s.columns}
        read = {i.source.text.lower() for q in queries for select in q.branches for i in select.sources}
        return bool(unknown & read)

    def catalog(self) -> Catalog:
        """Everything declared; starts Spark only if columns have to be looked up."""
        if self.needs_lookup:
            from headgate.session import Session

            return Session().execute(self.text, self.origin).catalog
        from headgate.planning.catalog import Catalog

        # knowing the formats costs an import of pyspark, but no JVM
        from headgate.spark.sinks import SINK_FORMATS
        from headgate.spark.sources import EVENT_TIMES, RELATION_FORMATS, STREAM_FORMATS

        catalog = Catalog(
            known_sources=sorted({*STREAM_FORMATS, *RELATION_FORMATS}),
            known_sinks=SINK_FORMATS,
            event_times=EVENT_TIMES,
        )
        for statement in self.statements:
            catalog.declare(statement)
        return catalog


def read_while_spark_starts(file: Path, master: str) -> Script:
    """Read and check a script while Spark starts; if the script is wrong, Spark is stopped again."""
    jvm.start_early(master if file.is_file() else "")
    try:
        script = Script.read(file)
        _start_session(script, master)
        # errors in queries are reported before the seconds that Spark takes to start
        if not script.needs_lookup:
            from headgate.planning.lower import Stages

            Stages.of(script.catalog())
    except BaseException:
        # a session half started loses its JVM now; what py4j logs about that is noise
        logging.disable(logging.CRITICAL)
        jvm.discard_early()
        raise
    if jvm.starts_directly(master, os.environ):
        atexit.register(_share_classes)
    return script


def _start_session(script: Script, master: str) -> None:
    # imported here: PySpark
    from headgate.cql.statement import CreatePool
    from headgate.declarations import POOL_TASKS
    from headgate.spark.application.cluster import start_in_background

    # jobs of tuples that visit pools need tasks beside those of ticks
    has_pools = any(isinstance(statement, CreatePool) for statement in script.statements)
    start_in_background(master, POOL_TASKS if has_pools else 0)


def _share_classes() -> None:
    """Let Spark start faster the next time."""
    spark_home = jvm.pyspark_folder()
    with suppress(Exception):
        assert spark_home is not None
        archive.make_in_background(find_java(os.environ), jvm.class_path(spark_home))


def show_stages(file: Path, after: str | None, as_json: bool) -> None:
    """Print the plans after a stage, or after each."""
    from headgate.planning.explain import explain_stages
    from headgate.planning.lower import Stages

    found = explain_stages(Stages.of(Script.read(file).catalog()), after)
    print(json_text(found.to_json()) if as_json else found)

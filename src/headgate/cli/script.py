"""A CQL file: read, parsed, and planned without Spark where that is possible.

Functions import the planner when they are called: for commands that need Spark, its JVM starts first.
"""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.errors import SetupError
from headgate.formats.plain_json import json_text
from headgate.spark.application import archive, jvm
from headgate.spark.application.extras import NO_EXTRAS, Extras
from headgate.spark.application.java import find_java

if TYPE_CHECKING:
    from headgate.cql.statement import Statement
    from headgate.planning.catalog import Catalog
    from headgate.planning.explain import Explanation
    from headgate.planning.listing import Answer
    from headgate.planning.lower import Stages
    from headgate.session.run_options import RunOptions


@dataclass(frozen=True)
class Executed:
    """What statements have declared and set, and the answers of SHOW and DESCRIBE."""

    catalog: Catalog
    options: RunOptions
    answers: tuple[Answer, ...]

    def planned(self) -> Stages:
        """The plans of all queries, which the options of their run must suit."""
        from headgate.planning.lower import Stages

        stages = Stages.of(self.catalog)
        self.options.overrides(stages.lowered)
        return stages


@dataclass(frozen=True)
class Script:
    """Statements, and the text they came from."""

    text: str
    origin: str
    statements: tuple[Statement, ...]

    @staticmethod
    def parse(text: str, origin: str) -> Script:
        """A script from text; it must create a query, or ask a question."""
        from headgate import cql
        from headgate.cql.statement import CreateQuery, Question

        script = Script(text, origin, tuple(cql.parse(text, origin)))
        if not any(isinstance(statement, (CreateQuery, Question)) for statement in script.statements):
            raise script.nothing_to_run()
        return script

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

    @cached_property
    def needs_lookup(self) -> bool:
        """Whether a query reads, or DESCRIBE shows, a source whose columns only Spark can find out."""
        from headgate.cql.statement import Declaration, Describe
        from headgate.planning.catalog import Catalog

        catalog = Catalog()
        for statement in self.statements:
            if isinstance(statement, Describe) and _lacks_columns(catalog, [statement.name.text]):
                return True
            if isinstance(statement, Declaration):
                catalog.declare(statement)
        return _lacks_columns(catalog, catalog.queries)

    @property
    def uses_kafka(self) -> bool:
        """Whether a stream comes from Kafka, or results go there."""
        from headgate.cql.statement import CreateQuery, CreateStream

        streams = [s.format for s in self.statements if isinstance(s, CreateStream)]
        sinks = [s.sink.format for s in self.statements if isinstance(s, CreateQuery) and s.sink]
        return any(name.text.lower() == "kafka" for name in (*streams, *sinks))

    def executed(self, options: RunOptions | None = None) -> Executed:
        """What all statements come to; starts Spark only if columns have to be looked up."""
        from headgate.session.run_options import RunOptions

        own = (options or RunOptions()).renewed()
        if self.needs_lookup:
            from headgate.session.session import Session

            session = Session()
            session.options = own
            session.execute(self.text, self.origin)
            return Executed(session.catalog, own, session.answers)
        from headgate.planning.catalog import Catalog
        from headgate.session.statements import perform

        # knowing the formats costs an import of pyspark, but no JVM
        from headgate.spark.sinks import SINK_FORMATS
        from headgate.spark.sources import EVENT_TIMES, RELATION_FORMATS, STREAM_FORMATS

        catalog = Catalog(
            known_sources=sorted({*STREAM_FORMATS, *RELATION_FORMATS}),
            known_sinks=SINK_FORMATS,
            event_times=EVENT_TIMES,
        )
        answers = [perform(statement, catalog, own) for statement in self.statements]
        return Executed(catalog, own, tuple(answer for answer in answers if answer is not None))

    def with_queries(self, options: RunOptions | None = None) -> Executed:
        """The same, if a query is left to run."""
        executed = self.executed(options)
        if not executed.catalog.queries:
            raise self.nothing_to_run()
        return executed

    def catalog(self) -> Catalog:
        return self.with_queries().catalog

    def nothing_to_run(self) -> SetupError:
        return SetupError(f"{self.origin}: nothing to run; add a CREATE QUERY")


def _lacks_columns(catalog: Catalog, names: Iterable[str]) -> bool:
    """Whether one of these is a source without columns, or a query that reads one."""
    from headgate.planning.dependencies import sources_of

    tables = (catalog.streams, catalog.relations)
    unknown = {name.lower() for table in tables for name, source in table.items() if source.schema is None}
    queries = {name.lower(): query for name, query in catalog.queries.items()}
    read = [sources_of(queries[key]) if (key := name.lower()) in queries else (name,) for name in names]
    return any(name.lower() in unknown for sources in read for name in sources)


def read_while_spark_starts(
    file: Path, master: str, options: RunOptions | None = None, extras: Extras = NO_EXTRAS
) -> Script:
    """Read and check a script while Spark starts; if the script is wrong, Spark is stopped again."""
    # for a script that may need a connector, Spark starts once it is known whether it does
    is_plain = file.is_file() and (extras.has_kafka or b"kafka" not in file.read_bytes().lower())
    jvm.start_early(master if is_plain else "", extras)
    try:
        script = Script.read(file)
        _start_session(script, master, extras.with_kafka() if script.uses_kafka else extras)
        # errors in queries are reported before the seconds that Spark takes to start
        if not script.needs_lookup:
            script.with_queries(options).planned()
    except BaseException:
        # a session half started loses its JVM now; what py4j logs about that is noise
        logging.disable(logging.CRITICAL)
        jvm.discard_early()
        raise
    if jvm.starts_directly(master, os.environ, extras) and not extras.jars:
        atexit.register(_share_classes)
    return script


def _start_session(script: Script, master: str, extras: Extras) -> None:
    # imported here: PySpark
    from headgate.cql.statement import CreatePool
    from headgate.session.state import POOL_TASKS
    from headgate.spark.application.cluster import start_in_background

    # jobs of tuples that visit pools need tasks beside those of ticks
    has_pools = any(isinstance(statement, CreatePool) for statement in script.statements)
    start_in_background(master, POOL_TASKS if has_pools else 0, extras)


def _share_classes() -> None:
    """Let Spark start faster the next time."""
    spark_home = jvm.pyspark_folder()
    with suppress(Exception):
        assert spark_home is not None
        archive.make_in_background(find_java(os.environ), jvm.class_path(spark_home))


def show_stages(file: Path, after: str | None, as_json: bool) -> None:
    """Print the answers of a script, and its plans after a stage or after each."""
    from headgate.planning.explain import explain_stages

    executed = Script.read(file).executed()
    stages = executed.planned()
    if as_json or executed.catalog.queries:
        print_explained(explain_stages(stages, after), executed.answers, as_json)
    else:
        print_answers(executed.answers)


def print_explained(plans: Explanation, answers: Sequence[Answer], as_json: bool) -> None:
    """Print plans below the answers of SHOW and DESCRIBE."""
    if as_json:
        print(json_text({**answers_json(answers), **plans.to_json()}))
        return
    print_answers(answers)
    print(plans)


def print_answers(answers: Iterable[Answer]) -> None:
    """The answers of SHOW and DESCRIBE, each below its statement."""
    for answer in answers:
        print(f"-- {answer.statement}\n{answer}\n")


def answers_json(answers: Iterable[Answer]) -> dict[str, object]:
    """Their part of a document: nothing, if nothing was requested."""
    found = [answer.to_json() for answer in answers]
    return {"answers": found} if found else {}

"""A CQL file: read, parsed, and planned without Spark where that is possible."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headgate import cql
from headgate.cql.statement import CreatePool, CreateQuery, Source, Statement
from headgate.errors import SetupError
from headgate.planning.catalog import Catalog
from headgate.planning.stages import Stages
from headgate.session import Session


@dataclass(frozen=True)
class Script:
    """Statements, and the text they came from."""

    text: str
    origin: str
    statements: tuple[Statement, ...]

    @staticmethod
    def parse(text: str, origin: str) -> Script:
        """A script from text; it must have a query."""
        statements = tuple(cql.parse(text, origin))
        if not any(isinstance(statement, CreateQuery) for statement in statements):
            raise SetupError(f"{origin}: nothing to run; add a CREATE QUERY")
        return Script(text, origin, statements)

    @staticmethod
    def read(path: Path) -> Script:
        """A script from a file."""
        if path.is_dir():
            raise SetupError(f"{path} is a folder; name a file of CQL")
        try:
            return Script.parse(path.read_text(encoding="utf-8"), str(path))
        except FileNotFoundError:
            raise SetupError(f"no such file: {path}") from None
        except UnicodeDecodeError:
            raise SetupError(f"{path} is no text in UTF-8; name a file of CQL") from None
        except OSError as error:
            raise SetupError(f"{path} cannot be read: {error.strerror}") from None

    @property
    def needs_lookup(self) -> bool:
        """Whether a query reads a source whose columns only Spark can find out."""
        queries = [s for s in self.statements if isinstance(s, CreateQuery)]
        sources = [s for s in self.statements if isinstance(s, Source)]
        unknown = {s.name.text.lower() for s in sources if not s.columns}
        read = {i.source.text.lower() for q in queries for select in q.branches for i in select.sources}
        return bool(unknown & read)

    @property
    def has_pools(self) -> bool:
        """Whether tuples visit pools, whose jobs want tasks beside those of ticks."""
        return any(isinstance(statement, CreatePool) for statement in self.statements)

    def catalog(self) -> Catalog:
        """Everything declared; starts Spark only if columns have to be looked up."""
        if self.needs_lookup:
            return Session().execute(self.text, self.origin).catalog
        # knowing the formats costs an import of pyspark, but no JVM
        from headgate.spark.sinks import SINK_FORMATS
        from headgate.spark.sources import RELATION_FORMATS, STREAM_FORMATS

        catalog = Catalog(
            known_sources=sorted({*STREAM_FORMATS, *RELATION_FORMATS}), known_sinks=SINK_FORMATS
        )
        for statement in self.statements:
            catalog.declare(statement)
        return catalog

    def check(self) -> None:
        """Find what is wrong with the queries before the seconds that Spark takes to start."""
        if not self.needs_lookup:
            Stages.of(self.catalog())

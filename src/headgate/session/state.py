"""What is declared in a session, the Spark application that it is for, and the plans of its queries."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from headgate.errors import SetupError
from headgate.model.kafka import KAFKA
from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.planning.catalog import Catalog
from headgate.planning.explain import STAGES, Explanation, explain_sql, explain_stages
from headgate.planning.listing import Answer
from headgate.planning.logical import LogicalPlan
from headgate.planning.lower import Stages
from headgate.planning.type_check import SessionFunctions
from headgate.session import arguments
from headgate.session.run_options import RunOptions
from headgate.spark.application.extras import NO_EXTRAS, Extras
from headgate.spark.failures import spark_errors
from headgate.statistics.profile_file import Measured
from headgate.statistics.store import PredicateEstimates

if TYPE_CHECKING:
    from headgate.spark import SparkSession
    from headgate.spark.sinks import Callback

# task slots for pools, in addition to the processors: two jobs of an eddy overlap, besides those of another
POOL_TASKS = 4


class SessionState(ABC):
    """Everything declared for one Spark application, which is started when it is first needed."""

    def __init__(
        self,
        spark: SparkSession | None = None,
        master: str = "local[*]",
        extras: Extras = NO_EXTRAS,
    ) -> None:
        from headgate.spark.application.cluster import check_session
        from headgate.spark.sinks import SINK_FORMATS
        from headgate.spark.sources import EVENT_TIMES, RELATION_FORMATS, STREAM_FORMATS

        if spark is not None:
            check_session(spark)
        self.turn = threading.RLock()
        """Held while statements take effect, as those of the dashboard do beside the program's."""
        self._given = spark
        self._extras = extras
        self._master = arguments.text("master", master, "'local[*]' or 'spark://host:7077'")
        self._registered: dict[str, Callable[[SparkSession], object]] = {}
        self.catalog = Catalog(
            lambda source: self._sources.schema_of(source),
            known_sources=sorted({*STREAM_FORMATS, *RELATION_FORMATS}),
            known_sinks=SINK_FORMATS,
            event_times=EVENT_TIMES,
            session=SessionFunctions() if spark is None else _functions_of(spark),
        )
        self._callbacks: dict[str, Callback] = {}
        self._functions: dict[str, Callable[..., Any]] = {}
        self._measured: Measured | None = None
        self._planned: tuple[int, Stages] | None = None
        self._texts: dict[tuple[str, ...], str] = {}
        """The statements that declare what there is."""
        self.options = RunOptions()
        """Options of runs that SET has given."""
        self.answers: tuple[Answer, ...] = ()
        """What SHOW and DESCRIBE of the last text gave, in order."""
        self.warnings: tuple[str, ...] = ()
        """What admission could not check, and queries that it admits although they do not fit."""

    @property
    def measured(self) -> Measured | None:
        """Statistics of an earlier run or profile; with them, queries are admitted by their bounds."""
        return self._measured

    @measured.setter
    def measured(self, measured: Measured | None) -> None:
        if measured is not None and not isinstance(measured, Measured):
            raise arguments.wrong("measured", measured, "pass Measured.read(file), or what profile returns")
        self._measured = measured

    @abstractmethod
    def _check_open(self) -> None:
        """Raise if the session is closed."""

    @cached_property
    def _spark(self) -> Any:
        """Started on first use, when it is known whether there are pools."""
        from headgate.spark.application.cluster import own_session, private_session

        tasks = POOL_TASKS if self.catalog.pools else 0
        with spark_errors(self._given):
            extras = self._extras.with_kafka() if self._uses_kafka() else self._extras
            found = private_session(self._given or own_session(self._master, tasks, extras))
            for register in self._registered.values():
                register(found)
        return found

    def _uses_kafka(self) -> bool:
        sinks = (query.sink.format.text.lower() for query in self.catalog.queries.values() if query.sink)
        return KAFKA in {*(stream.format for stream in self.catalog.streams.values()), *sinks}

    @cached_property
    def _sources(self) -> Any:
        from headgate.spark.file_system import Files
        from headgate.spark.sources import Sources

        return Sources(self._spark, Files(self._spark))

    def _processors(self) -> int | None:
        """How many runs will have; None if Spark would have to be started to know."""
        from headgate.spark.application.cluster import local_threads, processors

        spark = vars(self).get("_spark", self._given)
        return local_threads(self._master) if spark is None else processors(spark)

    def _on_spark(self) -> Any:
        """A context in which Spark may be called; it is not started just for that."""
        return spark_errors(vars(self).get("_spark"))

    def plans(self) -> list[LogicalPlan]:
        """The bound queries."""
        return list(self._stages().bound)

    def network(self) -> Network:
        """The operators that would run."""
        return self._stages().lowered

    def explain(self, after: str | None = None) -> Explanation:
        """The plans of all queries after each stage, or ``after`` bind, optimize or lower; nothing runs.

        After 'sql', it is the Spark SQL of a tick.
        """
        known = f"{', '.join(map(repr, STAGES))} or 'sql'"
        if after is not None and arguments.text("after", after, known) not in (*STAGES, "sql"):
            raise arguments.wrong("after", after, f"write {known}")
        self._check_queries("explain")
        if after == "sql":
            return explain_sql(self.sql())
        return explain_stages(self._stages(), after)

    def _check_queries(self, deed: str) -> None:
        self._check_open()
        if not self.catalog.queries:
            raise SetupError(f"nothing to {deed}: no CREATE QUERY was executed")

    def _stages(self) -> Stages:
        """All queries, planned anew only if the catalog has changed."""
        self._check_open()
        version = self.catalog.version
        if self._planned is None or self._planned[0] != version:
            with self._on_spark():
                self._planned = version, Stages.of(self.catalog)
        return self._planned[1]

    def sql(self) -> dict[str, str]:
        """The Spark SQL of every query as a tick runs it, by name; no query runs.

        ``:old`` and ``:new`` stand for an operator's progress before and after the tick, in microseconds.
        """
        from headgate.spark.render import query_texts

        network, predicates = self.network(), PredicateEstimates(self._known_predicates())
        with spark_errors(self._spark):
            return query_texts(self._spark, network, self._sources, self._functions, predicates)

    def _known_predicates(self) -> Mapping[str, Profiles]:
        return {} if self._measured is None else self._measured.predicates


def _functions_of(spark: SparkSession) -> SessionFunctions:
    """Functions that the user of a session has registered there, and how strict it is about types."""
    is_ansi = str(spark.conf.get("spark.sql.ansi.enabled")).lower() == "true"
    return SessionFunctions(lambda name: bool(spark.catalog.functionExists(name)), is_ansi)

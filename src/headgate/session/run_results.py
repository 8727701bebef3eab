"""What a run has given so far: results of queries, as DataFrames and Arrow tables, and dead letters."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any

from headgate.errors import SetupError, SparkError, unknown_name
from headgate.model.network import Network
from headgate.session import arguments
from headgate.spark.failures import spark_errors

if TYPE_CHECKING:
    import pyarrow as pa

    from headgate.spark import DataFrame

_ATTEMPTS_TO_READ = 5


class RunResults:
    """Reads what is in the checkpoint of a run, as long as it is there."""

    _run: Any
    _network: Network
    is_temporary: bool
    _is_removed: bool

    def results(self, query: str) -> DataFrame:
        """Results so far as a Spark DataFrame."""
        self._known(query)
        self._check_kept(f"the results of query {query}")
        with self._spark_errors():
            found: DataFrame = self._run.results(query)
            return found

    def results_of_tick(self, query: str, batch_id: int) -> pa.Table:
        """Results that one tick has added, as an Arrow table in the order of their timestamps."""
        self._known(query)
        batch_id = arguments.whole("batch_id", batch_id, 0, 3)
        self._check_kept(f"the results of query {query}")

        def read() -> pa.Table:
            with self._spark_errors():
                found: DataFrame = self._run.results_of_tick(query, batch_id)
                return found.toArrow()

        return self._reread(query, read)

    def result_schema(self, query: str) -> pa.Schema:
        """The columns of the tables that ``results_of_tick`` gives, also before the first result."""
        self._known(query)
        with self._spark_errors():
            found: DataFrame = self._run.no_results(query)
            return found.toArrow().schema

    def result_ticks(self, query: str) -> list[int]:
        """Ticks whose results ``results_of_tick`` can read, in order."""
        self._known(query)
        self._check_kept(f"the results of query {query}")
        with self._spark_errors():
            found: list[int] = self._run.result_ticks(query)
            return found

    def path_of(self, query: str) -> str | None:
        """Where the results of a query are; None if they go to no files, or these go with the run."""
        self._known(query)
        path: str | None = self._run.path_of(query)
        is_kept = self._network.queries[query].sink.format != "memory" or not self.is_temporary
        return path if is_kept else None

    def table(self, query: str) -> pa.Table:
        """The current rows of a query with ``mode 'latest'``, as of the last committed tick."""
        self._known(query)
        if not self._network.queries[query].sink.is_latest:
            advice = "call run.arrow, or write OPTIONS (mode 'latest')"
            raise SetupError(f"query {query} appends its results and has no table; {advice}")
        return self._reread(query, lambda: self.arrow(query))

    def _reread(self, query: str, read: Callable[[], pa.Table]) -> pa.Table:
        """Read a table, again if its file is replaced between being found and being opened."""
        if self._network.queries[query].sink.is_latest:
            for _ in range(_ATTEMPTS_TO_READ - 1):
                with suppress(SparkError):
                    return read()
        return read()

    def arrow(self, query: str) -> pa.Table:
        """Results so far as an Arrow table."""
        results = self.results(query)
        with self._spark_errors():
            return results.toArrow()

    def dead_letters(self) -> DataFrame | None:
        """Rows that were late or did not parse, as a Spark DataFrame; None if there are none."""
        self._check_kept("the dead letters")
        with self._spark_errors():
            found: DataFrame | None = self._run.dead_letters()
            return found

    def _spark_errors(self) -> AbstractContextManager[None]:
        return spark_errors(self._run.spark)

    def _known(self, query: str) -> None:
        if arguments.text("query", query, "'q', its name") not in self._network.queries:
            raise SetupError(unknown_name("query", query, self._network.queries))

    def _check_kept(self, what: str) -> None:
        if self._is_removed:
            advice = "read them before, or start with a checkpoint"
            raise SetupError(f"{what} went with the session, which is closed; {advice}")

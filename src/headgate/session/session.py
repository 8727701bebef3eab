"""A session: all that the command line and library users call."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from headgate import cql
from headgate.control.admission import with_machine_bounds
from headgate.cql.measure import LARGEST
from headgate.cql.statement import CreateQuery
from headgate.cql.tokens import check_only_reads
from headgate.errors import SetupError, unknown_name
from headgate.formats.html import html_paragraph, html_table, listed, plural
from headgate.model.network import Network, RelationDefinition, StreamDefinition
from headgate.model.profile import Profiles
from headgate.queueing.advice import DEFAULT_PERCENTILE, Advice
from headgate.routing.policies import Router
from headgate.runtime.drive import Observer
from headgate.scheduling import Strategy
from headgate.scheduling.baselines import Fifo
from headgate.session import arguments
from headgate.session.handle import Run
from headgate.session.predicting import Conditions, predict
from headgate.session.preview import Preview, preview
from headgate.session.profile_runs import profile_runs
from headgate.session.run_settings import RunSettings
from headgate.session.runs import SessionRuns
from headgate.spark.failures import spark_errors
from headgate.statistics.completeness import Origin
from headgate.statistics.profile_file import Measured
from headgate.statistics.store import StatisticsStore

if TYPE_CHECKING:
    from headgate.spark import DataFrame
    from headgate.spark.stored_tables import Selected, StoredTables

_log = logging.getLogger("headgate")


class _Undone(Exception):
    """Takes back all declarations that were made for a preview."""

    def __init__(self, found: Preview) -> None:
        super().__init__()
        self.found = found


class Session(SessionRuns):
    """Continuous queries over one Spark application; one thread at a time may use it.

    >>> with Session() as session:
    ...     session.execute("CREATE STREAM ...; CREATE QUERY q AS SELECT ...")
    ...     run = session.start(until_done=True)
    ...     run.wait()
    ...     run.arrow("q")

    ``spark`` is an application that is there already, otherwise one is started on ``master``. Whatever is
    wrong raises a ``HeadgateError``, whose text is one line, and leaves the session as it was.
    """

    def __repr__(self) -> str:
        queries, streams = self.catalog.queries, self.catalog.streams
        named = f" ({listed(queries)})" if queries else ""
        counts = f"{plural(len(queries), 'query', 'queries')}{named} over {plural(len(streams), 'stream')}"
        return f"<Session: {counts}; {self._state}>"

    def _repr_html_(self) -> str:
        catalog = self.catalog
        sources: Iterable[RelationDefinition | StreamDefinition]
        sources = *catalog.streams.values(), *catalog.relations.values()
        read = ((s.name, s.format, s.schema.ddl if s.schema else "not looked up yet") for s in sources)
        written = ((n, q.sink.format.text if q.sink else "memory") for n, q in catalog.queries.items())
        tables = html_table(("source", "format", "columns"), read), html_table(("query", "into"), written)
        return "".join((html_paragraph(repr(self)), *tables))

    @property
    def _state(self) -> str:
        if self._is_closed:
            return "closed"
        return "not started" if self.run is None else "running" if self.run.is_running else "its run is over"

    def __enter__(self) -> Session:
        """The session itself, which ``with`` closes at the end."""
        self._check_open()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Close it; an error on its way goes before that of a run."""
        try:
            self.close()
        except Exception as failure:
            if error is None:
                raise
            _log.error("closing the session: %s", failure)

    def start(
        self,
        until_done: bool | None = None,
        strategy: str | Strategy | None = None,
        memory: str | float | None = None,
        checkpoint: str | Path | None = None,
        tick_budget: str | float | None = None,
        observers: Iterable[Observer] = (),
        profiles: Profiles | None = None,
        keep: Mapping[str, float] | None = None,
        seed: int | None = None,
        routing: str | Router | None = None,
        orders: Mapping[str, Sequence[object]] | None = None,
        balance_pools: bool | None = None,
    ) -> Run:
        """Start all declared queries; a session has one run at a time.

        An option that is not given is as SET has it, or else the default: ``strategy`` 'fifo', ``routing``
        'optimal', the others none. With ``until_done``, the run ends when all streams have come to an end.
        ``tick_budget`` is the CPU time of a tick (a number of seconds, or '500 ms'); ``memory`` the backlog
        above which sources are held back; ``profiles`` the measurements of an earlier run; ``keep`` the keep
        ratios of streams from the beginning, applied by a hash of ``seed`` and tuple; ``orders`` the
        aliases of queries in the order to join them, nested for a bushy plan, instead of the best one.
        ``routing`` is the policy by which tuples visit pools; ``balance_pools`` moves slots between pools.
        Without a ``checkpoint``, state and results in memory are in a temporary folder until the session is
        closed.
        """
        self._check_queries("run")
        self._check_idle("start")
        option = self.options.chosen
        is_finite = arguments.flag("until_done", option("until_done", until_done))
        chosen = arguments.strategy(option("strategy", strategy))
        router = arguments.router(option("routing", routing))
        memory, tick_budget = option("memory", memory), option("tick_budget", tick_budget)
        checkpoint = option("checkpoint", checkpoint)
        limit = None if memory is None else arguments.size_bytes("memory", memory)
        budget_s = None if tick_budget is None else arguments.positive_seconds("tick_budget", tick_budget)
        folder = None if checkpoint is None else arguments.folder("checkpoint", checkpoint)
        watching = arguments.observers(observers)
        measured = {} if profiles is None else arguments.profiles(profiles)
        ratios = None if keep is None else arguments.ratios(keep)
        drawn = None if seed is None else arguments.whole("seed", seed, -LARGEST, 7)
        in_order = None if orders is None else arguments.orders(orders)
        balances = arguments.flag("balance_pools", option("balance_pools", balance_pools))
        try:
            with self._on_spark():
                network = self._network_on(folder)
                stages = self._stages()
                settings = RunSettings(
                    strategy=chosen,
                    statistics=self._statistics(network, measured),
                    until_done=is_finite,
                    memory_bytes=limit,
                    checkpoint=folder,
                    tick_budget_s=budget_s,
                    observers=watching,
                    overrides=self.options.overrides(network, ratios, drawn, in_order),
                    plans=stages.optimized,
                    routing=router,
                    balance_pools=balances,
                    warnings=self.warnings,
                    transition=self.transition(folder),
                    stages=stages,
                    script=self.script,
                )
                run = self._launcher().launch(network, settings)
        except OSError as error:
            raise SetupError(f"the run does not start: {error}") from error
        run._session, self._runs = self, (*self._runs, run)
        return run

    def advise(
        self,
        rates: Mapping[str, float] | None = None,
        processors: int | None = None,
        tick: str | float | None = None,
        strategy: str | Strategy = "fifo",
        servers: str = "pool",
        percentile: float = DEFAULT_PERCENTILE,
    ) -> Advice:
        """Predict whether every query keeps its bounds, by ``profile`` or ``measured``.

        ``rates`` are tuples per second of streams, by default as declared or measured; ``processors`` and
        ``tick``, the overhead of a tick, are by default those of the profile. With a ``tick`` of 0, an engine
        without ticks is assumed; ``servers`` is 'each' if operators have their own.
        """
        self._check_queries("advise on")
        at_rates = {} if rates is None else arguments.rates(rates)
        number = None if processors is None else arguments.whole("processors", processors, 1, 4)
        tick_s = None if tick is None else arguments.seconds("tick", tick)
        kind, chosen = arguments.name("servers", servers, "'pool' or 'each'"), arguments.strategy(strategy)
        measured, network = self.measured, self.network()
        if measured is None:
            advice = "call session.profile(), or set session.measured = Measured.read(file)"
            raise SetupError(f"nothing has been measured; {advice}")
        for stream in at_rates:
            if stream not in network.streams:
                raise SetupError(unknown_name("stream", stream, network.streams))
        conditions = Conditions(chosen, number, tick_s, kind, percentile)
        try:
            return predict(network, measured, at_rates, conditions, Origin(command="session.profile()"))
        except ArithmeticError as error:
            raise SetupError(f"rates, tick or profiles are beyond what can be computed: {error}") from error

    def preview(self, text: str, origin: str = "<cql>") -> Preview:
        """What ``execute`` would come to: plans, and whether all queries keep their bounds.

        Nothing is declared. Advice rests on the statistics of the run that is on, or else on ``measured``;
        where these do not tell, it is left out, with the reason.
        """
        self._check_open()
        given = arguments.text("text", text, "'CREATE QUERY ...'")
        statements = cql.parse(given, arguments.name("origin", origin, "'queries.sql'"))
        run = self.run
        measured = self._measured_in(run) if run is not None and run.is_running else self.measured
        new = {s.name.text for s in statements if isinstance(s, CreateQuery)}
        try:
            with self._all_or_nothing():
                self._perform(statements)
                conditions = Conditions(Fifo(), self._processors())
                raise _Undone(preview(self.catalog, new, measured, conditions, run))
        except _Undone as undone:
            return undone.found

    def select(self, text: str) -> DataFrame:
        """The rows of a SELECT over stored relations, results and dead letters of the last run."""
        given = _reading(text)
        with self._on_spark():
            return self._tables().select(given)

    def select_rows(self, text: str, max_rows: int) -> Selected:
        """The first rows of such a SELECT, as an Arrow table."""
        given = _reading(text)
        with self._on_spark():
            return self._tables().rows(given, max_rows)

    def _tables(self) -> StoredTables:
        from headgate.spark.file_system import Files
        from headgate.spark.stored_tables import StoredTables

        self._check_open()
        if self.run is None:
            raise SetupError("there are no results to select from: no run has been started")
        # views of its own: those of the run have names of the user's too
        own = self._spark.newSession()
        return StoredTables(own, Files(own), self.run.checkpoint)

    def _statistics(self, network: Network, profiles: Profiles) -> StatisticsStore:
        return StatisticsStore(network, replace(self.measured or Measured({}), profiles=profiles))

    def profile(
        self,
        seconds: str | float = 20.0,
        progress: Callable[[str], None] = lambda text: None,
        say: Callable[[str], None] = lambda text: None,
    ) -> Measured:
        """Run all declared queries over a sample, and measure the cost and selectivity of their operators.

        Results are discarded. Streams that end are read again until the time is over. If that was too short
        to measure every operator, it is extended, which ``say`` reports; ``Measured.not_measured`` names what
        could not be measured all the same. ``progress`` is called with what is measured next.
        """
        self._check_queries("profile")
        self._check_idle("profile")
        length_s = arguments.positive_seconds("seconds", seconds, most=threading.TIMEOUT_MAX)
        arguments.function("progress", progress)
        arguments.function("say", say)
        network = self.network()
        with spark_errors(self._spark):
            statistics = self._statistics(network, {})
            found = profile_runs(network, length_s, self._launcher(), statistics, progress, say)
        self.measured = with_machine_bounds(found, network)
        return self.measured


def _reading(text: str) -> str:
    """The text of a SELECT, if it does not write."""
    given = arguments.text("text", text, "'SELECT * FROM q'")
    check_only_reads(given)
    return given

"""What the operators of a tick read: ranges of stream logs, queues, and what enters these in the tick."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headgate.model.operator_inputs import DerivedInput, OperatorInput, StreamInput
from headgate.model.window import RowWindow, Window
from headgate.spark import sql
from headgate.spark.arrival.intake import Arrival
from headgate.spark.attempts import Attempts
from headgate.spark.blocks import BlockStore
from headgate.spark.manifest import Manifest, OperatorState
from headgate.spark.operators.inputs import LogInput, QueueInput, TickInput, log_columns
from headgate.spark.prepared import Prepared
from headgate.spark.rows import Rows, in_range
from headgate.spark.sql import BEGINNING_US, END_US
from headgate.spark.stream_log import StreamLogs
from headgate.spark.tick_plan import TickPlan


class InputBuilder:
    """Builds the inputs of operators, whose upstream operators are part of the plan already."""

    def __init__(self, prepared: Prepared, logs: StreamLogs, store: BlockStore, attempts: Attempts) -> None:
        self._prepared = prepared
        self._network = prepared.network
        self._logs = logs
        self._store = store
        self._attempts = attempts

    def input(
        self,
        name: str,
        number: int,
        state: OperatorState,
        before: Manifest,
        arrivals: Mapping[str, Arrival],
        plan: TickPlan,
    ) -> TickInput:
        """Input ``number`` of an operator: its stream's log, or its queue."""
        selects = self._prepared.through(name, number)
        blocks = state.blocks[number]
        if selects is None:
            return self._queue_input(name, number, state, arrivals, plan)
        stream = self._prepared.stream_input(name, number)
        assert isinstance(stream, StreamInput)
        arrival = arrivals[stream.stream]
        passed_ts, selectivity = END_US, 1.0
        for select in selects:
            below = before.operators.get(select.name, OperatorState())
            passed_ts = min(passed_ts, below.progress_ts if any(below.blocks) else END_US)
            selectivity *= plan.chosen.selectivities[select.name]
        return LogInput(
            logs=self._logs,
            source=stream,
            window=self.window(name, number),
            selects=self._attempts.selects(selects),
            predicate_order=self._prepared.predicate_order,
            blocks=blocks,
            fresh=arrival.blocks,
            rows=plan.rows[selects[-1].name] if selects else arrival.rows,
            passed_ts=passed_ts,
            selectivity=selectivity,
        )

    def window(self, name: str, number: int) -> Window | None:
        """The window that tuples of an input enter, if need be without those whose lifetime fails."""
        return self._attempts.window(self._prepared.window(name, number))

    def _queue_input(
        self,
        name: str,
        number: int,
        state: OperatorState,
        arrivals: Mapping[str, Arrival],
        plan: TickPlan,
    ) -> QueueInput:
        operator = self._prepared.operators[name]
        source = self._network.operators[name].inputs[number]
        window = self.window(name, number)
        over_queue, log = self._prepared.over_queue(name, number), None
        if over_queue:
            passed = plan.rows[over_queue[-1].name]
            rows = self.entering(over_queue[0].input, window, arrivals, plan)
            # the window holds more than the selection passes on, but no operator overtakes another
            rows = replace(rows, progress_ts=passed.progress_ts, idle=passed.idle)
        else:
            rows = self.entering(source, window, arrivals, plan)
            if isinstance(operator.windows[number], RowWindow):
                log = self._numbering_log(name, number, state, arrivals)
        return QueueInput(
            store=self._store,
            name=f"queue {name}.{number}",
            schema=operator.inputs[number],
            blocks=state.blocks[number],
            rows=rows,
            log=log,
            selects=self._attempts.selects(over_queue),
        )

    def _numbering_log(
        self, name: str, number: int, state: OperatorState, arrivals: Mapping[str, Arrival]
    ) -> LogInput | None:
        """The log of the stream below a row window, of which only numbers and keys are read.

        A derived stream has none: its queue holds all tuples.
        """
        stream = self._prepared.stream_input(name, number)
        if isinstance(stream, DerivedInput):
            return None
        source = replace(stream, columns=())
        blocks = state.pushing[number] if state.pushing else ()
        arrival, window = arrivals[source.stream], self._prepared.operators[name].windows[number]
        predicate_order = self._prepared.predicate_order
        return LogInput(self._logs, source, window, (), predicate_order, blocks, arrival.blocks, arrival.rows)

    def entering(
        self,
        source: StreamInput | OperatorInput,
        window: Window | None,
        arrivals: Mapping[str, Arrival],
        plan: TickPlan,
    ) -> Rows:
        """What enters a queue: the output of the operator below, or a stream."""
        if isinstance(source, DerivedInput):
            items = log_columns(source, window, self._prepared.is_numbered(source))
            seen = [] if source.since is None else in_range(source.since.us, END_US)
            return plan.rows[source.operator].mapped(lambda tuples: sql.select(items, tuples, seen))
        if not isinstance(source, StreamInput):
            return plan.rows[source.operator]
        arrival = arrivals[source.stream]
        if not arrival.blocks:
            return arrival.rows
        read = LogInput(
            self._logs, source, window, (), self._prepared.predicate_order, (), arrival.blocks, arrival.rows
        )
        return replace(
            arrival.rows, query=read.content(BEGINNING_US, END_US), reader=lambda a, b: read.content(a, b)
        )

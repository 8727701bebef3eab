"""Aggregates over sessions: what is kept of a session that is not over is one row of partial aggregates."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import StructType

from headgate.model.operator import Aggregate
from headgate.model.window import SessionWindow
from headgate.spark import sql
from headgate.spark.blocks import BlockStore
from headgate.spark.operators import aggregate
from headgate.spark.operators.base import Results, Stretch
from headgate.spark.operators.inputs import StoreTask, TickInput
from headgate.spark.operators.windowed import AggregateOperator
from headgate.spark.sql import TS

_FIRST, _LAST, _SESSION, _STARTS = "`$first`", "`$last`", "`$session`", "`$starts`"


class SessionAggregateOperator(AggregateOperator):
    """Emits a group when its session is over: at the end of the gap after its last tuple."""

    def __init__(self, settings: Aggregate, store: BlockStore) -> None:
        super().__init__(settings)
        assert isinstance(settings.window, SessionWindow)
        self._gap_us = settings.window.gap_us
        self._store = store
        self.groups = StructType([])
        """Columns of the sessions that are carried from tick to tick; set when the network is prepared."""

    @property
    def reach_us(self) -> int:  # type: ignore[override]
        """At the end of input, all sessions are over."""
        return self._gap_us + 1

    def results(self, inputs: Sequence[TickInput], stretch: Stretch) -> Results:
        """Sessions that end between the old and the new progress; the others are carried."""
        [one] = inputs
        retained, kept = [one.retain(stretch.new_ts)], stretch.state.groups
        if stretch.new_ts <= stretch.old_ts:
            return Results(None, retained)
        tuples = one.content(stretch.old_ts, stretch.new_ts)
        if tuples is None and not kept:
            return Results(None, retained)
        carried = self._store.view(f"sessions of {self.name}", kept, self.groups) if kept else None
        sessions, new_ts = self.sessions(tuples, carried), sql.Bound(stretch.new_ts)
        is_over = f"{_LAST} + {self._gap_us}L < {new_ts.at(_LAST)}"
        open_rows = 1 + sum(block.rows for block in kept) + one.rows.count
        opened = sql.select(sql.names(self.groups.names), sessions, [f"NOT ({is_over})"])
        store = StoreTask(self.name, None, opened, self.groups, open_rows)
        return Results(self._emitted(sql.select(["*"], sessions, [is_over])), retained, [store], groups=())

    def aggregated(self, tuples: str, old_ts: int, new_ts: int) -> str:
        """Without carried sessions, all of them over."""
        del old_ts, new_ts
        return self._emitted(self.sessions(tuples, None))

    def _emitted(self, sessions: str) -> str:
        values = [f"{text} AS {sql.name(name)}" for name, text in aggregate.final(self.settings, self.types)]
        end = f"{_LAST} + {self._gap_us}L AS {sql.name(TS)}"
        return sql.select([end, *aggregate.group_names(self.settings), *values], sessions)

    def sessions(self, tuples: str | None, carried: str | None) -> str:
        """Sessions by group: first and last timestamp, and partial aggregates."""
        names = [name for name, _ in aggregate.partials(self.settings)]
        groups = aggregate.group_names(self.settings)
        fresh = None
        if tuples is not None:
            own = sql.name(TS)
            source = self._by_session(aggregate.keyed(self.settings, tuples, [TS]), own, own)
            parts = [f"{text} AS {sql.name(name)}" for name, text in aggregate.partials(self.settings)]
            fresh = self._grouped([f"min({own}) AS {_FIRST}", f"max({own}) AS {_LAST}"], parts, source)
        if carried is None:
            assert fresh is not None
            return fresh
        kept = sql.select([_FIRST, _LAST, *groups, *sql.names(names)], carried)
        everything = sql.union([kept, fresh])
        assert everything is not None
        source = self._by_session(everything, _FIRST, _LAST)
        parts = [f"{aggregate.merge(name)} AS {sql.name(name)}" for name in names]
        return self._grouped([f"min({_FIRST}) AS {_FIRST}", f"max({_LAST}) AS {_LAST}"], parts, source)

    def _by_session(self, rows: str, first: str, last: str) -> str:
        """Rows with the number of their session within the group."""
        groups = aggregate.group_names(self.settings)
        by = f"PARTITION BY {', '.join(groups)} " if groups else ""
        over = f"OVER ({by}ORDER BY {first}, {last})"
        follows = f"{first} - lag({last}) {over} < {self._gap_us}L"
        marked = sql.select(["*", f"IF({follows}, 0, 1) AS {_STARTS}"], rows)
        return sql.select(["*", f"sum({_STARTS}) {over} AS {_SESSION}"], marked)

    def _grouped(self, bounds: Sequence[str], parts: Sequence[str], source: str) -> str:
        groups = aggregate.group_names(self.settings)
        by = ", ".join([*groups, _SESSION])
        return f"{sql.select([*bounds, *groups, *parts], source)}\nGROUP BY {by}"

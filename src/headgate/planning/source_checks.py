"""Which windows and joins go together in one FROM, and with what is selected from it."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.cql.syntax import JoinKind, Select, SelectItem, WindowClause
from headgate.errors import QueryError
from headgate.model import joins
from headgate.model.expression import Expression, column_of
from headgate.model.window import (
    HopWindow,
    LandmarkWindow,
    RowWindow,
    SessionWindow,
    SlidingRowWindow,
    TimeWindow,
    UnboundedWindow,
    UntilWindow,
    is_emitted_whole,
)
from headgate.planning.from_items import Source
from headgate.planning.source_columns import SourceColumns

STREAM_JOINS: dict[JoinKind, type[joins.WindowJoin]] = {
    JoinKind.INNER: joins.WindowJoin,
    JoinKind.LEFT: joins.LeftWindowJoin,
    JoinKind.RIGHT: joins.RightWindowJoin,
    JoinKind.FULL: joins.FullWindowJoin,
    JoinKind.SEMI: joins.SemiWindowJoin,
    JoinKind.ANTI: joins.AntiWindowJoin,
}
MOST_JOINED = 14
"""Streams of one join: the optimiser computes rates of all their subsets."""


class SourceChecks(SourceColumns):
    """The sources of one SELECT, if they go together."""

    def _check_streams(self, select: Select) -> None:
        """Reject a FROM without streams, and windows that the join or the select list cannot use."""
        self._check_joins()
        if not self.streams:
            names = ", ".join(item.source.text for item in select.sources)
            message = f"FROM has only stored relations ({names}); join them with a stream"
            raise QueryError(message, select.sources[0].source.span)
        if len(self.streams) > MOST_JOINED:
            message = f"a join of {len(self.streams)} streams has too many orders; join {MOST_JOINED} at most"
            raise QueryError(message, self.streams[MOST_JOINED].item.source.span)
        if len(self.streams) > 1 and (select.is_aggregate or select.ranking is not None):
            self._check_aggregated_join(select)
        for source in self.streams:
            source.check_time([one.name for one in source.schema.columns if self.later_us(source, one) == 0])
            source.check_until(self._catalog.known_functions)
            self._check_until_calls(source)
        for source in self.streams if len(self.streams) > 1 else ():
            self._check_joined_window(source)
        written = self.streams[0].item.window
        is_whole = written is not None and is_emitted_whole(written.window)
        is_shown = select.summarizes_windows or select.emission is not None
        if written and is_whole and len(self.streams) == 1 and not is_shown:
            self._check_window_of_tuples(select, written)

    def _check_window_of_tuples(self, select: Select, written: WindowClause) -> None:
        """Reject a window of tuples by themselves, unless they tell the bounds of theirs."""
        expressions = [item.expression for item in select.items if isinstance(item, SelectItem)]
        for expression in expressions:
            # what is wrong with it goes first: the name of an aggregate function may be misspelt
            self.type_of(expression)
        is_tumbling = isinstance(written.window, HopWindow) and written.window.is_tumbling
        read = [reference for expression in expressions for reference in expression.columns]
        if is_tumbling and any(self.window_bound(reference) is not None for reference in read):
            return
        is_hop = isinstance(written.window, (HopWindow, SessionWindow))
        what = "a window that is emitted as a whole" if is_hop else "SLIDE"
        message = f"{what} has no effect without an aggregate or a join of streams; remove it"
        hint = ", or write SELECT RSTREAM to list its tuples at its end" if is_hop else ""
        raise QueryError(f"{message}{hint}", written.span)

    def _check_until_calls(self, source: Source) -> None:
        """Reject an end of tuples that a pool would have to find."""
        window = source.window
        if not isinstance(window, UntilWindow):
            return
        for function in sorted(window.end.functions):
            if (placed := self._catalog.placed(function)) is not None:
                message = f"{placed[0].name} is placed on pool {placed[1]}, and a window cannot wait for it"
                raise QueryError(f"{message}; make its value a column of a stream", window.end.span)

    def _check_joined_window(self, source: Source) -> None:
        """Reject a stream of a join whose window is shown only now and then."""
        name, window = source.item.source.text, source.item.window
        if window is None:
            # a condition on timestamps may bound it
            return
        own, problem = window.window, ""
        if isinstance(own, SessionWindow):
            problem = f"sessions cannot be joined; write {name} [RANGE 10 SECONDS]"
        elif isinstance(own, HopWindow) and not own.is_tumbling:
            problem = f"a tuple is in several of these windows; write {name} [TUMBLE 10 SECONDS]"
        elif isinstance(own, SlidingRowWindow):
            problem = f"matches are found as tuples arrive; write {name} [ROWS {own.rows}]"
        elif isinstance(own, LandmarkWindow) and not self._is_aggregate:
            problem = f"matches are found as tuples arrive; write {name} [UNBOUNDED]"
        elif isinstance(own, UntilWindow) and own.slide_us:
            problem = f"matches are found as tuples arrive; write {name} [UNTIL {own.end}]"
        if problem:
            raise QueryError(problem, window.span)

    def _check_aggregated_join(self, select: Select) -> None:
        """What is joined is aggregated over a window that all streams have in common."""
        if select.window_key is not None:
            written = " ".join(select.window_key.span.excerpt.split())
            message = f"{written} groups one stream, and FROM joins {len(self.streams)}"
            hint = "write [TUMBLE 10 SECONDS] behind each, or group a subquery, FROM (SELECT ...) AS x"
            raise QueryError(f"{message}; {hint}", select.window_key.span)
        windows = {source.window for source in self.streams if source.item.window is not None}
        whole = all(
            isinstance(w, UnboundedWindow) or (isinstance(w, HopWindow) and w.is_tumbling) for w in windows
        )
        if len(windows) == 1 and whole:
            return
        spans = [*(call.span for call in select.aggregates), *(key.span for key in select.group_by)]
        spans += [] if select.ranking is None else [select.ranking.span]
        what = "an aggregate" if select.is_aggregate else "a ranking"
        message = f"{what} over a join needs the same [TUMBLE 10 SECONDS] or [UNBOUNDED] for all streams"
        hint = "or make the join a stream, CREATE STREAM pairs AS SELECT ..., and aggregate that"
        raise QueryError(f"{message}; {hint}", spans[0])

    def _check_joins(self) -> None:
        """Reject joins that would wait for ever to know that something has no match, and chains of such."""
        for source in self.sources:
            join, name = source.item.join, source.item.source
            if join is JoinKind.INNER:
                continue
            if source in self.streams:
                self._check_outer_join(source)
            elif join in (JoinKind.RIGHT, JoinKind.FULL):
                stream = self.streams[0].alias if self.streams else "a stream"
                message = f"while {stream} goes on, a row of {name.text} may still find its first match"
                raise QueryError(
                    f"{message}, so {source.item.join_words} would never emit it; write LEFT JOIN", name.span
                )

    def _check_outer_join(self, source: Source) -> None:
        """Of two streams: the tuples that are emitted without a match must leave their window by time."""
        join, name, place = source.item.join_words, source.item.source, self.sources.index(source)
        if len(self.streams) == 1:
            stored = self.sources[0].item.source.text
            if source.item.join is JoinKind.RIGHT:
                message = f"{join} reads a stream behind the stored relation {stored}"
            else:
                message = f"{join} begins with the stored relation {stored}"
                message += ", whose rows may find a match later"
            hint = f"begin with the stream, as in FROM {name.text} LEFT JOIN {stored}"
            raise QueryError(f"{message}; {hint}", name.span)
        if len(self.streams) > 2:
            self._check_chain(source)
        relations = [other for other in self.sources[:place] if other not in self.streams]
        if relations and source.item.join in (JoinKind.RIGHT, JoinKind.FULL):
            message = f"{join} would keep tuples of {name.text} past the join with {relations[0].alias}"
            raise QueryError(f"{message}; write {relations[0].alias} after it", name.span)
        if source.item.using and source.item.join in (JoinKind.RIGHT, JoinKind.FULL):
            column = source.item.using[0].text
            message = f"{column} may be NULL on one side of {join}"
            hint = f"write ON {self.streams[0].alias}.{column} = {source.alias}.{column}"
            raise QueryError(f"{message}; {hint}", source.item.using[0].span)
        kind = STREAM_JOINS[source.item.join]
        assert issubclass(kind, joins.OuterWindowJoin)
        for kept in (self.streams[side] for side in kind.preserved):
            if kept.item.window is not None and isinstance(kept.item.window.window, RowWindow):
                message = (
                    f"later tuples decide when one leaves {kept.window}, and {join} must know it by time"
                )
                hint = f"write {kept.item.source.text} [RANGE 10 SECONDS]"
                raise QueryError(f"{message}; {hint}", kept.item.window.span)

    def _check_chain(self, source: Source) -> None:
        """Streams that are joined two by two have windows in which the results of each join lie."""
        windows = {stream.window for stream in self.streams}
        join, name = source.item.join_words, source.item.source
        if len(windows) > 1 or not all(isinstance(one, HopWindow) and one.is_tumbling for one in windows):
            message = f"{join} takes two streams, and FROM has {len(self.streams)}"
            hint = "write the same [TUMBLE 10 SECONDS] behind each, or make two of them a stream"
            raise QueryError(f"{message}; {hint}, CREATE STREAM pairs AS SELECT ...", name.span)
        before = self.streams[1 : self.streams.index(source)]
        is_kept = source.item.join in (JoinKind.RIGHT, JoinKind.FULL)
        if is_kept and any(one.item.join is JoinKind.INNER for one in before):
            message = f"{join} would keep tuples that JOIN before it leaves out"
            hint = "make the first two a stream, CREATE STREAM pairs AS SELECT ..., and join that"
            raise QueryError(f"{message}; {hint}", name.span)

    def _check_condition_of_streams(self, source: Source, on: Sequence[Expression]) -> None:
        """The condition compares the streams that are joined, without what is joined with them afterwards."""
        relations = [other for other in self.sources if other not in self.streams]
        for condition in on:
            for other in relations:
                columns = {column_of(other.alias, column) for column in other.schema.names}
                if columns.intersection(condition.columns):
                    message = (
                        f"ON of {source.item.join_words} compares two streams, and {other.shown} is none"
                    )
                    hint = "compute what it gives in a subquery, FROM (SELECT ...) AS x [RANGE 10 SECONDS]"
                    raise QueryError(f"{message}; {hint}, and compare that", condition.span)

    def _probe_pools(self) -> tuple[str, ...]:
        """The pools of all probes; none, if no probe is placed."""
        names = [source.definition.name for source in self.streams]
        pools = {name: pool for name in names if (pool := self._catalog.pool_of_probe(name)) is not None}
        for source in self.streams if pools else ():
            if source.item.join is not JoinKind.INNER:
                message = f"the probe of {next(iter(pools))} is placed, and {source.item.join_words} is not"
                raise QueryError(f"{message} for placed probes; write JOIN", source.item.source.span)
        for source, name in zip(self.streams, names, strict=True) if pools else ():
            if name not in pools:
                message = f"the probe of {next(iter(pools))} is placed, but that of {name} is not"
                hint = f"also write PLACE PROBE OF {name} ON a pool"
                raise QueryError(f"{message}; {hint}", source.item.source.span)
            if not isinstance(source.window, TimeWindow) or isinstance(source.window, HopWindow):
                message = f"the probe of {name} is placed, and placed probes require time windows"
                raise QueryError(f"{message}; write {name} [RANGE 10 SECONDS]", source.item.source.span)
        return tuple(pools[name] for name in names) if pools else ()

"""Windows behind streams, and those that GROUP BY makes as in Spark.

They are ``[ROWS n SLIDE m]``, ``[RANGE t SLIDE s]``, ``[PARTITION BY k ROWS n]``, ``[NOW]``,
``[UNBOUNDED SLIDE s]``, ``[UNTIL expression SLIDE s]``, and the half-open ``[TUMBLE t]``,
``[HOP t EVERY s]`` and ``[SESSION gap]``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp
from sqlglot.tokens import TokenType

from headgate.cql import syntax
from headgate.cql.expressions import scalar_without_aggregates
from headgate.cql.measure import LARGEST, MeasureError, signed_duration_us
from headgate.cql.syntax import FromItem, Name, RankItem, ScalarExpression, SelectItem, Star
from headgate.cql.tokens import Cursor, Token, never_closed, one_line, span_of
from headgate.errors import QueryError, Span, suggestion
from headgate.model.expression import Expression
from headgate.model.sql_tree import replace_nodes, tree_key
from headgate.model.window import (
    HopWindow,
    LandmarkWindow,
    RowWindow,
    SessionWindow,
    SlidingRowWindow,
    TimeWindow,
    UnboundedWindow,
    UntilWindow,
    Window,
    is_emitted_whole,
)

WINDOWS = (
    "ROWS",
    "RANGE",
    "PARTITION BY",
    "NOW",
    "UNBOUNDED",
    "LANDMARK",
    "UNTIL",
    "TUMBLE",
    "HOP",
    "SESSION",
)
"""The words that windows in brackets begin with."""
# words of other systems
_MEANT = {"LAST": "RANGE", "SLIDING": "RANGE", "TUMBLING": "TUMBLE", "HOPPING": "HOP", "HOPPED": "HOP"}
SPARK_WINDOWS = ("window", "session_window")
"""Functions of Spark that make windows in GROUP BY."""
WINDOW_FUNCTIONS = ("TUMBLE", "HOP", "SESSION", "CUMULATE")
"""Functions of Flink that stand in FROM."""
WINDOW_CALLS = tuple(f"{name}()" for name in SPARK_WINDOWS)
"""The names of windows that SELECT calls them by as GROUP BY does."""


class WindowReader(Cursor):
    """Reads windows."""

    def read_window(self) -> syntax.WindowClause:
        opener = self.take()
        word, first = self.word(), self.current
        if word != "UNTIL":
            self._check_closed(opener)
        if word not in WINDOWS:
            problem = f"{first.shown} is not a window" if first and word != "]" else "the window is empty"
            known = "write ROWS, RANGE, PARTITION BY, UNTIL, TUMBLE, HOP, SESSION, NOW or UNBOUNDED"
            hint = suggestion(_MEANT.get(word, word), WINDOWS, known)
            if first is not None and first.kind is TokenType.NUMBER and self.word(1) == "ROWS":
                hint = f"write [ROWS {first.value}]"
            raise self.fail(f"{problem}; {hint}")
        self.take()
        keys: tuple[syntax.ColumnReference, ...] = ()
        until = None
        if word == "PARTITION BY":
            keys = self.several(self._partition_key)
            if self.at("RANGE"):
                raise self.fail("PARTITION BY requires ROWS; write [PARTITION BY key ROWS 10]")
            self.expect("ROWS", " after the keys of PARTITION BY")
            window: Window = RowWindow(self._row_count())
            if self.at("SLIDE"):
                message = "a window by key shows every change; leave SLIDE out, or write [ROWS 100 SLIDE 10]"
                raise self.fail(message)
        elif word == "UNTIL":
            until = self._until(opener)
            window = UntilWindow(Expression(until.tree, until.span), self._slide_us())
        elif word in ("TUMBLE", "HOP", "SESSION"):
            window = self._half_open(word)
        else:
            window = self._plain(word)
        if self.at("SLIDE"):
            raise self.fail("SLIDE requires RANGE; write [RANGE 10 SECONDS SLIDE 1 SECOND]")
        if self.at("EVERY"):
            raise self.fail("EVERY requires HOP; write [HOP 10 SECONDS EVERY 2 SECONDS]")
        self.expect("]", " at the end of the window")
        return syntax.WindowClause(window, self.since(opener.span), keys, until=until)

    def _check_closed(self, opener: Token) -> None:
        distance = 0
        while (token := self.ahead(distance)) and token.word not in (";", "[", "]"):
            distance += 1
        if token is None or token.word != "]":
            raise never_closed(opener)

    def _plain(self, word: str) -> Window:
        """A window of all times, of an instant, of rows or of a while."""
        if word == "NOW":
            return TimeWindow(0)
        if word in ("UNBOUNDED", "LANDMARK") or self.accept("UNBOUNDED"):
            slide_us = self._slide_us()
            return UnboundedWindow() if slide_us is None else LandmarkWindow(slide_us)
        if word == "ROWS":
            rows = self._row_count()
            return (
                SlidingRowWindow(rows, slide=self._row_count("SLIDE"))
                if self.accept("SLIDE")
                else RowWindow(rows)
            )
        range_us = self._time_us("RANGE", "write [NOW] for the current instant")
        return TimeWindow(range_us, self._slide_us())

    def _half_open(self, word: str) -> Window:
        if word == "TUMBLE":
            length_us = self._time_us("TUMBLE", "write [TUMBLE 10 SECONDS]")
            return HopWindow(length_us, length_us)
        if word == "SESSION":
            return SessionWindow(self._time_us("SESSION", "write [SESSION 10 SECONDS]"))
        length_us = self._time_us("HOP", "write [HOP 10 SECONDS EVERY 2 SECONDS]")
        self.expect("EVERY", " and a time, as in [HOP 10 SECONDS EVERY 2 SECONDS]")
        return HopWindow(length_us, self._time_us("EVERY", "write [HOP 10 SECONDS EVERY 2 SECONDS]"))

    def windowing_call(self) -> tuple[Name, syntax.WindowClause]:
        """The stream and the window of ``TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '10' SECOND)``."""
        first = self.span
        word = self.take().word
        if word == "CUMULATE":
            message = "CUMULATE begins anew after a while, which no window here does"
            raise QueryError(f"{message}; write s [UNBOUNDED SLIDE 1 MINUTE] for totals that go on", first)
        example = f"as in {word}(TABLE s, DESCRIPTOR(ts), INTERVAL '10' SECOND)"
        self.expect("(")
        self.expect("TABLE", f" and a stream, {example}")
        source = self.name(f"a stream after TABLE, {example}")
        if self.accept("PARTITION BY"):
            # groups have sessions of their own anyway
            self.name("a column after PARTITION BY")
            while self.at(",") and self.word(1) != "DESCRIPTOR":
                self.take()
                self.name("a column after PARTITION BY")
        self.expect(",", f" and DESCRIPTOR(ts), {example}")
        self.expect("DESCRIPTOR", f", {example}")
        self.expect("(")
        column = self.name("the timestamp of the stream in DESCRIPTOR")
        self.expect(")", " after the column of DESCRIPTOR")
        self.expect(",", f" and a time, {example}")
        times_us = self.several(lambda: self._time_us(word, example))
        self.expect(")", f" after the times of {word}")
        if len(times_us) != (2 if word == "HOP" else 1):
            wanted = "a step and a length" if word == "HOP" else "one time"
            raise QueryError(f"{word} takes {wanted}; windows begin at multiples of it", self.since(first))
        *_, length_us = times_us
        window = SessionWindow(length_us) if word == "SESSION" else HopWindow(length_us, times_us[0])
        reference = syntax.ColumnReference(None, column.text, column.span)
        return source, syntax.WindowClause(window, self.since(first), descriptor=reference)

    def _until(self, opener: Token) -> ScalarExpression:
        tokens = self.stretch(lambda: self.at("SLIDE"))
        if self.at_end:
            raise never_closed(opener)
        if not tokens:
            raise self.expected("when a tuple leaves, such as UNTIL expires")
        return scalar_without_aggregates(tokens, "UNTIL")

    def _slide_us(self) -> int | None:
        if not self.accept("SLIDE"):
            return None
        return self._time_us("SLIDE", "leave SLIDE out to see every change")

    def _row_count(self, word: str = "ROWS") -> int:
        tokens = self.stretch(lambda: self.at("SLIDE"))[:2]
        if not tokens:
            raise self.expected(f"a number of rows, such as {word} 100")
        # "- 5" is two tokens; underline both
        span = span_of(tokens) if tokens[0].word == "-" else tokens[0].span
        written = span.excerpt
        if not (written.isascii() and written.isdigit()):
            message = f"{word} takes a whole number of 1 or more, not {one_line(written)}; write {word} 100"
            raise QueryError(message, span)
        if len(tokens) > 1:
            raise QueryError(f"expected ']' after {word} {written}, found {tokens[1].shown}", tokens[1].span)
        if len(written) > len(str(LARGEST)) or int(written) > LARGEST:
            raise QueryError(f"the window is too large; write at most ROWS {LARGEST}, or UNBOUNDED", span)
        if int(written) == 0:
            what = "ROWS 0 keeps no tuple" if word == "ROWS" else "SLIDE 0 does not move"
            raise QueryError(f"{what}; write {word} 1 or more", span)
        return int(written)

    def _time_us(self, word: str, instead: str, stops: Callable[[], bool] | None = None) -> int:
        tokens = self.stretch(stops or (lambda: self.at("SLIDE") or self.at("EVERY")))
        if not tokens:
            raise self.expected(f"a time, such as {word} 10 SECONDS")
        span, text = span_of(tokens), ""
        for token in tokens:
            # comments are blanked out, and every character stays at its offset
            text = text.ljust(token.span.start - span.start) + token.span.excerpt
        try:
            duration_us = signed_duration_us(text, write=f"{word} ")
        except MeasureError as error:
            wrong = Span(span.text, span.start + error.start, span.start + error.end, span.origin)
            raise QueryError(str(error), wrong if wrong.excerpt else span) from None
        if duration_us <= 0:
            raise QueryError(f"the time after {word} must be longer than 0; {instead}", span)
        return duration_us

    def _partition_key(self) -> syntax.ColumnReference:
        if self.at("ROWS"):
            raise self.expected("a column after PARTITION BY")
        first = self.name("a column after PARTITION BY")
        if not self.accept("."):
            return syntax.ColumnReference(None, first.text, first.span)
        column = self.name("a column after the dot")
        return syntax.ColumnReference(first.text, column.text, self.since(first.span))


def shown_every(
    sources: tuple[FromItem, ...], every_us: int | None, emission: syntax.EmissionClause, every: Span
) -> tuple[FromItem, ...]:
    """The sources of RSTREAM, with windows that are shown as a whole at multiples of a time."""
    windowed = [source for source in sources if source.window is not None]
    if not windowed:
        name = one_line(sources[0].source.text)
        raise QueryError(f"RSTREAM shows a window; write {name} [RANGE 10 SECONDS]", emission.span)
    if every_us is None:
        if not all(source.window and is_emitted_whole(source.window.window) for source in windowed):
            message = "RSTREAM needs to know when; write EVERY 10 SECONDS at the end of the SELECT"
            raise QueryError(message, emission.span)
        return sources
    return tuple(_sliding(source, every_us, every) for source in sources)


def _sliding(source: FromItem, every_us: int, every: Span) -> FromItem:
    clause = source.window
    if clause is None:
        return source
    window = clause.window
    if is_emitted_whole(window):
        raise QueryError("the window has steps of its own; leave EVERY out", every)
    if isinstance(window, UnboundedWindow):
        return replace(source, window=replace(clause, window=LandmarkWindow(every_us)))
    if isinstance(window, (TimeWindow, UntilWindow)) and window != TimeWindow(0):
        return replace(source, window=replace(clause, window=replace(window, slide_us=every_us)))
    message = f"EVERY goes with windows of time; write {one_line(source.source.text)} [RANGE 10 SECONDS]"
    raise QueryError(message, every)


def meant_windows(
    keys: tuple[ScalarExpression, ...], items: Sequence[SelectItem | RankItem | Star]
) -> tuple[ScalarExpression, ...]:
    """The keys of GROUP BY; the name or number of a select item that makes a window stands for its call."""
    named: dict[str, ScalarExpression] = {}
    for number, item in enumerate(items, 1):
        if isinstance(item, SelectItem) and _made_windows((item.expression,)):
            named[str(number)] = item.expression
            if item.alias is not None:
                named[item.alias.text.lower()] = item.expression
    return tuple(named.get(key.text.lower().strip("`"), key) for key in keys)


def with_windows_of_keys(
    sources: tuple[FromItem, ...], keys: tuple[ScalarExpression, ...]
) -> tuple[tuple[FromItem, ...], tuple[ScalarExpression, ...]]:
    """``GROUP BY window(ts, '10 seconds')``, as Spark writes it, for ``[TUMBLE 10 SECONDS]`` in FROM."""
    made = _made_windows(keys)
    if not made:
        return sources, keys
    clause = _window_of_key(made[0])
    if len(made) > 1 or any(source.window is not None for source in sources):
        raise QueryError("a stream has one window; leave this one out", made[-1].span)
    assert clause.time is not None
    named = [
        n for n, s in enumerate(sources) if s.alias.text.lower() == (clause.time.qualifier or "").lower()
    ]
    place = named[0] if named else 0
    windowed = tuple(replace(s, window=clause) if n == place else s for n, s in enumerate(sources))
    return windowed, tuple(key for key in keys if key is not made[0])


def _made_windows(keys: tuple[ScalarExpression, ...]) -> list[ScalarExpression]:
    return [
        key for key in keys if key.tree.name.lower() in SPARK_WINDOWS and isinstance(key.tree, exp.Anonymous)
    ]


def naming_window(expression: ScalarExpression, keys: tuple[ScalarExpression, ...]) -> ScalarExpression:
    """The expression, in which a call that makes a window in GROUP BY, too, is a name of that window."""
    wanted = {tree_key(key.tree) for key in _made_windows(keys)}
    calls = [one for one in expression.tree.find_all(exp.Anonymous) if wanted and tree_key(one) in wanted]
    if not calls:
        return expression
    arguments = {column.parts[0].meta.get("start") for call in calls for column in call.find_all(exp.Column)}
    references = [one for one in expression.columns if one.span.start not in arguments]
    names: dict[int, exp.Expr] = {}
    for call in calls:
        start, end = call.meta["start"], call.meta["end"]
        name = exp.to_identifier(f"{call.name.lower()}()", quoted=True)
        name.meta.update(start=start, end=end)
        names[start] = exp.Column(this=name)
        references.append(
            syntax.ColumnReference(None, name.name, replace(expression.span, start=start, end=end + 1))
        )
    tree = replace_nodes(
        expression.tree,
        lambda node: names.get(node.meta.get("start", -1)) if isinstance(node, exp.Anonymous) else None,
    )
    columns = tuple(sorted(references, key=lambda one: one.span.start))
    return replace(expression, tree=tree, columns=columns)


def _window_of_key(key: ScalarExpression) -> syntax.WindowClause:
    name, arguments = key.tree.name.lower(), key.tree.expressions
    most = 3 if name == "window" else 2
    lengths = [one for one in arguments[1:] if one.is_string or _is_interval(one)]
    if name == "window" and len(lengths) == 3 == len(arguments) - 1:
        message = "windows begin at multiples of their step, counted from 1970; leave the fourth argument out"
        raise QueryError(message, key.span)
    if not 2 <= len(arguments) <= most or len(lengths) != len(arguments) - 1 or not key.columns:
        example = "window(ts, '10 seconds', '2 seconds')" if name == "window" else f"{name}(ts, '10 seconds')"
        raise QueryError(f"{name} takes a timestamp column and times; write {example}", key.span)
    try:
        times_us = [signed_duration_us(one.name.strip("'\"").replace("'", ""), write="") for one in lengths]
    except MeasureError as error:
        raise QueryError(str(error), key.span) from None
    if min(times_us) <= 0:
        raise QueryError("the times of a window must be longer than 0", key.span)
    window: Window = HopWindow(times_us[0], times_us[-1]) if name == "window" else SessionWindow(times_us[0])
    return syntax.WindowClause(window, key.span, time=key.columns[0])


def _is_interval(tree: exp.Expr) -> bool:
    return isinstance(tree, exp.Var) and tree.name.upper().startswith("INTERVAL ")

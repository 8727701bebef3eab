"""Windows: ``[ROWS n]``, ``[RANGE t SLIDE s]``, ``[PARTITION BY k ROWS n]``, ``[NOW]``, ``[UNBOUNDED]``."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches

from headgate.cql.duration import signed_duration_us
from headgate.cql.measure import LARGEST, MeasureError
from headgate.cql.statement import ColumnReference, Now, PartitionedRows, Range, Rows, Unbounded, Window
from headgate.cql.tokens import Cursor, Token, cover, never_closed, span_of
from headgate.cql.wording import one_line
from headgate.errors import QueryError, Span


def parse_window(cursor: Cursor) -> Window:
    """Read a window; the cursor stands at its opening bracket."""
    opener = cursor.expect("[")
    _check_closed(cursor, opener)
    read = _WINDOWS.get(cursor.word())
    if read is None:
        raise _unknown_window(cursor)
    cursor.take()
    # the span must cover the brackets, the last of which is still to come
    return read(cursor, opener.span)


def _close(cursor: Cursor, opener: Span) -> Span:
    if cursor.at("SLIDE"):
        raise cursor.fail("SLIDE goes with RANGE only; write [RANGE 10 SECONDS SLIDE 1 SECOND]")
    cursor.expect("]", " at the end of the window")
    return cursor.since(opener)


def _check_closed(cursor: Cursor, opener: Token) -> None:
    distance = 0
    while (token := cursor.ahead(distance)) and token.word not in (";", "[", "]"):
        distance += 1
    if token is None or token.word != "]":
        raise never_closed(opener)


def _unknown_window(cursor: Cursor) -> QueryError:
    token = cursor.current
    problem = f"{token.shown} is no window" if token and token.word != "]" else "the window is empty"
    close = get_close_matches(cursor.word(), list(_WINDOWS), n=1)
    hint = f"did you mean {close[0]}?" if close else "write ROWS, RANGE, PARTITION BY, NOW or UNBOUNDED"
    return cursor.fail(f"{problem}; {hint}")


def _rows(cursor: Cursor, opener: Span) -> Window:
    if cursor.accept("UNBOUNDED"):
        return Unbounded(_close(cursor, opener))
    rows = _row_count(cursor)
    return Rows(rows, _close(cursor, opener))


def _row_count(cursor: Cursor) -> int:
    tokens = cursor.stretch(lambda place: place.at("SLIDE"))[:2]
    if not tokens:
        raise cursor.expected("a number of rows, such as ROWS 100")
    # "- 5" is two tokens, and both are wrong
    span = span_of(tokens) if tokens[0].word == "-" else tokens[0].span
    written = span.excerpt
    if not (written.isascii() and written.isdigit()):
        message = f"ROWS takes a whole number of 1 or more, not {one_line(written)}; write ROWS 100"
        raise QueryError(message, span)
    if len(tokens) > 1:
        raise QueryError(f"expected ']' after ROWS {written}, found {tokens[1].shown}", tokens[1].span)
    if len(written) > len(str(LARGEST)) or int(written) > LARGEST:
        raise QueryError(f"no window holds so many tuples; write at most ROWS {LARGEST}, or UNBOUNDED", span)
    if int(written) == 0:
        raise QueryError("ROWS 0 keeps no tuple; write ROWS 1 or more", span)
    return int(written)


def _range(cursor: Cursor, opener: Span) -> Window:
    if cursor.accept("UNBOUNDED"):
        return Unbounded(_close(cursor, opener))
    range_us = _time(cursor, "RANGE", "a RANGE must be longer than 0; write [NOW] for this instant alone")
    slide_us = None
    if cursor.accept("SLIDE"):
        slide_us = _time(
            cursor, "SLIDE", "a SLIDE must be longer than 0; leave SLIDE out to see every change"
        )
    return Range(range_us, slide_us, _close(cursor, opener))


def _time(cursor: Cursor, word: str, too_short: str) -> int:
    tokens = cursor.stretch(lambda place: place.at("SLIDE"))
    if not tokens:
        raise cursor.expected(f"a time, such as {word} 10 SECONDS")
    span = span_of(tokens)
    try:
        duration_us = signed_duration_us(_without_comments(tokens), write=f"{word} ")
    except MeasureError as error:
        wrong = Span(span.text, span.start + error.start, span.start + error.end, span.origin)
        raise QueryError(str(error), wrong if wrong.excerpt else span) from None
    if duration_us <= 0:
        raise QueryError(too_short, span)
    return duration_us


def _without_comments(tokens: list[Token]) -> str:
    """The text of the tokens with blanks between, every character in its place."""
    text, end = "", tokens[0].span.start
    for token in tokens:
        text += " " * (token.span.start - end) + token.span.excerpt
        end = token.span.end
    return text


def _partition(cursor: Cursor, opener: Span) -> Window:
    keys = [_key(cursor)]
    while cursor.accept(","):
        keys.append(_key(cursor))
    if cursor.at("RANGE"):
        raise cursor.fail("PARTITION BY goes with ROWS only; write [PARTITION BY key ROWS 10]")
    cursor.expect("ROWS", " after the keys of PARTITION BY")
    rows = _row_count(cursor)
    return PartitionedRows(tuple(keys), rows, _close(cursor, opener))


def _key(cursor: Cursor) -> ColumnReference:
    if cursor.at("ROWS"):
        raise cursor.expected("a column after PARTITION BY")
    first = cursor.name("a column after PARTITION BY")
    if not cursor.accept("."):
        return ColumnReference(None, first.text, first.span)
    second = cursor.name("a column after the dot")
    return ColumnReference(first.text, second.text, cover(first.span, second.span))


def _now(cursor: Cursor, opener: Span) -> Window:
    return Now(_close(cursor, opener))


def _unbounded(cursor: Cursor, opener: Span) -> Window:
    return Unbounded(_close(cursor, opener))


_WINDOWS: dict[str, Callable[[Cursor, Span], Window]] = {
    "ROWS": _rows,
    "RANGE": _range,
    "PARTITION BY": _partition,
    "NOW": _now,
    "UNBOUNDED": _unbounded,
}

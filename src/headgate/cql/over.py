"""What to write instead of ``f(x) OVER (...)``: a window behind the stream, from the clauses inside."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.cql.tokens import Token, one_line, outside_brackets, partners, span_of

_RANKS = ("ROW_NUMBER", "RANK", "DENSE_RANK")
_NEIGHBOURS = ("LAG", "LEAD")


def instead_of_over(tokens: Sequence[Token], over: int) -> str:
    """The message for the OVER at an index of the tokens of an expression."""
    called = _called(tokens, over)
    key, frame = _clauses(tokens, over)
    if called in _RANKS:
        return f"a rank is a select item of its own; write {called}() OVER (...) AS place, limited by QUALIFY"
    if called in _NEIGHBOURS:
        window = f"[PARTITION BY {key or 'key'} ROWS 2]"
        return f"{called} is not supported; write FROM s {window} AS a, s [NOW] AS b to see the tuple before"
    window = f"[PARTITION BY {key} {frame}]" if key and frame.startswith("ROWS") else f"[{frame}]"
    grouped = f" and GROUP BY {key}" if key else ""
    return f"OVER (...) is not supported; write FROM s {window}{grouped}: each tuple gives the new value"


def _called(tokens: Sequence[Token], over: int) -> str:
    opener = next((first for first, last in partners(tokens).items() if last == over - 1), 0)
    return tokens[opener - 1].value.upper() if opener else ""


def _clauses(tokens: Sequence[Token], over: int) -> tuple[str, str]:
    """The key of PARTITION BY, and the frame as a window would have it."""
    if over + 1 >= len(tokens) or tokens[over + 1].word != "(":
        return "", "ROWS 100"
    inside = tokens[over + 2 : partners(tokens)[over + 1]]
    words = [inside[i].word for i in outside_brackets(inside)] if inside else []
    key, frame = "", "UNBOUNDED"
    if words[:1] == ["PARTITION BY"]:
        end = next((i for i, word in enumerate(words) if word in ("ORDER BY", "ROWS", "RANGE")), len(inside))
        key = one_line(span_of(inside[1:end]).excerpt) if end > 1 else ""
    for kind in ("ROWS", "RANGE"):
        if kind in words:
            stop = words.index("PRECEDING") if "PRECEDING" in words else len(words)
            start = words.index(kind) + 1
            length = [one for one in inside[start:stop] if one.word not in ("BETWEEN", "INTERVAL")]
            frame = _frame(kind, " ".join(token.value for token in length))
    return key, frame


def _frame(kind: str, length: str) -> str:
    if not length or length.upper() == "UNBOUNDED":
        return "UNBOUNDED"
    # the current row is one of the window's
    return f"ROWS {int(length) + 1}" if kind == "ROWS" and length.isdigit() else f"{kind} {length}"

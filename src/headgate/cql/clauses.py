"""Where clauses of a SELECT begin, and which of them CQL does not have."""

from __future__ import annotations

from headgate.cql.tokens import Cursor

_OUTER_KINDS = ("LEFT", "RIGHT", "FULL", "SEMI", "ANTI", "NATURAL")
_SET_OPERATORS = ("EXCEPT", "INTERSECT", "MINUS")

_ALWAYS = frozenset(
    {"WHERE", "GROUP BY", "HAVING", "UNION", "INTO", "JOIN", "ON"}
    | {"ORDER BY", "SORT BY", "CLUSTER BY", "DISTRIBUTE BY", "QUALIFY"}
)

# words that are names or functions too, LEFT(s, 2) for one, unless one of these follows
_WHEN_FOLLOWED_BY = (
    dict.fromkeys(_OUTER_KINDS, ("JOIN", "OUTER", "INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"))
    | dict.fromkeys(_SET_OPERATORS, ("SELECT", "ALL", "DISTINCT"))
    | {"INNER": ("JOIN",), "CROSS": ("JOIN",), "LATERAL": ("VIEW",)}
)

_NO_ORDER = "is not supported: results never end, so they have no order; sort where they are read"
_NO_SET = "is not supported; write conditions in WHERE, or UNION ALL"
_NO_OUTER = "JOIN is not supported: a row could find its partner later; write JOIN ... ON"

_UNSUPPORTED = (
    dict.fromkeys(["ORDER BY", "SORT BY", "CLUSTER BY", "DISTRIBUTE BY"], _NO_ORDER)
    | dict.fromkeys(_OUTER_KINDS, _NO_OUTER)
    | dict.fromkeys(_SET_OPERATORS, _NO_SET)
    | {
        "CROSS": "JOIN is not supported; write a comma between the streams",
        "LIMIT": "is not supported: results never end; bound the window instead, as in [ROWS 100]",
        "OFFSET": "is not supported: results never end; leave it out",
        "QUALIFY": "is not supported; give the stream a window in FROM and filter in HAVING",
        "LATERAL": "VIEW is not supported; select from streams and relations only",
    }
)


def at_clause(cursor: Cursor) -> bool:
    """Whether an expression ends here because a clause begins."""
    word = cursor.word()
    if cursor.word(-1) == ".":
        return False
    if word == "FROM":
        return not (cursor.word(-1) == "DISTINCT" and cursor.word(-2) in ("IS", "NOT"))
    if word in ("LIMIT", "OFFSET"):
        follower = cursor.ahead(1)
        return follower is not None and (follower.word == "ALL" or follower.value.isdigit())
    return word in _ALWAYS or cursor.word(1) in _WHEN_FOLLOWED_BY.get(word, ())


def refuse_clause(cursor: Cursor) -> None:
    """Fail if a clause begins here that CQL does not have."""
    if at_clause(cursor) and cursor.word() in _UNSUPPORTED:
        raise cursor.fail(f"{cursor.word()} {_UNSUPPORTED[cursor.word()]}")

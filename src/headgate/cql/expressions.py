"""Scalar expressions and the aggregate calls inside of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp
from sqlglot.tokens import TokenType

from headgate.cql.brackets import outside_brackets, partners
from headgate.cql.spark_sql import column_references, parse_tree
from headgate.cql.statement import AggregateCall, ScalarExpression
from headgate.cql.tokens import Token, span_of
from headgate.errors import QueryError

SUPPORTED_AGGREGATES = "COUNT, SUM, AVG, MIN, MAX"

_FUNCTIONS = {"COUNT": "COUNT", "SUM": "SUM", "AVG": "AVG", "MEAN": "AVG", "MIN": "MIN", "MAX": "MAX"}

# what Spark has and sqlglot does not call an aggregate
_MORE_AGGREGATES = (
    "ANY APPROX_PERCENTILE BIT_AND BIT_OR BIT_XOR COLLECT_LIST COLLECT_SET COUNT_MIN_SKETCH EVERY "
    "HISTOGRAM_NUMERIC HLL_SKETCH_AGG HLL_UNION_AGG LISTAGG PERCENTILE PERCENTILE_APPROX SOME STD STRING_AGG "
    "TRY_AVG TRY_SUM"
)

_SQLGLOT_AGGREGATES = [cls for cls in exp.ALL_FUNCTIONS if issubclass(cls, exp.AggFunc)]
_UNSUPPORTED_AGGREGATES = (
    frozenset(_MORE_AGGREGATES.split()).union(*(cls.sql_names() for cls in _SQLGLOT_AGGREGATES))
    - _FUNCTIONS.keys()
)

_PARAMETERS = frozenset({TokenType.PARAMETER, TokenType.PLACEHOLDER, TokenType.L_BRACE})

# after these a star is no multiplication
_BEFORE_OPERANDS = frozenset(["(", "[", ",", ".", "DISTINCT"])


def scalar(tokens: Sequence[Token]) -> ScalarExpression:
    """Understand the tokens, of which there is at least one, as one expression."""
    _refuse_unsupported(tokens)
    span = span_of(tokens)
    columns = column_references(parse_tree(tokens), span)
    return ScalarExpression(span.excerpt, span, columns, tuple(_aggregates(tokens)))


def scalar_without_aggregates(tokens: Sequence[Token], clause: str) -> ScalarExpression:
    """An expression of a clause that comes before aggregation."""
    expression = scalar(tokens)
    if expression.aggregates:
        call = expression.aggregates[0]
        hint = "group by columns" if clause == "GROUP BY" else "write the condition in HAVING"
        message = f"{call.function} is an aggregate, which {clause} cannot use; {hint}"
        raise QueryError(message, call.span)
    return expression


def _refuse_unsupported(tokens: Sequence[Token]) -> None:
    for index, token in enumerate(tokens):
        before = tokens[index - 1].word if index else "("
        after = tokens[index + 1].word if index + 1 < len(tokens) else ""
        if token.kind in _PARAMETERS:
            raise QueryError(f"{token.shown} does not fit here; write values, not parameters", token.span)
        if token.word == "*" and before in _BEFORE_OPERANDS and not _counts_rows(tokens, index):
            raise QueryError("'*' goes into SELECT * and COUNT(*) only; name the columns", token.span)
        if token.word == "SELECT" and before != ".":
            raise QueryError("a subquery is not supported; join its stream in FROM", token.span)
        if before == "." and index > 1:
            _refuse_after_dot(tokens[index - 2], token)
        if before == ")":
            _refuse_after_call(token, after)


def _counts_rows(tokens: Sequence[Token], star: int) -> bool:
    around = [token.word or token.value.upper() for token in tokens[max(0, star - 2) : star + 2]]
    return around == ["COUNT", "(", "*", ")"]


def _refuse_after_dot(owner: Token, token: Token) -> None:
    named = token.kind is TokenType.IDENTIFIER or token.word[:1].isalpha() or token.word[:1] in ("_", "*")
    # .5 is a number, but not behind what a dot can follow
    if not named and (owner.is_name or owner.word in (")", "]") or token.kind is not TokenType.NUMBER):
        raise QueryError(f"expected a name after the dot, found {token.shown}", token.span)


def _refuse_after_call(token: Token, after: str) -> None:
    if token.word == "OVER":
        message = (
            "OVER (...) is not supported; give the stream a window in FROM, as in s [ROWS 100], and aggregate"
        )
        raise QueryError(message, token.span)
    if token.word == "FILTER" and after == "(":
        message = "FILTER (WHERE ...) is not supported; aggregate CASE WHEN condition THEN value END"
        raise QueryError(message, token.span)
    if token.word == "WITHIN":
        raise QueryError(f"WITHIN GROUP is not supported; aggregates are {SUPPORTED_AGGREGATES}", token.span)


def _aggregates(tokens: Sequence[Token]) -> Iterator[AggregateCall]:
    pairs = partners(tokens)
    index = 0
    while index < len(tokens):
        if not _is_aggregate(tokens, index):
            index += 1
            continue
        close = pairs[index + 1]
        yield _aggregate(tokens[index], tokens[index + 2 : close], tokens[close])
        index = close + 1


def _is_aggregate(tokens: Sequence[Token], index: int) -> bool:
    before = tokens[index - 1].word if index else ""
    called = index + 1 < len(tokens) and tokens[index + 1].word == "("
    # a LIKE ANY (b, c) is a comparison, s.count(...) no function of Spark
    if not called or before in (".", "LIKE", "ILIKE"):
        return False
    name = _function_name(tokens[index])
    if name in _UNSUPPORTED_AGGREGATES:
        message = f"{name} is not supported; the aggregates are {SUPPORTED_AGGREGATES}"
        raise QueryError(message, tokens[index].span)
    return name in _FUNCTIONS


def _function_name(token: Token) -> str:
    return token.value.upper() if token.kind is TokenType.IDENTIFIER else token.word


def _aggregate(name: Token, inside: Sequence[Token], close: Token) -> AggregateCall:
    function = _FUNCTIONS[_function_name(name)]
    span = span_of([name, close])
    distinct = bool(inside) and inside[0].word == "DISTINCT"
    if distinct and function != "COUNT":
        message = f"{function}(DISTINCT ...) is not supported, only COUNT takes it; write {function}(x)"
        raise QueryError(message, inside[0].span)
    if len(inside) == 1 and inside[0].word == "*":
        return AggregateCall(function, None, False, span)
    argument = inside[1:] if inside and inside[0].word in ("DISTINCT", "ALL") else inside
    return AggregateCall(function, _argument(function, argument, close), distinct, span)


def _argument(function: str, tokens: Sequence[Token], close: Token) -> ScalarExpression:
    if not tokens:
        hint = "COUNT(*)" if function == "COUNT" else f"{function}(x)"
        raise QueryError(f"{function} needs an argument; write {hint}", close.span)
    comma = next((tokens[index] for index in outside_brackets(tokens) if tokens[index].word == ","), None)
    if comma:
        hint = ", or struct(x, y) for its argument" if function == "COUNT" else ""
        raise QueryError(f"{function} takes one argument; write {function}(x){hint}", comma.span)
    argument = scalar(tokens)
    if argument.aggregates:
        inner = argument.aggregates[0]
        message = f"{inner.function} inside of {function}: aggregates do not nest; aggregate in two queries"
        raise QueryError(message, inner.span)
    return argument

"""Scalar expressions in CQL: parsed by sqlglot, with their columns, aggregates and conjuncts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import pairwise

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.tokens import TokenType

from headgate.cql.over import instead_of_over
from headgate.cql.syntax import AggregateCall, ColumnReference, RankItem, ScalarExpression, SelectItem, Star
from headgate.cql.tokens import Token, one_line, outside_brackets, partners, span_of
from headgate.errors import QueryError, Span
from headgate.model.sql_tree import read_tree

AGGREGATES = frozenset(
    (
        "COUNT",
        "SUM",
        "AVG",
        "MEAN",
        "MIN",
        "MAX",
        "COUNT_IF",
        "BOOL_AND",
        "EVERY",
        "BOOL_OR",
        "MAX_BY",
        "MIN_BY",
        "FIRST",
        "FIRST_VALUE",
        "LAST",
        "LAST_VALUE",
        "ANY_VALUE",
        "COLLECT_LIST",
        "ARRAY_AGG",
        "COLLECT_SET",
        "LISTAGG",
        "STRING_AGG",
        "MODE",
        "MEDIAN",
        "PERCENTILE",
        "PERCENTILE_APPROX",
        "APPROX_PERCENTILE",
        "APPROX_COUNT_DISTINCT",
        "STD",
        "STDDEV",
        "STDDEV_POP",
        "STDDEV_SAMP",
        "VARIANCE",
        "VAR_POP",
        "VAR_SAMP",
        "SKEWNESS",
        "KURTOSIS",
        "CORR",
        "COVAR_POP",
        "COVAR_SAMP",
        "REGR_AVGX",
        "REGR_AVGY",
        "REGR_COUNT",
        "REGR_INTERCEPT",
        "REGR_R2",
        "REGR_SLOPE",
        "REGR_SXX",
        "REGR_SXY",
        "REGR_SYY",
        "BIT_AND",
        "BIT_OR",
        "BIT_XOR",
        "TRY_SUM",
        "TRY_AVG",
        "HLL_SKETCH_AGG",
        "HLL_UNION_AGG",
        "THETA_SKETCH_AGG",
        "THETA_UNION_AGG",
        "BITMAP_CONSTRUCT_AGG",
        "BITMAP_OR_AGG",
        "BITMAP_AND_AGG",
        "COUNT_MIN_SKETCH",
    )
)
"""Spark's aggregate functions, but for those whose results depend on the order of rows."""

GROUPING_CALLS = ("grouping", "grouping_id")
"""Functions that tell the groupings of ROLLUP and the like apart."""

# aggregates that sqlglot reads as quantifiers of comparisons, and what is the same
_QUANTIFIERS = {"ANY": "bool_or", "SOME": "bool_or"}

_PARAMETERS = frozenset({TokenType.PARAMETER, TokenType.PLACEHOLDER, TokenType.L_BRACE})

_WITHOUT_AGGREGATES = {
    "GROUP BY": "group by columns",
    "UNTIL": "write columns of the tuple itself",
    "a column": "write other columns of the tuple",
}

# after these, a star is not a multiplication
_BEFORE_OPERANDS = frozenset(["(", "[", ",", ".", "DISTINCT"])

_NO_WITHIN = "WITHIN GROUP is not supported; write percentile(x, 0.5), or sort_array(collect_list(x))"


def scalar(tokens: Sequence[Token]) -> ScalarExpression:
    _refuse_unsupported(tokens)
    span = span_of(tokens)
    tree = parse_tree(tokens)
    return ScalarExpression(span.excerpt, span, tree, _columns(tree, span), tuple(_aggregates(tokens)))


def scalar_without_aggregates(tokens: Sequence[Token], clause: str) -> ScalarExpression:
    """Parse an expression of a clause that is evaluated before aggregation."""
    expression = scalar(tokens)
    for call in expression.aggregates:
        hint = _WITHOUT_AGGREGATES.get(clause, "write the condition in HAVING")
        message = f"{call.function} is an aggregate, which {clause} cannot use; {hint}"
        raise QueryError(message, call.span)
    _refuse_grouping_calls(expression, clause)
    return expression


def grouping_calls(expression: ScalarExpression) -> Iterator[str]:
    """The names of the functions that it calls to tell groupings apart."""
    calls = expression.tree.find_all(exp.Anonymous)
    yield from (call.name.upper() for call in calls if call.name.lower() in GROUPING_CALLS)


def _refuse_grouping_calls(expression: ScalarExpression, clause: str) -> None:
    for name in grouping_calls(expression):
        message = f"{name} is known of groups, and {clause} is evaluated for each tuple"
        raise QueryError(f"{message}; use it in SELECT or HAVING", expression.span)


def _refuse_unsupported(tokens: Sequence[Token]) -> None:
    openers = {last: first for first, last in partners(tokens).items()}
    for index, token in enumerate(tokens):
        before = tokens[index - 1].word if index else "("
        if token.kind in _PARAMETERS:
            raise QueryError(f"{token.shown} is not supported here; write values, not parameters", token.span)
        around = [_name(token) for token in tokens[max(0, index - 2) : index + 2]]
        if token.word == "*" and before in _BEFORE_OPERANDS and around != ["COUNT", "(", "*", ")"]:
            raise QueryError("'*' is allowed only in SELECT * and COUNT(*); name the columns", token.span)
        if token.word == "SELECT" and before != ".":
            message = "IN (SELECT ...) and EXISTS (SELECT ...) are terms of WHERE on their own"
            raise QueryError(f"{message}; elsewhere, join the source in FROM", token.span)
        if token.word == "&&":
            raise QueryError("&& is not an operator of SQL; write AND", token.span)
        if before == "." and index > 1:
            _refuse_after_dot(tokens[index - 2], token)
        if before == ")" and token.word == "OVER":
            raise QueryError(instead_of_over(tokens, index), token.span)
        if before == ")" and token.word == "WITHIN":
            raise QueryError(_NO_WITHIN, token.span)
        if [one.word for one in tokens[max(0, index - 1) : index + 2]] == [")", "FILTER", "("]:
            _refuse_filtered_scalar(tokens, openers[index - 1], index)


def _refuse_filtered_scalar(tokens: Sequence[Token], opener: int, index: int) -> None:
    """Reject FILTER behind what is no aggregate."""
    called = tokens[max(0, opener - 1)]
    if not called.is_aggregate and _name(called) not in (*AGGREGATES, *_QUANTIFIERS):
        first = opener - 1 if opener and called.is_name else opener
        what = one_line(span_of(tokens[first:index]).excerpt)
        hint = f"write CASE WHEN condition THEN {what} END"
        raise QueryError(f"FILTER goes with aggregates, and {what} is none; {hint}", tokens[index].span)


def _name(token: Token) -> str:
    return token.word or token.value.upper()


def _refuse_after_dot(owner: Token, token: Token) -> None:
    named = token.kind is TokenType.IDENTIFIER or token.word[:1].isalpha() or token.word[:1] in ("_", "*")
    # .5 is a number, but not after something that a dot can follow
    if not named and (owner.is_name or owner.word in (")", "]") or token.kind is not TokenType.NUMBER):
        raise QueryError(f"expected a name after the dot, found {token.shown}", token.span)


def _aggregates(tokens: Sequence[Token]) -> Iterator[AggregateCall]:
    end, pairs = 0, partners(tokens)
    for opener in sorted(pairs):
        before = tokens[opener - 2].word if opener > 1 else ""
        # a LIKE ANY (b, c) is a comparison, and s.count(...) is not a function of Spark
        if opener <= end or tokens[opener].word != "(" or before in (".", "LIKE", "ILIKE"):
            continue
        called = tokens[opener - 1]
        if _name(called) in _QUANTIFIERS:
            hint = f"write {_QUANTIFIERS[_name(called)]}(condition)"
            raise QueryError(f"{_name(called)} is not supported as an aggregate; {hint}", called.span)
        if called.is_aggregate or _name(called) in AGGREGATES:
            call, end = _aggregate(tokens, opener, pairs)
            yield call


def _aggregate(tokens: Sequence[Token], opener: int, pairs: Mapping[int, int]) -> tuple[AggregateCall, int]:
    """A call, and the place of its last token."""
    close = pairs[opener]
    name, inside = tokens[opener - 1], tokens[opener + 1 : close]
    function, first = _name(name), inside[0].word if inside else ""
    condition, end = _filter(tokens, close, pairs, function)
    span = span_of([name, tokens[end]])
    if first == "*" and len(inside) == 1:
        return AggregateCall(function, (), False, span, condition), end
    given = inside[1:] if first in ("DISTINCT", "ALL") else inside
    if not given:
        hint = "COUNT(*)" if function == "COUNT" else f"{function}(x)"
        raise QueryError(f"{function} needs an argument; write {hint}", tokens[close].span)
    commas = [index for index in outside_brackets(given) if given[index].word == ","]
    parts = [given[before + 1 : after] for before, after in pairwise([-1, *commas, len(given)])]
    for part, comma in zip(parts, [*commas, *commas[-1:]], strict=False):
        if not part:
            raise QueryError(f"{function} has an empty argument; remove the comma", given[comma].span)
    arguments = tuple(_inside_aggregate(part, function) for part in parts)
    return AggregateCall(function, arguments, first == "DISTINCT", span, condition), end


def _filter(
    tokens: Sequence[Token], close: int, pairs: Mapping[int, int], function: str
) -> tuple[ScalarExpression | None, int]:
    """The condition of FILTER (WHERE ...) after a call, and the place where the call ends."""
    words = [token.word for token in tokens[close + 1 : close + 4]]
    if words[:2] != ["FILTER", "("]:
        return None, close
    end = pairs[close + 2]
    inside = tokens[close + 4 : end]
    if words[2:] != ["WHERE"] or not inside:
        raise QueryError("expected FILTER (WHERE condition)", tokens[close + 1].span)
    return _inside_aggregate(inside, function), end


def _inside_aggregate(tokens: Sequence[Token], function: str) -> ScalarExpression:
    argument = scalar(tokens)
    for inner in argument.aggregates:
        message = f"{inner.function} inside {function}: aggregates cannot be nested"
        raise QueryError(f"{message}; aggregate a derived stream or a subquery", inner.span)
    _refuse_grouping_calls(argument, function)
    return argument


def item_at(
    position: ScalarExpression, items: Sequence[SelectItem | RankItem | Star], clause: str
) -> ScalarExpression:
    """The select item that ``GROUP BY 2`` or ``ORDER BY 2`` means."""
    number = Decimal(position.text)
    if not 1 <= number <= len(items):
        message = f"{clause} {one_line(position.text)}: the select list has items 1 to {len(items)}"
        raise QueryError(message, position.span)
    item = items[int(number) - 1]
    if not isinstance(item, SelectItem):
        what = "a *; name the column" if isinstance(item, Star) else "a rank; leave it out"
        raise QueryError(f"{clause} {number} is {what}", position.span)
    return item.expression


def conjuncts(tokens: Sequence[Token], clause: str) -> list[ScalarExpression]:
    return [scalar_without_aggregates(term, clause) for term in terms_of(tokens)]


def terms_of(tokens: Sequence[Token]) -> list[Sequence[Token]]:
    """A condition, split at AND."""
    terms: list[Sequence[Token]] = []
    pending = [tokens]
    while pending:
        term = pending.pop()
        # without the parentheses around it
        pairs, first, last = partners(term), 0, len(term) - 1
        while last - first > 1 and pairs.get(first) == last:
            first, last = first + 1, last - 1
        parts = _cut_at_and(term[first : last + 1])
        if len(parts) == 1:
            terms.append(term)
        else:
            pending.extend(reversed(parts))
    return terms


def _cut_at_and(tokens: Sequence[Token]) -> list[Sequence[Token]]:
    ands, betweens = [-1], 0
    for index in outside_brackets(tokens):
        word = tokens[index].word
        # OR binds less tightly than AND; a comma or an arrow makes it a list or a lambda
        if word in ("OR", ",", "->"):
            return [tokens]
        if word == "AND" and not betweens:
            ands.append(index)
        betweens += (word == "BETWEEN") - (word == "AND" and betweens > 0)
    parts = [tokens[before + 1 : after] for before, after in pairwise([*ands, len(tokens)])]
    for part, conjunction in zip(parts, [*ands[1:], ands[-1]], strict=True):
        if not part:
            raise QueryError("AND needs a condition on both sides; add it", tokens[conjunction].span)
    return parts


def parse_tree(tokens: Sequence[Token], allow_alias: bool = False) -> exp.Expr:
    """Parse an expression; a trailing alias gives an ``exp.Alias``, where it is allowed."""
    kind = exp.Expr if allow_alias else exp.Condition
    try:
        tree = read_tree(kind, (part for token in tokens for part in token.parts), tokens[0].span.text)
    except ParseError as error:
        raise _unreadable(tokens, error) from None
    except RecursionError:
        raise QueryError("the expression is nested too deeply; split it", span_of(tokens)) from None
    except Exception:
        # sqlglot fails on some malformed texts; for the user that is one more malformed text
        tree = None
    if tree is None:
        raise _unreadable(tokens)
    if tree.find(exp.Placeholder, exp.Parameter):
        marks = [token for token in tokens if token.word == ":"] or tokens
        raise QueryError("parameters are not supported; write the value", marks[0].span)
    return tree


def _columns(tree: exp.Expr, whole: Span) -> tuple[ColumnReference, ...]:
    """The columns of the tree in text order, every occurrence once."""
    found: dict[int, ColumnReference] = {}
    for column in tree.find_all(exp.Column):
        parts = column.parts
        if isinstance(parts[-1], exp.Star):
            continue
        if not all(isinstance(part, exp.Identifier) and "start" in part.meta for part in parts):
            raise QueryError("this names no column; check the dots", whole)
        # in a.b.c, a and b name the column; c is a field, which Spark resolves
        first, last = parts[0], parts[min(1, len(parts) - 1)]
        span = Span(whole.text, first.meta["start"], last.meta["end"] + 1, whole.origin)
        qualifier = first.name if len(parts) > 1 else None
        found[span.start] = ColumnReference(qualifier, last.name, span)
    return tuple(found[start] for start in sorted(found))


def _unreadable(tokens: Sequence[Token], error: ParseError | None = None) -> QueryError:
    details = error.errors[0] if error and error.errors else {}
    position = (details.get("line"), details.get("col"))
    token = next((t for t in tokens if (t.parts[-1].line, t.parts[-1].col) == position), None)
    if token is None:
        message = "this is not a Spark SQL expression; check its operators and brackets"
        return QueryError(message, span_of(tokens))
    if str(details.get("description")).startswith("Required keyword"):
        return QueryError(f"an operand is missing next to {token.shown}; add it", token.span)
    message = f"{token.shown} is unexpected here; check the operators and commas before it"
    return QueryError(message, token.span)

"""The border to sqlglot: scalar expressions of Spark SQL, checked, and their column references.

sqlglot knows many functions of many databases and rewrites their arguments, which can lose columns
(``date_trunc(unit, t)``) or refuse functions that users registered themselves. So it is told about
no function but those whose arguments have a syntax of their own; all others are plain calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp
from sqlglot.dialects import Spark
from sqlglot.errors import ParseError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokens import TokenType

from headgate.cql.statement import ColumnReference
from headgate.cql.tokens import Token, span_of
from headgate.errors import QueryError, Span

# the first argument of these is a unit, DATEADD(HOUR, 1, t), and no column
_WITH_UNITS = ("DATEADD", "DATE_ADD", "DATEDIFF", "DATE_DIFF", "TIMESTAMPADD", "TIMESTAMPDIFF")

# words among the arguments: CAST(a AS INT), TRIM(BOTH a FROM b), ...
_WITH_WORDS = ("CAST", "EXTRACT", "OVERLAY", "POSITION", "SUBSTR", "SUBSTRING", "TRIM", "TRY_CAST")

# functions that Spark calls without parentheses, which sqlglot takes for columns
_BARE_FUNCTIONS = frozenset({"localtimestamp", "current_time", "current_database", "current_catalog"})


class _ScalarParser(SparkParser):
    FUNCTIONS = {name: SparkParser.FUNCTIONS[name] for name in _WITH_UNITS}  # noqa: RUF012
    FUNCTION_PARSERS = {name: SparkParser.FUNCTION_PARSERS[name] for name in _WITH_WORDS}  # noqa: RUF012
    NO_PAREN_FUNCTION_PARSERS = {  # noqa: RUF012
        name: SparkParser.NO_PAREN_FUNCTION_PARSERS[name] for name in ("ANY", "CASE")
    }
    # Spark has no arrow but that of lambdas
    COLUMN_OPERATORS = {  # noqa: RUF012
        kind: SparkParser.COLUMN_OPERATORS[kind] for kind in (TokenType.DOT, TokenType.DCOLON)
    }


def parse_tree(tokens: Sequence[Token], allow_alias: bool = False) -> exp.Expr:
    """Parse an expression; a trailing alias gives an ``exp.Alias``, where it is allowed."""
    raw = [part for token in tokens for part in token.parts]
    kind = exp.Expr if allow_alias else exp.Condition
    try:
        tree = _ScalarParser(dialect=Spark()).parse_into(kind, raw, tokens[0].span.text)[0]
    except ParseError as error:
        raise _unreadable(tokens, error) from None
    except RecursionError:
        raise QueryError("the expression is nested too deeply; split it", span_of(tokens)) from None
    except Exception:
        # sqlglot stumbles over some malformed texts; to the user that is one more malformed text
        tree = None
    if tree is None:
        raise _not_an_expression(tokens)
    if tree.find(exp.Placeholder, exp.Parameter):
        marks = [token for token in tokens if token.word == ":"] or tokens
        raise QueryError("parameters are not supported; write the value", marks[0].span)
    return tree


def alias_offset(tree: exp.Expr) -> int | None:
    """Where the alias of a parsed select item begins, if it has one."""
    if not isinstance(tree, exp.Alias):
        return None
    start = tree.args["alias"].meta.get("start")
    return start if isinstance(start, int) else None


def column_references(tree: exp.Expr, whole: Span) -> tuple[ColumnReference, ...]:
    """All columns of the tree in text order, every place once."""
    references = {reference.span.start: reference for reference in _references(tree, whole)}
    return tuple(references[start] for start in sorted(references))


def _references(tree: exp.Expr, whole: Span) -> Iterator[ColumnReference]:
    for column in tree.find_all(exp.Column):
        parts = column.parts
        if isinstance(parts[-1], exp.Star) or _is_lambda_variable(column) or _is_bare_function(column):
            continue
        if not all(isinstance(part, exp.Identifier) and "start" in part.meta for part in parts):
            raise QueryError("this names no column; check the dots", whole)
        # of a.b.c, a and b name the column; c is a field, which is Spark's business
        first, last = parts[0], parts[min(1, len(parts) - 1)]
        span = Span(whole.text, first.meta["start"], last.meta["end"] + 1, whole.origin)
        yield ColumnReference(first.name if len(parts) > 1 else None, last.name, span)


def _is_lambda_variable(column: exp.Column) -> bool:
    # sqlglot compares variables by case, Spark does not
    name = column.parts[0].name.lower()
    scope = column.find_ancestor(exp.Lambda)
    while scope is not None:
        if any(variable.name.lower() == name for variable in scope.expressions):
            return True
        scope = scope.find_ancestor(exp.Lambda)
    return False


def _is_bare_function(column: exp.Column) -> bool:
    identifier = column.this
    return len(column.parts) == 1 and not identifier.quoted and identifier.name.lower() in _BARE_FUNCTIONS


def _unreadable(tokens: Sequence[Token], error: ParseError) -> QueryError:
    details = error.errors[0] if error.errors else {}
    place = (details.get("line"), details.get("col"))
    token = next((t for t in tokens if (t.parts[-1].line, t.parts[-1].col) == place), None)
    if token is None:
        return _not_an_expression(tokens)
    if str(details.get("description")).startswith("Required keyword"):
        return QueryError(f"an operand is missing beside {token.shown}; add it", token.span)
    return QueryError(
        f"{token.shown} does not fit here; check the operators and commas before it", token.span
    )


def _not_an_expression(tokens: Sequence[Token]) -> QueryError:
    return QueryError("this is no Spark SQL expression; check its operators and brackets", span_of(tokens))

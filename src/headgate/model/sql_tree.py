"""Trees of Spark SQL expressions: read by sqlglot, changed by copying, written as text.

sqlglot knows many functions of many databases and rewrites their arguments, which can lose columns
(``date_trunc(unit, t)``) or refuse functions that users have registered. The parser here therefore knows
only those functions whose arguments have a syntax of their own; all others are plain calls. Literals are kept
as they were written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from itertools import groupby
from typing import Any

from sqlglot import exp
from sqlglot.dialects import Spark
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokens import Token, TokenType

# the first argument of these is a unit, DATEADD(HOUR, 1, t), and no column
_WITH_UNITS = ("DATEADD", "DATE_ADD", "DATEDIFF", "DATE_DIFF", "TIMESTAMPADD", "TIMESTAMPDIFF")
# words among the arguments: CAST(a AS INT), TRIM(BOTH a FROM b), ...
_WITH_WORDS = ("CAST", "EXTRACT", "OVERLAY", "POSITION", "SUBSTR", "SUBSTRING", "TRIM", "TRY_CAST")
_STRINGS = (TokenType.STRING, TokenType.RAW_STRING, TokenType.HEX_STRING)
_INTERVAL_VALUES = (TokenType.STRING, TokenType.NUMBER)
_DATES_AND_TIMES = [
    exp.DType[name] for name in ("DATE", "TIME", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ")
]
# from the loosest binding to the tightest
_BITWISE = (
    (TokenType.PIPE, exp.BitwiseOr),
    (TokenType.CARET, exp.BitwiseXor),
    (TokenType.AMP, exp.BitwiseAnd),
)
_SHIFTS = ((TokenType.LT, exp.BitwiseLeftShift), (TokenType.GT, exp.BitwiseRightShift))
# functions that Spark calls without parentheses, which sqlglot takes for columns
_BARE_FUNCTIONS = frozenset({"localtimestamp", "current_time", "current_database", "current_catalog"})
# what a terminal would obey, or a reader take for the end of a line; behind a backslash it stands for itself
_CONTROL = re.compile(r"\\(?P<escaped>.)|(?P<plain>[\x00-\x1f\x7f-\x9f\u2028\u2029])", re.DOTALL)
_NAMED_CONTROLS = {"\n": r"\n", "\t": r"\t", "\r": r"\r"}


def _typed(parser: Any, this: exp.Expr, kind: exp.DataType) -> Any:
    """``DATE '2026-01-31'``; what stands behind, as in ``DATE '2026-01-31'::STRING``, applies to the date."""
    del parser
    literal = next(node for node in this.walk() if isinstance(node, exp.Literal))
    date = exp.Introducer(this=kind, expression=literal.copy())
    if literal is this:
        return date
    literal.replace(date)
    return this


class _Parser(SparkParser):
    FUNCTIONS = {name: SparkParser.FUNCTIONS[name] for name in _WITH_UNITS}  # noqa: RUF012
    FUNCTION_PARSERS = {name: SparkParser.FUNCTION_PARSERS[name] for name in _WITH_WORDS}  # noqa: RUF012
    NO_PAREN_FUNCTION_PARSERS = {  # noqa: RUF012
        name: SparkParser.NO_PAREN_FUNCTION_PARSERS[name] for name in ("ANY", "CASE")
    }
    # Spark has no arrow but that of lambdas
    COLUMN_OPERATORS = {  # noqa: RUF012
        kind: SparkParser.COLUMN_OPERATORS[kind] for kind in (TokenType.DOT, TokenType.DCOLON)
    }
    # array(a, b)[0] is an element, not another way to write an array
    ARRAY_CONSTRUCTORS = {}  # noqa: RUF012
    # to Spark, all comparisons bind alike
    EQUALITY = {**SparkParser.EQUALITY, **SparkParser.COMPARISON}  # noqa: RUF012
    COMPARISON = {}  # noqa: RUF012
    TERM = {**SparkParser.TERM, TokenType.DPIPE: exp.DPipe}  # noqa: RUF012
    TYPE_LITERAL_PARSERS = dict.fromkeys(_DATES_AND_TIMES, _typed)

    def _parse_bitwise(self, level: int = 0) -> exp.Expr | None:
        if level == len(_BITWISE):
            return self._parse_shift()
        kind, operator = _BITWISE[level]
        this = self._parse_bitwise(level + 1)
        while self._match(kind):
            this = self.expression(operator(this=this, expression=self._parse_bitwise(level + 1)))
        return this

    def _parse_shift(self) -> exp.Expr | None:
        this = self._parse_term()
        while operator := next((o for kind, o in _SHIFTS if self._match_pair(kind, kind)), None):
            this = self.expression(operator(this=this, expression=self._parse_term()))
        return this

    def _parse_interval(  # type: ignore[override]
        self, require_interval: bool = True, parse_function_unit: bool = True
    ) -> exp.Var | None:
        """``INTERVAL 1 DAY 2 HOURS`` is one constant; without a value behind it, INTERVAL is a name."""
        start = self._index
        if not self._match(TokenType.INTERVAL):
            return None
        words: list[str] = []
        sign = "-" if self._match(TokenType.DASH) else ""
        while (
            self._curr
            and self._curr.token_type in _INTERVAL_VALUES
            and (not words or self._is_unit(self._next))
        ):
            words.append(sign + self._curr.text)
            sign = ""
            self._advance()
            if self._is_unit(self._curr):
                words.append(self._curr.text.upper())
                self._advance()
                if self._match_text_seq("TO"):
                    words += ["TO", self._curr.text.upper()]
                    self._advance()
        if not words:
            self._retreat(start)
            return None
        return exp.Var(this=f"INTERVAL {' '.join(words)}")

    def _is_unit(self, token: Token | None) -> bool:
        return token is not None and token.text.upper() in self.dialect.VALID_INTERVAL_UNITS


class _Generator(SparkGenerator):
    TRANSFORMS = {  # noqa: RUF012
        **SparkGenerator.TRANSFORMS,
        exp.AtTimeZone: lambda self, node: f"{self.sql(node, 'this')} AT TIME ZONE {self.sql(node, 'zone')}",
        exp.BitwiseLeftShift: lambda self, node: self.binary(node, "<<"),
        exp.BitwiseRightShift: lambda self, node: self.binary(node, ">>"),
        exp.NullSafeEQ: lambda self, node: self.binary(node, "<=>"),
    }

    def literal_sql(self, expression: exp.Literal) -> str:
        # read as written
        return str(expression.this)

    def not_sql(self, expression: exp.Not) -> str:
        """``a NOT IN (b)`` and the like; as sqlglot writes them, NOT stands in front."""
        this = expression.this
        if isinstance(this, exp.Is):
            return f"{self.sql(this, 'this')} IS NOT {self.sql(this, 'expression')}"
        is_symmetric = isinstance(this, exp.Between) and this.args.get("symmetric")
        # BETWEEN SYMMETRIC is written as two, in parentheses
        if isinstance(this, (exp.In, exp.Between, exp.RegexpLike)) and not is_symmetric:
            operand = self.sql(this, "this")
            return f"{operand} NOT{self.sql(this).removeprefix(operand)}"
        return str(super().not_sql(expression))


class _KeyGenerator(_Generator):
    """Writes expressions that differ only in case and quotes in the same way."""

    def literal_sql(self, expression: exp.Literal) -> str:
        return str(expression.this if expression.is_string else expression.this.lower())

    def identifier_sql(self, expression: exp.Identifier) -> str:
        return quote(expression.name.lower())

    def anonymous_sql(self, expression: exp.Anonymous) -> str:
        return str(self.func(expression.name.upper(), *expression.expressions, normalize=False))


def read_tree(kind: type[exp.Expr], tokens: Iterable[Token], sql: str) -> exp.Expr | None:
    """Parse tokens of a text; raises what sqlglot raises."""
    tree: exp.Expr | None
    [tree] = _Parser(dialect=Spark()).parse_into(kind, _literals_whole(tokens, sql), sql)
    return None if tree is None else replace_nodes(tree, _named_otherwise)


def _named_otherwise(node: exp.Expr) -> exp.Expr | None:
    """What sqlglot takes for a column: a variable of a lambda, or a function without parentheses."""
    if not isinstance(node, exp.Column):
        return None
    first, *fields = node.parts
    name = first.name.lower()
    if not fields and not first.args.get("quoted") and name in _BARE_FUNCTIONS:
        return exp.Var(this=first.name)
    scope = node.find_ancestor(exp.Lambda)
    while scope is not None:
        # sqlglot compares variables by case, Spark does not
        if any(variable.name.lower() == name for variable in scope.expressions):
            return field_of(first, fields)
        scope = scope.find_ancestor(exp.Lambda)
    return None


def _literals_whole(tokens: Iterable[Token], sql: str) -> list[Token]:
    """The tokens with every literal in one piece, as it was written."""
    whole: list[Token] = []
    # 10L arrives as three tokens in one place, of which the first spans all
    for token in (next(group) for _, group in groupby(tokens, key=lambda token: token.start)):
        written, start = sql[token.start : token.end + 1], token.start
        if token.token_type in _STRINGS:
            written = _printable(written)
            if whole and whole[-1].token_type is TokenType.STRING:
                # 'it''s' arrives as two strings in a row
                before = whole.pop()
                gap = " " if before.end + 1 < token.start else ""
                written, start = f"{before.text}{gap}{written}", before.start
            token = Token(TokenType.STRING, written, token.line, token.col, start, token.end)
        elif token.token_type is TokenType.NUMBER:
            token = Token(TokenType.NUMBER, written, token.line, token.col, start, token.end)
        whole.append(token)
    return whole


def _printable(literal: str) -> str:
    """The same string, without a character that would break a line."""
    if literal.isprintable():
        return literal
    if literal[0] in "rR":
        literal = literal[1] + literal[2:].replace("\\", r"\\")
    return _CONTROL.sub(_escaped_control, literal)


def _escaped_control(match: re.Match[str]) -> str:
    character = match["plain"] or match["escaped"]
    if not _CONTROL.fullmatch(character):
        return match[0]
    return _NAMED_CONTROLS.get(character, f"\\u{ord(character):04x}")


def quote(name: str) -> str:
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


def column_tree(name: str) -> exp.Column:
    return exp.Column(this=exp.Identifier(this=name, quoted=True))


def field_of(tree: exp.Expr, fields: Sequence[exp.Expr]) -> exp.Expr:
    return reduce(lambda whole, part: exp.Dot(this=whole, expression=part.copy()), fields, tree.copy())


def operand(tree: exp.Expr) -> exp.Expr:
    """The tree so that it can replace a column: in parentheses unless it is a name, a literal or a call."""
    is_closed = isinstance(tree, (exp.Column, exp.Literal, exp.Paren, exp.Anonymous, exp.Cast))
    return tree if is_closed else exp.Paren(this=tree)


def replace_nodes(tree: exp.Expr, change: Callable[[exp.Expr], exp.Expr | None]) -> exp.Expr:
    """A copy with nodes replaced by copies, from the top down, for which ``change`` has another tree."""
    # a root cannot be replaced, but what stands below it can
    root = exp.Paren(this=tree.copy())
    waiting = [root.this]
    while waiting:
        node = waiting.pop()
        other = change(node)
        if other is None:
            waiting.extend(node.iter_expressions())
        else:
            node.replace(other.copy())
    found: exp.Expr = root.this
    found.pop()
    return found


def write_tree(tree: exp.Expr) -> str:
    return _written(_Generator, tree)


def tree_key(tree: exp.Expr) -> str:
    """Equal for trees that differ only in case and quotes."""
    return _written(_KeyGenerator, tree)


def _written(generator: type[_Generator], tree: exp.Expr) -> str:
    return str(generator(dialect=Spark(), comments=False, normalize_functions=False).generate(tree))

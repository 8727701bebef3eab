"""Checks of expressions by the functions that they call and by their types, without Spark.

Whatever is not known here is accepted, and checked by Spark before the first tick.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from sqlglot import exp
from sqlglot.dialects import Spark

from headgate.errors import QueryError, Span, suggestion
from headgate.planning import functions
from headgate.planning.functions import CallResult, SparkFunction
from headgate.planning.types import UNKNOWN, Type, kind_name

_NUMBERS = "yhilfdm"
_NUMBER = re.compile(r"(?P<digits>\d*\.?\d*)(?P<exponent>e[+-]?\d+)?(?P<suffix>[a-z]*)", re.IGNORECASE)
_SUFFIXES = {"l": "l", "s": "h", "y": "y", "d": "d", "f": "f", "bd": "m"}
_SYMBOLS: Mapping[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "DIV",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
    exp.DPipe: "||",
    exp.EQ: "=",
    exp.NEQ: "=",
    exp.LT: "<",
    exp.LTE: "<",
    exp.GT: "<",
    exp.GTE: "<",
    exp.NullSafeEQ: "<=>",
    exp.Like: "LIKE",
    exp.ILike: "ILIKE",
    exp.RegexpLike: "RLIKE",
    exp.And: "AND",
    exp.Or: "OR",
}
_COMPARISONS = ("=", "<", "<=>")


# functions of other stream systems, and what is written here
_WRITTEN_ELSEWHERE = {
    **dict.fromkeys(
        ("tumble", "tumble_start", "tumble_end"),
        "write FROM s [TUMBLE 10 SECONDS], and window_start or window_end in SELECT",
    ),
    **dict.fromkeys(
        ("hop", "hop_start", "hop_end"),
        "write FROM s [HOP 10 SECONDS EVERY 2 SECONDS], and window_end in SELECT",
    ),
    **dict.fromkeys(("session_start", "session_end"), "write FROM s [SESSION 10 SECONDS], and window_end"),
    "proctime": "write the stream's timestamp column",
    "current_watermark": "tuples behind the watermark of their stream are dead letters already",
    "to_timestamp_ltz": "write timestamp_millis(x) or timestamp_seconds(x)",
    "json_value": "write get_json_object(text, '$.a')",
    "json_query": "write get_json_object(text, '$.a')",
    "extractjsonfield": "write get_json_object(text, '$.a')",
    "latest_by_offset": "write last(x)",
    "earliest_by_offset": "write first(x)",
    **dict.fromkeys(("topk", "topkdistinct"), "write slice(sort_array(collect_list(x), false), 1, 3)"),
    **dict.fromkeys(("timestamptostring", "datetostring"), "write date_format(t, 'yyyy-MM-dd')"),
    **dict.fromkeys(("stringtotimestamp", "parse_timestamp"), "write to_timestamp(text, 'yyyy-MM-dd')"),
    "split_index": "write split(text, '/')[3]",
}


@dataclass(frozen=True)
class SessionFunctions:
    """What a Spark session knows of functions beyond the catalogue."""

    has: Callable[[str], bool] = lambda name: False
    """Whether it has a function of this name, perhaps one that its user has registered."""
    has_ansi_types: bool = True
    """Whether it is as strict about types as the catalogue; without ANSI mode it is not."""


@dataclass(frozen=True)
class Functions:
    """The functions that expressions may call besides Spark's own, with what they return."""

    registered: Mapping[str, Type]
    """By name in lower case."""
    session: SessionFunctions = SessionFunctions()


def check_field(what: str, kind: Type, name: str, span: Span | None) -> None:
    """Reject a field that a struct does not have, as far as its fields are known."""
    if kind.fields and name.lower() not in {field.lower() for field in kind.fields}:
        raise QueryError(f"{what} has no field {name}; fields: {', '.join(kind.fields)}", span)


@dataclass(frozen=True)
class TypeCheck:
    """Types of one expression; ``columns`` are those of its columns, by their offsets in the text."""

    functions: Functions
    columns: Mapping[int, Type]
    whole: Span | None
    is_in_place: bool = True
    """Whether names in the tree have offsets in the text of ``whole``."""

    def condition(self, tree: exp.Expr) -> None:
        """Check a condition as a whole: it must be true or false."""
        found = self.type_of(tree)
        if found.kind not in (None, "b") and self.functions.session.has_ansi_types:
            written = " ".join(self.whole.excerpt.split()) if self.whole else tree.sql(dialect=Spark)
            example = f"{written} > 0" if found.kind in _NUMBERS else f"{written} = ..."
            problem = f"{written} is {found}, not a condition"
            raise QueryError(f"{problem}; write a comparison, such as {example}", self.whole)

    def type_of(self, tree: exp.Expr) -> Type:
        """The type of a tree; a QueryError at the first part that Spark would not accept."""
        if isinstance(tree, (exp.And, exp.Or)):
            # a long chain would be a deep recursion
            for operand in tree.flatten():
                operator, own = functions.spark_operator(_SYMBOLS[type(tree)]), self.type_of(operand)
                self._apply(operand, operator, [own, UNKNOWN])
            return Type("b")
        if type(tree) in _SYMBOLS:
            return self._binary(tree)
        for kinds, find in _BY_CLASS.items():
            if isinstance(tree, kinds):
                return find(self, tree)
        self._types(tree.iter_expressions())
        return UNKNOWN

    def _types(self, trees: Iterable[exp.Expr]) -> list[Type]:
        return [self.type_of(tree) for tree in trees]

    def _place(self, *trees: exp.Expr) -> Span | None:
        """The stretch of text from the first name in some trees to the last one."""
        metas = [node.meta for tree in trees for node in tree.walk() if "start" in node.meta]
        if self.whole is None or not metas or not self.is_in_place:
            return self.whole
        start, end = min(meta["start"] for meta in metas), max(meta["end"] for meta in metas) + 1
        return Span(self.whole.text, start, end, self.whole.origin)

    def _name_place(self, call: exp.Expr) -> Span | None:
        if self.whole is None or "start" not in call.meta or not self.is_in_place:
            return self.whole
        return Span(self.whole.text, call.meta["start"], call.meta["end"] + 1, self.whole.origin)

    def _apply(self, tree: exp.Expr, function: SparkFunction, types: Sequence[Type]) -> Type:
        """The type of what an operator gives."""
        found = function.outcome([one.kind for one in types])
        if found.refused is None or not self.functions.session.has_ansi_types:
            return Type(found.kind)
        symbol, known = function.name, [str(one) for one in types if one.kind is not None]
        if symbol in _COMPARISONS:
            message = f"{' and '.join(known)} cannot be compared; compare values of one type"
        elif symbol in ("AND", "OR", "NOT"):
            message = f"{symbol} takes conditions, not {known[0]}; write a comparison"
        else:
            message = f"{symbol} cannot be applied to {' and '.join(known)}; cast one of them"
        raise QueryError(message, self._place(tree))

    def _binary(self, tree: exp.Expr) -> Type:
        # of a long sum, every operator is the left operand of the next
        chain = [tree]
        while type(chain[-1].this) in _SYMBOLS and not isinstance(chain[-1].this, (exp.And, exp.Or)):
            chain.append(chain[-1].this)
        found = self.type_of(chain[-1].this)
        for one in reversed(chain):
            operator = functions.spark_operator(_SYMBOLS[type(one)])
            found = self._apply(one, operator, [found, self.type_of(one.expression)])
        return found

    def _column(self, tree: exp.Expr) -> Type:
        assert isinstance(tree, exp.Column)
        first, *_ = tree.parts
        found = self.columns.get(first.meta.get("start", -1), UNKNOWN)
        before = ".".join(part.name for part in tree.parts[:2])
        for part in tree.parts[2:]:
            check_field(before, found, part.name, self._place(tree))
            found, before = found.field(part.name), f"{before}.{part.name}"
        return found

    def _literal(self, tree: exp.Expr) -> Type:
        if tree.is_string:
            return Type("x" if tree.name[:1] in "xX" else "s")
        match = _NUMBER.fullmatch(tree.name)
        if match is None:
            return UNKNOWN
        if match["suffix"]:
            return Type(_SUFFIXES.get(match["suffix"].lower()))
        if match["exponent"]:
            return Type("d")
        if "." in match["digits"]:
            return Type("m")
        # of any length, unlike int
        number = Decimal(match["digits"])
        return Type("i" if number < 2**31 else "l" if number < 2**63 else "m")

    def _unary(self, tree: exp.Expr) -> Type:
        symbol = "NOT" if isinstance(tree, exp.Not) else "-" if isinstance(tree, exp.Neg) else "~"
        return self._apply(tree, functions.spark_operator(symbol), self._types([tree.this]))

    def _cast(self, tree: exp.Expr) -> Type:
        own, to = self.type_of(tree.this), Type.of(tree.args["to"])
        if to.kind is None:
            return to
        found = functions.cast(own.kind, to.kind)
        # TRY_CAST takes what CAST refuses in some cases
        if found.refused is not None and self.functions.session.has_ansi_types and not tree.args.get("safe"):
            raise QueryError(f"{own} cannot be cast to {to}", self._place(tree))
        return to

    def _membership(self, tree: exp.Expr) -> Type:
        """``a IN (b, c)`` and ``a BETWEEN b AND c``."""
        own = self.type_of(tree.this)
        others = [tree.args.get(key) for key in ("low", "high")] + list(tree.expressions)
        for other in (one for one in others if isinstance(one, exp.Expr)):
            self._apply(other, functions.spark_operator("="), [own, self.type_of(other)])
        return Type("b")

    def _comparison_with_null(self, tree: exp.Expr) -> Type:
        self._types(tree.iter_expressions())
        return Type("b")

    def _case(self, tree: exp.Expr) -> Type:
        operand = None if tree.this is None else self.type_of(tree.this)
        branches = []
        for branch in tree.args["ifs"]:
            condition = self.type_of(branch.this)
            if operand is None:
                self._apply(branch.this, functions.spark_operator("AND"), [condition, UNKNOWN])
            else:
                self._apply(branch.this, functions.spark_operator("="), [operand, condition])
            branches.append(self.type_of(branch.args["true"]))
        if (default := tree.args.get("default")) is not None:
            branches.append(self.type_of(default))
        kinds = {branch.kind for branch in branches}
        return branches[0] if len(kinds) == 1 else UNKNOWN

    def _word(self, tree: exp.Expr) -> Type:
        """An interval, or a function that is called without parentheses."""
        if tree.name.upper().startswith("INTERVAL "):
            return Type("Y" if re.search("YEAR|MONTH", tree.name.upper()) else "V")
        self._refuse(tree.name, tree, 0)
        return UNKNOWN

    def _special(self, tree: exp.Expr) -> Type:
        """A function whose arguments have a syntax of their own, or that has none."""
        assert isinstance(tree, exp.Func)
        self._refuse(tree.sql_name(), tree, len(self._types(tree.iter_expressions())))
        return UNKNOWN

    def _refuse(self, name: str, tree: exp.Expr, arguments: int) -> None:
        called = functions.spark_function(name)
        objection = None if called is None else called.objection(arguments)
        if objection is not None:
            raise QueryError(f"{name.lower()} {objection}", self._name_place(tree))

    def _call(self, tree: exp.Expr) -> Type:
        name, arguments = tree.name, list(tree.expressions)
        # after a dot it is a method or a function of another schema, which Spark resolves
        if isinstance(tree.parent, exp.Dot) and tree.parent.expression is tree:
            self._types(arguments)
            return UNKNOWN
        registered = self.functions.registered.get(name.lower())
        called = functions.spark_function(name)
        if registered is not None or called is None:
            self._types(arguments)
            if registered is None and not self.functions.session.has(name):
                raise self._unknown(tree)
            return registered or UNKNOWN
        if name.lower() in ("window", "session_window"):
            raise QueryError(_window_advice(name, arguments), self._name_place(tree))
        self._refuse(name, tree, len(arguments))
        if not called.takes(len(arguments)) and not any(isinstance(one, exp.Kwarg) for one in arguments):
            message = f"{called.name} takes {called.counts}, not {len(arguments)}"
            raise QueryError(message, self._name_place(tree))
        types = self._types(arguments)
        found = called.outcome([one.kind for one in types])
        has_own_syntax = any(isinstance(one, (exp.Lambda, exp.Kwarg, exp.Star)) for one in arguments)
        if found.refused is not None and self.functions.session.has_ansi_types and not has_own_syntax:
            raise self._mismatch(tree, types, found)
        return Type(found.kind)

    def _unknown(self, call: exp.Expr) -> QueryError:
        known = [*functions.function_names(), *self.functions.registered]
        hint = _WRITTEN_ELSEWHERE.get(call.name.lower()) or suggestion(
            call.name, known, "it is neither of Spark nor registered; write CREATE FUNCTION"
        )
        return QueryError(f"unknown function {call.name}; {hint}", self._name_place(call))

    def _mismatch(self, call: exp.Expr, types: Sequence[Type], found: CallResult) -> QueryError:
        assert found.refused is not None
        wrong = call.expressions[found.refused]
        name, own, takes = call.name, types[found.refused], _names(found.takes)
        if len(types) == 1:
            message = f"{name} takes {takes}, not {own}"
        else:
            # of two arguments, the first may rule out types of the second
            is_second = found.refused == 1 and len(types) == 2 and types[0].kind is not None
            beside = f" beside {types[0]}" if is_second else ""
            message = f"argument {found.refused + 1} of {name} is {own}; it takes {takes}{beside}"
        return QueryError(message, self._place(wrong))


_BY_CLASS: Mapping[type[exp.Expr] | tuple[type[exp.Expr], ...], Callable[[TypeCheck, exp.Expr], Type]] = {
    exp.Column: TypeCheck._column,
    exp.Literal: TypeCheck._literal,
    exp.Boolean: lambda check, tree: Type("b"),
    exp.Paren: lambda check, tree: check.type_of(tree.this),
    exp.Anonymous: TypeCheck._call,
    exp.Cast: TypeCheck._cast,
    exp.Case: TypeCheck._case,
    (exp.Neg, exp.BitwiseNot, exp.Not): TypeCheck._unary,
    (exp.In, exp.Between): TypeCheck._membership,
    exp.Is: TypeCheck._comparison_with_null,
    exp.Var: TypeCheck._word,
    exp.Introducer: lambda check, tree: Type.of(tree.this),
    exp.Bracket: lambda check, tree: check._types([*tree.expressions, tree.this])[-1].element,
    exp.Dot: lambda check, tree: check._types([tree.expression, tree.this])[-1].field(tree.expression.name),
    exp.Func: TypeCheck._special,
}


def _names(kinds: str) -> str:
    """Types in words: ``a number, STRING or DATE``."""
    found = ["a number"] if set(_NUMBERS) <= set(kinds) else [kind_name(k) for k in kinds if k in _NUMBERS]
    found += [kind_name(kind) for kind in kinds if kind not in _NUMBERS]
    return " or ".join(part for part in (", ".join(found[:-1]), found[-1]) if part)


def _window_advice(name: str, arguments: Sequence[exp.Expr]) -> str:
    """What to write in place of a function that makes windows of timestamps."""
    lengths = [" ".join(one.name.strip("'\"").upper().split()) for one in arguments[1:3] if one.is_string]
    length = lengths[0] if lengths else "10 SECONDS"
    slide = lengths[1] if len(lengths) > 1 and name.lower() == "window" else length
    window = f"[TUMBLE {length}]" if slide == length else f"[HOP {length} EVERY {slide}]"
    if name.lower() == "session_window":
        window = f"[SESSION {length}]"
    return f"{name.lower()} makes windows in GROUP BY only; write it there, or s {window} in FROM"

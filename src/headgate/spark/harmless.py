"""Predicates that can be asked of any tuple: none of what they are made of can fail.

``a <> 0 AND 1 / a > 2`` works as long as it is asked in this order, so a predicate that could fail keeps
its place.
"""

from __future__ import annotations

import re
from typing import Any

import sqlglot
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from sqlglot import exp

from headgate.model.expression import Expression
from headgate.model.operator import Select

# names of Catalyst's classes; what is not listed may fail
_HARMLESS = re.compile(
    r"""
      AttributeReference | Literal | GetStructField
    | And | Or | Not | EqualTo | EqualNullSafe | (?: Less | Greater ) Than (?: OrEqual )? | In | InSet
    | IsNull | IsNotNull | IsNaN | Coalesce | If | CaseWhen | Greatest | Least
    | Like | LikeAll | LikeAny | StartsWith | EndsWith | Contains | Length | OctetLength | Lower | Upper
    | Substring | StringTrim (?: Left | Right )? | StringInstr | Concat | Reverse
    | Md5 | Sha1 | Sha2 | Crc32 | XxHash64 | Murmur3Hash | Bitwise (?: And | Or | Xor )
    | ArrayAggregate | ArrayExists | ArrayForAll | ArrayContains | Size | LambdaFunction | NamedLambdaVariable
    | Year | Month | DayOfMonth | Hour | Minute | Second
    """,
    re.VERBOSE,
)


# sqlglot counts these among functions, but they cost no more than a comparison
_CHEAP = (exp.Connector, exp.Cast, exp.Coalesce, exp.If, exp.Case)


def is_worth_ordering(select: Select) -> bool:
    """Whether the order of its predicates can save more than finding it out costs.

    Without a call of a function, predicates are comparisons of a few nanoseconds each.
    """
    return len(select.predicates) > 1 and any(map(_calls_function, select.predicates))


def _calls_function(predicate: Expression) -> bool:
    called = sqlglot.parse_one(predicate.text, dialect="spark").find_all(exp.Func)
    return any(not isinstance(call, _CHEAP) for call in called)


def is_harmless(predicate: Expression, tuples: DataFrame) -> bool:
    """Whether the predicate can be asked of any tuple of these columns."""
    frame: Any = tuples.where(F.expr(predicate.text))._jdf
    java: Any = tuples.sparkSession.sparkContext._jvm
    casts = java.org.apache.spark.sql.catalyst.expressions.Cast
    return _cannot_fail(frame.queryExecution().analyzed().condition(), casts)


def _cannot_fail(expression: Any, casts: Any) -> bool:
    kind = expression.getClass().getSimpleName()
    if not _HARMLESS.fullmatch(kind) and not (kind == "Cast" and _always_works(expression, casts)):
        # constants are worked out before the first tuple comes
        return bool(expression.foldable())
    children = expression.children()
    return all(_cannot_fail(children.apply(place), casts) for place in range(children.size()))


def _always_works(cast: Any, casts: Any) -> bool:
    given, wanted = cast.child().dataType(), cast.dataType()
    return wanted.typeName() in ("string", "binary") or bool(casts.canUpCast(given, wanted))

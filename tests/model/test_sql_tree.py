"""Expressions as trees: what is equal, and that Spark computes the same from the text that is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headgate.errors import QueryError
from headgate.model.expression import Expression

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# columns: a, b, c INT; p, q BOOLEAN; s, r STRING; d DATE; t TIMESTAMP; xs ARRAY<INT>; m MAP; st STRUCT
TEXTS = r"""
a + b * c - a % 3
array(a, b)[0]
array(array(a), array(b))[1][0]
a - b - c
-a - -b + +c
2 * - -a
~a & b | c ^ a
a | b << 2
a & b << 1 + 1
a << 2 >> 1
a * b DIV 2 * c
a / c * b
a || b || s
a || c + b
'1' || a - b
a = b
a == b AND a != c OR a <> 3
a <=> b
a <=> b = p
a IS DISTINCT FROM b
a IS NOT DISTINCT FROM b
a = b IS NOT NULL
a = b IS NULL
NOT a IS NULL
NOT a = b OR p AND q
!p AND !(q)
p IS TRUE
p IS NOT TRUE
p IS UNKNOWN
a = 1 = p
a < b = p
a IN (1, 2, 3)
a NOT IN (1, NULL)
NOT a IN (1, 2)
(a, b) IN ((1, 2), (3, 4))
a BETWEEN b - 1 AND c + 1 AND p
a NOT BETWEEN 1 AND 2
s LIKE 'a%'
s NOT LIKE 'a!_%' ESCAPE '!'
s NOT ILIKE 'A%'
s LIKE ANY ('a%', 'b%')
s NOT LIKE ALL ('a%', 'b%')
s RLIKE '^\\w+$'
s NOT RLIKE '^a'
s REGEXP r'^\w+$'
10L + 5S + 3Y + 1.5D + 2.5F + 1.25BD
1e3 + 1.5e-3 + .5
1.05 * a
'it''s'
'it\'s' 'so' "x"
'a\nb\tc\\d\u00e9\%'
r'a\nb'
X'1F'
DATE '2026-01-31' < d
DATE '2026-01-31'::STRING || s
TIMESTAMP '2026-01-31 01:02:03' < t
TIMESTAMP_NTZ '2026-01-31 01:02:03'
t + INTERVAL 5 DAYS
t + INTERVAL '5' DAY - INTERVAL '1 02:03:04' DAY TO SECOND
t + INTERVAL 1 DAY 2 HOURS
t - INTERVAL '1 day 2 hours'
d + INTERVAL -3 MONTHS
CAST(a AS STRING) || CAST(a AS LONG)
CAST(a AS DECIMAL(10, 2)) * 1.5
TRY_CAST(s AS DOUBLE)
CAST(a AS CHAR(5)) || CAST(a AS BYTE) || CAST(a AS REAL)
CAST(d AS TIMESTAMP) = CAST(d AS TIMESTAMP_NTZ)
a::string || b
EXTRACT(YEAR FROM t) + extract(dow from d)
DATEADD(HOUR, 1, t)
TIMESTAMPADD(MINUTE, a, t)
DATE_ADD(d, 3)
DATEDIFF(d, DATE '2026-01-01') + DATEDIFF(DAY, DATE '2026-01-01', d)
TIMESTAMPDIFF(MINUTE, TIMESTAMP '2026-01-01 00:00:00', t)
TRIM(s) || TRIM(BOTH 'a' FROM s) || TRIM(LEADING FROM s) || TRIM('b' FROM s)
SUBSTRING(s FROM 2 FOR 3) || SUBSTR(s, 2) || substring(s, 1, 1)
POSITION('b' IN s) + POSITION('b', s)
OVERLAY(s PLACING 'x' FROM 2 FOR 1) || overlay(s, 'y', 1)
trim('a', s)
filter(xs, x -> x > 0)
date_diff(d, DATE '2026-01-01')
CASE WHEN a > 1 THEN 'x' WHEN b IS NOT NULL THEN 'y' ELSE 'z' END
CASE a WHEN 1 THEN 2 END
if(a > 1, b, c) + coalesce(a, b, 0) + nullif(a, b)
xs[0] + element_at(xs, 1)
m['k'] + m[s]
st.f.g + 1
`a` + `st`.`f`.g
transform(xs, x -> x + a)
transform(xs, X -> x + 1)
aggregate(xs, 0, (acc, x) -> acc + x)
map_filter(m, (k, v) -> k > s OR v IS NOT NULL)
exists(xs, x -> x > 1) AND array_contains(xs, 1)
named_struct('a', a, 'b', array(1, 2)).b[1]
date_trunc('HOUR', t)
concat_ws(',', s, r)
left(s, 2) || right(s, 1) || replace(s, 'a')
log(10, a * a + 1) + mod(a, 2) + ceil(1.25, 1)
int('12') - a
get_json_object('{"b": 1}', '$.b')
split(s, 'b')[0]
current_date = current_date() AND localtimestamp IS NOT NULL AND current_timestamp IS NOT NULL
""".strip().splitlines()
ROWS = """
SELECT * FROM VALUES
  (1, 2, 3, true, false, 'abc', 'x', DATE '2026-01-31', TIMESTAMP '2026-01-31 05:06:07', array(1, 2),
   map('k', 1, 'abc', 2), named_struct('f', named_struct('g', 7))),
  (5, -6, 7, false, NULL, ' b a ', 'k', DATE '2024-02-29', TIMESTAMP '2024-02-29 23:59:59', array(0, NULL),
   map('k', NULL), named_struct('f', named_struct('g', 0))),
  (NULL, 4, 1, NULL, true, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
AS rows(a, b, c, p, q, s, r, d, t, xs, m, st)
"""


@pytest.mark.spark
def test_spark_computes_the_same_from_text_as_written_and_as_rendered(spark: SparkSession) -> None:
    rows = spark.sql(ROWS)
    pairs = [(text, Expression.parse(text).text) for text in TEXTS]
    outcomes = [(outcome(rows, written), outcome(rows, rendered)) for written, rendered in pairs]
    assert [pair for pair, (one, other) in zip(pairs, outcomes, strict=True) if one != other] == []
    # what Spark refuses either way says nothing
    assert sum(isinstance(one, list) for one, _ in outcomes) > 0.9 * len(TEXTS)


def outcome(rows: DataFrame, text: str) -> object:
    """The values of an expression, or the name of the error that Spark raises."""
    from pyspark.errors import PySparkException

    try:
        return [row[0] for row in rows.selectExpr(f"({text}) AS value").collect()]
    except PySparkException as error:
        return error.getCondition()


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_written_is_read_as_the_same_expression(text: str) -> None:
    expression = Expression.parse(text)
    again = Expression.parse(expression.text)
    assert again == expression and again.text == expression.text


@pytest.mark.parametrize(
    ("left", "right"),
    [("a+ b", "A +b"), ("f( `A` )", "F(`a`)"), ("a -- x\n + /* y */ b", "a + b")],
)
def test_spellings_of_one_expression_are_equal(left: str, right: str) -> None:
    assert Expression.parse(left) == Expression.parse(right)


@pytest.mark.parametrize(
    ("left", "right"), [("'a'", "'A'"), ("'a b'", "'a  b'"), ("1.0", "10"), (r"r'\'", r"'\''")]
)
def test_different_expressions_are_not_equal(left: str, right: str) -> None:
    assert Expression.parse(left) != Expression.parse(right)


def test_blanks_inside_of_strings_and_names_stay() -> None:
    assert Expression.parse(" `a  b`\n=   'c  \\'  d' ").text == "`a  b` = 'c  \\'  d'"


def test_literals_that_span_lines_are_escaped() -> None:
    assert Expression.parse("x = 'a\nb\tc\x1bd'").text == r"x = 'a\nb\tc\u001bd'"
    # behind a backslash a newline stands for itself; in a raw string the backslash does
    assert Expression.parse("'a\\\nb'").text == r"'a\nb'"
    assert Expression.parse("r'a\\d\nb'").text == r"'a\\d\nb'"


def test_a_text_that_is_no_expression_is_refused() -> None:
    with pytest.raises(QueryError, match="is not a Spark SQL expression"):
        Expression.parse("a +")


def test_fields_are_no_columns_and_variables_neither() -> None:
    assert Expression.parse("s.f.g + transform(xs, X -> x.y + z)").columns == ("s", "xs", "z")


def test_functions_are_known_by_name() -> None:
    calls = Expression.parse("Lower(a) RLIKE 'x' AND `F`(b) = CAST(c AS INT) OR trim(d) IS NULL").functions
    assert calls == {"lower", "regexp_like", "f", "trim"}

"""Expressions that cannot be meant are refused where they are written, and others are let through."""

from __future__ import annotations

import pytest
from tests.planning.support import bound, bound_select, catalog_of

from headgate.cql.parser import parse
from headgate.errors import QueryError
from headgate.planning.catalog import Catalog
from headgate.planning.functions import function_names, spark_function
from headgate.planning.queries import bind
from headgate.planning.type_check import SessionFunctions

COLUMNS = (
    "ts TIMESTAMP, i INT, l BIGINT, d DOUBLE, s STRING, b BOOLEAN, day DATE, xs ARRAY<INT>, "
    "names ARRAY<STRING>, m MAP<STRING, DOUBLE>, r STRUCT<port: INT, tags: ARRAY<STRING>, inner: "
    "STRUCT<ok: BOOLEAN>>, x BINARY, n DECIMAL(10, 2), v VARIANT"
)
STREAM = f"CREATE STREAM t ({COLUMNS}) FROM parquet OPTIONS (path 'x', timestamp 'ts');"


def refusal(query: str, catalog: Catalog | None = None) -> str:
    """The message and the text that it points at."""
    text = f"CREATE QUERY q AS {query}"
    catalog = catalog or catalog_of(STREAM, "")
    for statement in parse(text, "case"):
        catalog.declare(statement)
    with pytest.raises(QueryError) as caught:
        bind(catalog.queries["q"], catalog)
    assert caught.value.span is not None
    return f"{caught.value.message} <{caught.value.span.excerpt}>"


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("i", "i is INT, not a condition; write a comparison, such as i > 0 <i>"),
        ("s", "s is STRING, not a condition; write a comparison, such as s = ... <s>"),
        ("b AND i + 1", "i + 1 is INT, not a condition; write a comparison, such as i + 1 > 0 <i + 1>"),
        (
            "upper(s)",
            "upper(s) is STRING, not a condition; write a comparison, such as upper(s) = ... <upper(s)>",
        ),
        ("r.port", "r.port is INT, not a condition; write a comparison, such as r.port > 0 <r.port>"),
        ("xs[0]", "xs[0] is INT, not a condition; write a comparison, such as xs[0] > 0 <xs[0]>"),
        ("CASE WHEN i THEN b ELSE b END", "AND takes conditions, not INT; write a comparison <i>"),
        ("b OR i", "OR takes conditions, not INT; write a comparison <i>"),
        ("NOT i", "NOT takes conditions, not INT; write a comparison <i>"),
        ("sha22(s, 256) = 'x'", "unknown function sha22; did you mean sha2? <sha22>"),
        ("b AND lenght(s) > 1", "unknown function lenght; did you mean length? <lenght>"),
        (
            "zzyzx(s)",
            "unknown function zzyzx; it is neither of Spark nor registered; write CREATE FUNCTION <zzyzx>",
        ),
        ("sha2(s) = 'x'", "sha2 takes 2 arguments, not 1 <sha2>"),
        ("upper() = 'x'", "upper takes 1 argument, not 0 <upper>"),
        ("length(s, 1) > 1", "length takes 1 argument, not 2 <length>"),
        ("year(i) = 2026", "year takes STRING, DATE, TIMESTAMP or TIMESTAMP_NTZ, not INT <i>"),
        ("upper(xs) = 'x'", "not ARRAY<INT> <xs>"),
        ("array_contains(s, 'x')", "argument 1 of array_contains is STRING; it takes ARRAY <s>"),
        ("sqrt(ts) > 1", "sqrt takes a number or STRING, not TIMESTAMP <ts>"),
        ("i + b > 1", "+ cannot be applied to INT and BOOLEAN; cast one of them <i + b>"),
        ("i > xs", "INT and ARRAY<INT> cannot be compared; compare values of one type <i > xs>"),
        ("i IN (1, day)", "INT and DATE cannot be compared; compare values of one type <day>"),
        ("i BETWEEN 1 AND xs", "INT and ARRAY<INT> cannot be compared; compare values of one type <xs>"),
        ("CAST(xs AS INT) > 1", "ARRAY<INT> cannot be cast to INT <xs>"),
        ("exists(xs, x -> sha22(x, 1) = 'x')", "unknown function sha22; did you mean sha2? <sha22>"),
        ("-b = 1", "- cannot be applied to BOOLEAN; cast one of them <b>"),
    ],
)
def test_a_condition_that_cannot_be_meant_is_refused_at_its_place(where: str, message: str) -> None:
    assert refusal(f"SELECT i FROM t WHERE {where}").endswith(message)


@pytest.mark.parametrize(
    "where",
    [
        "b",
        "NOT b AND r.inner.ok",
        "r.tags[0] = 'x' AND m['a'] > 1 AND m.a > 1",
        "i = '5' AND s > 5 AND l > 1.5 AND n = 2",
        "ts > '2026-01-01' AND day < ts AND ts - INTERVAL 5 MINUTES > DATE '2026-01-01'",
        "exists(xs, x -> x > 1) AND forall(names, n -> length(n) > 1)",
        "array_contains(names, s) AND array_contains(xs, l)",
        "coalesce(b, FALSE) AND if(b, b, FALSE) AND ifnull(b, TRUE)",
        "s LIKE '%x%' AND s RLIKE 'a+' AND s ILIKE ANY ('a', 'b')",
        "substring(s, 1, 2) = 'x' AND trim(BOTH 'x' FROM s) = 'y' AND position('a' IN s) = 1",
        "extract(HOUR FROM ts) = 5 AND hour(ts) = 5 AND date_add(day, 1) > day",
        "named_struct('a', i).a > 1 AND struct(i, s).i = 1",
        "from_json(s, 'a INT').a = 5 AND get_json_object(s, '$.a') = '5'",
        "try_variant_get(v, '$.a', 'int') > 1",
        "bool_like(s) AND f(i) > 1",
        "s <=> NULL AND i IS NOT NULL AND (i, l) = (1, 2)",
        "i & 3 = 1 AND i << 2 > 1 AND ~i < 0 AND i % 2 = 1 AND i DIV 2 > 0",
        "s || i = 'a5' AND concat(s, i, b) = 'x' AND concat(xs, xs) = xs",
        "aes_encrypt(s, s, 'GCM', 'DEFAULT', x) IS NULL AND sha2(x, 256) = 'a' AND md5(s) = 'b'",
        "current_user() = 'x' AND current_timezone() = 'UTC'",
        "unix_timestamp(ts) > 1 AND to_timestamp(s) > ts AND date_trunc('HOUR', ts) = ts",
        "b = TRUE AND (b OR i > 1) AND CASE s WHEN 'a' THEN b ELSE i > 1 END",
        "i > NULL AND coalesce(NULL, b)",
        "slice(xs, 1, 2) = xs AND array_join(names, s, '-') = s AND array_insert(xs, 1, i) = xs",
    ],
)
def test_what_spark_accepts_is_accepted(where: str) -> None:
    functions = (
        "CREATE FUNCTION bool_like AS 'a.py:f' RETURNS BOOLEAN; CREATE FUNCTION F AS 'a.py:f' RETURNS INT;"
    )
    catalog = catalog_of(f"{STREAM}{functions}CREATE QUERY q AS SELECT i FROM t WHERE {where}", "")
    bind(catalog.queries["q"], catalog)


@pytest.mark.parametrize(
    ("select", "message"),
    [
        ("SELECT SUM(xs) AS x FROM t [ROWS 5]", "SUM takes "),
        ("SELECT i, COUNT(*) AS n FROM t GROUP BY i HAVING n + 1", "n + 1 is BIGINT, not a condition"),
        ("SELECT i, COUNT(*) AS n FROM t GROUP BY i HAVING COUNT(*)", "COUNT(*) is BIGINT, not a condition"),
        ("SELECT i, COUNT(*) AS n FROM t GROUP BY i HAVING sha22(i) > 1", "unknown function sha22"),
        ("SELECT i, AVG(lenght(s)) AS n FROM t GROUP BY i", "unknown function lenght; did you mean length?"),
        ("SELECT a.i FROM t [NOW] a JOIN t [NOW] b ON a.i", "a.i is INT, not a condition"),
        ("SELECT a.i FROM t [NOW] a JOIN t [NOW] b ON a.i = b.xs", "INT and ARRAY<INT> cannot be compared"),
        ("SELECT DISTINCT uper(s) AS u FROM t [ROWS 5]", "unknown function uper; did you mean upper?"),
        ("SELECT i FROM t UNION ALL SELECT length(xs, 1) FROM t", "length takes 1 argument, not 2"),
    ],
)
def test_every_clause_is_checked(select: str, message: str) -> None:
    assert refusal(select).startswith(message)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            "current_timestamp()",
            "current_timestamp depends on when a tick runs; use the stream's timestamp column",
        ),
        ("current_timestamp", "current_timestamp depends on when a tick runs"),
        ("localtimestamp", "localtimestamp depends on when a tick runs"),
        ("now()", "now depends on when a tick runs"),
        ("unix_timestamp()", "unix_timestamp depends on when a tick runs"),
        ("CURDATE()", "curdate depends on when a tick runs"),
        ("rand()", "rand may differ when a tick is repeated after a crash; use a hash of columns"),
        ("rand(5)", "rand may differ"),
        ("i * randn()", "randn may differ"),
        ("uuid()", "uuid may differ"),
        ("shuffle(xs)", "shuffle may differ"),
        ("aes_encrypt(s, s)", "aes_encrypt draws an initialization vector at random"),
        ("monotonically_increasing_id()", "monotonically_increasing_id depends on how Spark divides a tick"),
        ("spark_partition_id()", "spark_partition_id depends on how Spark divides a tick"),
        ("input_file_name()", "input_file_name depends on how Spark divides a tick"),
        ("abs(explode(xs))", "explode gives several rows for one tuple; write FROM s LATERAL VIEW explode("),
        ("abs(posexplode_outer(xs))", "posexplode_outer gives several rows"),
        ("stack(2, 1, 2)", "stack gives several rows"),
        ("row_number()", "row_number needs OVER (...), which is not supported"),
        ("lag(i)", "lag needs OVER (...), which is not supported"),
        ("window_time(ts)", "window_time is of windows in GROUP BY, which are not supported"),
    ],
)
def test_what_would_depend_on_ticks_is_refused_with_a_reason(call: str, message: str) -> None:
    assert refusal(f"SELECT i, {call} AS x FROM t").lower().startswith(message.lower())
    if "(" in call:
        assert refusal(f"SELECT i FROM t WHERE {call} IS NULL").lower().startswith(message.lower())


@pytest.mark.parametrize(
    ("call", "window"),
    [
        ("window(ts, '10 seconds')", "[TUMBLE 10 SECONDS]"),
        ("window(ts, '1 hour', '5 minutes')", "[HOP 1 HOUR EVERY 5 MINUTES]"),
        ("session_window(ts, '30 seconds')", "[SESSION 30 SECONDS]"),
    ],
)
def test_functions_of_windows_outside_of_group_by_are_refused_with_the_window_to_write(
    call: str, window: str
) -> None:
    found = refusal(f"SELECT {call} AS w FROM t")
    assert window in found and "GROUP BY" in found
    # what is proposed can be written
    bound(f"{STREAM}CREATE QUERY q AS SELECT COUNT(*) AS n FROM t {window}", catalog_of(STREAM, ""))


def test_functions_that_were_registered_are_known_whatever_they_are_called() -> None:
    text = (
        "CREATE FUNCTION explode AS 'a.py:f' RETURNS BOOLEAN; CREATE FUNCTION scor AS 'a.py:f' RETURNS INT;"
    )
    bound(f"{text}CREATE QUERY q AS SELECT src FROM packets WHERE explode(src, 1, 2)")
    with pytest.raises(QueryError, match=r"Scor\(src\) is INT, not a condition"):
        bound(f"{text}CREATE QUERY q AS SELECT src FROM packets WHERE Scor(src)")
    with pytest.raises(QueryError, match="unknown function score; did you mean scor"):
        bound(f"{text}CREATE QUERY q AS SELECT src FROM packets WHERE score(src) > 1")


def test_functions_of_a_session_are_asked_for() -> None:
    asked = []

    def has(name: str) -> bool:
        asked.append(name)
        return name == "mine"

    def catalog() -> Catalog:
        made = Catalog(session=SessionFunctions(has))
        for statement in parse(STREAM):
            made.declare(statement)
        return made

    [query] = parse("CREATE QUERY q AS SELECT mine(i) AS x FROM t WHERE upper(s) = 'x'")
    bind(query, catalog())  # type: ignore[arg-type]
    assert set(asked) == {"mine"}
    assert "unknown function yours" in refusal("SELECT yours(i) AS x FROM t", catalog())


def test_without_ansi_mode_types_are_left_to_spark() -> None:
    catalog = Catalog(session=SessionFunctions(has_ansi_types=False))
    for statement in parse(f"{STREAM}CREATE QUERY q AS SELECT year(i) AS y FROM t WHERE i = b AND i + b > 1"):
        catalog.declare(statement)
    bind(catalog.queries["q"], catalog)


def test_a_utility_is_checked_too() -> None:
    query = "CREATE QUERY q WITH (overload = 'shed', utility = '{}') AS SELECT src FROM packets"
    for utility, reason in (("rand()", "rand may differ"), ("lenght(src)", "did you mean length?")):
        with pytest.raises(QueryError, match=reason):
            bound(query.format(utility))
    assert bound(query.format("length(src) + bytes"))


def test_a_chain_of_a_thousand_terms_is_checked() -> None:
    bound_select(f"SELECT src FROM packets WHERE {' OR '.join(f'bytes = {n}' for n in range(1000))}")


def test_every_function_of_the_catalogue_says_how_many_arguments_it_takes() -> None:
    for name in function_names():
        found = spark_function(name.upper())
        assert found is not None and any(found.takes(count) for count in range(12)), name
        assert name == "cast" or found.counts.split()[-1].startswith("argument")

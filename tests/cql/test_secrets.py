"""Passwords of options are hidden wherever statements are shown."""

from __future__ import annotations

import pytest

from headgate.cql.secrets import without_secrets
from headgate.cql.tokens import check_only_reads, statements_in
from headgate.errors import QueryError


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "CREATE RELATION r FROM jdbc OPTIONS (url 'jdbc:x://me:pw@db/x', user 'me', password 'p,w)');",
            "CREATE RELATION r FROM jdbc OPTIONS (url '***', user 'me', password '***');",
        ),
        (
            "... FROM kafka OPTIONS (kafka.jaas.config = \"x\", `ssl.key.password` 'k', topic 'token')",
            "... FROM kafka OPTIONS (kafka.jaas.config = '***', `ssl.key.password` '***', topic 'token')",
        ),
        ("SELECT a FROM s WHERE password = 'x' -- OPTIONS (password 'y')",) * 2,
        (
            "FROM json OPTIONS (path '/p', timestamp 'ts') x OPTIONS (",
            "FROM json OPTIONS (path '/p', timestamp 'ts') x OPTIONS (",
        ),
        ("OPTIONS (password 'never closed)", "***"),
        ("OPTIONS (password = 'it''s', a 'it''s')", "OPTIONS (password = '***', a 'it''s')"),
        (
            "OPTIONS (password 'a' 'b', 'my.token' 'x', a.`key`.passwd == -5)",
            "OPTIONS (password '***', 'my.token' '***', a.`key`.passwd == '***')",
        ),
        ("OPTIONS (a 1] password 'x')", "***"),
        ("OPTIONS (password f('a', 'b'), url 'x://me:' 'pw@h'", "OPTIONS (password '***', url '***'"),
        (
            "SELECT a INTO parquet 's3a://AKIA:SECRET@bucket/x'; SELECT a INTO parquet '/data/x'",
            "SELECT a INTO parquet '***'; SELECT a INTO parquet '/data/x'",
        ),
        (
            "CREATE RELATION r FROM org.x.jdbc 'jdbc:x://u:p''w@h' OPTIONS (user 'me')",
            "CREATE RELATION r FROM org.x.jdbc '***' OPTIONS (user 'me')",
        ),
    ],
)
def test_passwords_in_options_are_not_shown(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


def test_a_select_that_writes_is_refused_and_none_that_reads() -> None:
    for text in (
        "WITH x AS (SELECT 1) INSERT OVERWRITE DIRECTORY '/x' USING json SELECT * FROM x",
        "WITH x AS (SELECT 1) FROM x INSERT INTO y SELECT *",
        "WITH case AS (SELECT 1 AS a) INSERT INTO x SELECT a FROM case",
        "WITH case AS (SELECT 1) INSERT OVERWRITE DIRECTORY '/x' USING parquet SELECT * FROM case",
        "WITH t (a) AS (SELECT ')'), u (SELECT (2)) DELETE FROM x",
        "WITH t AS (SELECT 1) UPDATE x SET a = 1",
        "WITH t AS (SELECT 1) DELETE FROM x WHERE a IN (1)",
        "WITH t AS (SELECT 1) MERGE INTO x USING t ON x.a = t.a WHEN MATCHED THEN DELETE",
        "WITH t AS (SELECT 1) MERGE WITH SCHEMA EVOLUTION INTO x USING t ON x.a = t.a",
        "WITH RECURSIVE t (a) MAX RECURSION LEVEL 9 AS (SELECT 1) DELETE FROM x",
    ):
        with pytest.raises(QueryError, match="a SELECT reads tables"):
            check_only_reads(text)
    for text in (
        "WITH x AS (SELECT 'INSERT' AS `insert`) SELECT x.insert FROM x -- INSERT INTO y",
        "SELECT insert FROM q",
        "SELECT a AS insert, (b) delete FROM q",
        "WITH update AS (SELECT merge FROM q) SELECT (delete) delete FROM update WHERE insert > 1",
        "WITH t AS (SELECT 1) (SELECT a FROM t)",
        "",
    ):
        check_only_reads(text)


def test_comments_alone_are_no_statements() -> None:
    assert statements_in("-- a\n/* b; */ ;; \n") == ([], "")
    assert statements_in("A; -- x\nB /* ; */ ; C -- ;") == (["A;", "-- x\nB /* ; */ ;"], "C -- ;")
    assert statements_in("A 'b; ") == ([], "A 'b; ")

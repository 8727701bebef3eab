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
    ],
)
def test_passwords_in_options_are_not_shown(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


def test_a_select_that_writes_is_refused() -> None:
    for text in (
        "WITH x AS (SELECT 1) INSERT OVERWRITE DIRECTORY '/x' USING json SELECT * FROM x",
        "WITH x AS (SELECT 1) FROM x INSERT INTO y SELECT *",
    ):
        with pytest.raises(QueryError, match="a SELECT reads tables"):
            check_only_reads(text)
    check_only_reads("WITH x AS (SELECT 'INSERT' AS `insert`) SELECT x.insert FROM x -- INSERT")


def test_comments_alone_are_no_statements() -> None:
    assert statements_in("-- a\n/* b; */ ;; \n") == ([], "")
    assert statements_in("A; -- x\nB /* ; */ ; C -- ;") == (["A;", "-- x\nB /* ; */ ;"], "C -- ;")
    assert statements_in("A 'b; ") == ([], "A 'b; ")

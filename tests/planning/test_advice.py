"""What is refused, and what its message says to write instead, which is accepted."""

from __future__ import annotations

import pytest
from tests.planning.support import bound_select

from headgate.errors import QueryError

UNION = "SELECT src FROM packets UNION ALL SELECT src FROM flows"
KNOWN = "SELECT 1 FROM flows [RANGE 1 HOUR] AS f WHERE f.src = p.src"
# what is refused, a part of the message, and what it advises
ADVICE = {
    "UNION": (
        "SELECT src FROM packets UNION SELECT src FROM flows",
        "write UNION ALL, or SELECT DISTINCT a FROM (SELECT ... UNION ALL SELECT ...) AS x [RANGE 1 HOUR]",
        f"SELECT DISTINCT src FROM ({UNION}) AS x [RANGE 1 HOUR]",
    ),
    "INTERSECT": (
        "SELECT src FROM packets INTERSECT SELECT src FROM flows",
        "write WHERE EXISTS (SELECT ... WHERE ...)",
        f"SELECT src FROM packets [RANGE 1 HOUR] AS p WHERE EXISTS ({KNOWN})",
    ),
    "EXCEPT": (
        "SELECT src FROM packets EXCEPT SELECT src FROM flows",
        "write WHERE NOT EXISTS (SELECT ... WHERE ...)",
        f"SELECT src FROM packets [RANGE 1 HOUR] AS p WHERE NOT EXISTS ({KNOWN})",
    ),
    "OVER rows": (
        """SELECT SUM(bytes) OVER (PARTITION BY src ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)
           FROM packets""",
        "write FROM s [PARTITION BY src ROWS 10] and GROUP BY src",
        "SELECT src, SUM(bytes) AS n FROM packets [PARTITION BY src ROWS 10] GROUP BY src",
    ),
    "OVER range": (
        """SELECT MAX(bytes) OVER (ORDER BY ts RANGE BETWEEN INTERVAL 5 MINUTES PRECEDING AND CURRENT ROW)
           FROM packets""",
        "write FROM s [RANGE 5 MINUTES]",
        "SELECT MAX(bytes) AS n FROM packets [RANGE 5 MINUTES]",
    ),
    "LAG": (
        "SELECT LAG(bytes) OVER (PARTITION BY src ORDER BY ts) FROM packets",
        "write FROM s [PARTITION BY src ROWS 2] AS a, s [NOW] AS b",
        """SELECT b.bytes - a.bytes AS d
           FROM packets [PARTITION BY src ROWS 2] AS a, packets [NOW] AS b WHERE a.src = b.src""",
    ),
    "CUMULATE": (
        "SELECT COUNT(*) FROM CUMULATE(TABLE packets, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '1' DAY)",
        "write s [UNBOUNDED SLIDE 1 MINUTE]",
        "SELECT COUNT(*) AS n FROM packets [UNBOUNDED SLIDE 1 MINUTE]",
    ),
    "OFFSET": (
        "SELECT src FROM packets [TUMBLE 1 MINUTE] ORDER BY bytes LIMIT 10 OFFSET 10",
        "number rows in a subquery, and write WHERE place BETWEEN 11 AND 20",
        """SELECT src
           FROM (SELECT src, ROW_NUMBER() OVER (ORDER BY bytes) AS place FROM packets [TUMBLE 1 MINUTE])
           WHERE place BETWEEN 11 AND 20""",
    ),
    "a scalar subquery over a stream": (
        "SELECT src FROM packets WHERE bytes > (SELECT AVG(flow) FROM flows)",
        "join it in FROM, s [NOW], (SELECT AVG(x) AS mean FROM s [RANGE 1 HOUR]) AS m [ROWS 1]",
        """SELECT src FROM packets [NOW], (SELECT AVG(flow) AS mean FROM flows [RANGE 1 HOUR]) AS m [ROWS 1]
           WHERE bytes > m.mean""",
    ),
    "a correlated scalar subquery": (
        "SELECT src FROM packets AS p WHERE bytes > (SELECT COUNT(*) FROM hosts WHERE ip = p.src)",
        "join it, LEFT JOIN (SELECT k, MAX(x) AS m FROM r GROUP BY k) AS r ON r.k = s.k",
        """SELECT src FROM packets AS p LEFT JOIN (SELECT ip, COUNT(*) AS n FROM hosts GROUP BY ip) AS r
           ON r.ip = p.src WHERE bytes > r.n""",
    ),
    "explode inside of an expression": (
        "SELECT upper(explode(split(src, ','))) AS x FROM packets",
        "write FROM s LATERAL VIEW explode(array) t AS x, and expressions of x",
        "SELECT upper(x) AS x FROM packets LATERAL VIEW explode(split(src, ',')) t AS x",
    ),
    "explode beside an aggregate": (
        "SELECT explode(split(src, ',')) AS x, COUNT(*) FROM packets [TUMBLE 10 SECONDS] GROUP BY x",
        "write FROM s [TUMBLE 10 SECONDS] LATERAL VIEW explode(split(src, ',')) t AS x GROUP BY x",
        """SELECT x, COUNT(*) AS n FROM packets [TUMBLE 10 SECONDS]
           LATERAL VIEW explode(split(src, ',')) t AS x GROUP BY x""",
    ),
    "explode of a text": (
        "SELECT explode(src) AS x FROM packets",
        "write split(text, ',') for the parts of a text",
        "SELECT explode(split(src, ',')) AS x FROM packets",
    ),
    "UNNEST WITH ORDINALITY": (
        "SELECT x FROM packets CROSS JOIN UNNEST(split(src, ',')) WITH ORDINALITY AS t (x, place)",
        "write LATERAL VIEW posexplode(x) t AS place, value",
        "SELECT value FROM packets LATERAL VIEW posexplode(split(src, ',')) t AS place, value",
    ),
    "a ranking of groupings": (
        """SELECT src, COUNT(*) AS n FROM packets [TUMBLE 10 SECONDS] GROUP BY ROLLUP (src)
           ORDER BY n DESC LIMIT 3""",
        "write the groupings as a subquery, and rank its rows with ROW_NUMBER() OVER (PARTITION BY",
        """SELECT src, n
           FROM (SELECT src, COUNT(*) AS n, window_end FROM packets [TUMBLE 10 SECONDS] GROUP BY ROLLUP (src))
           QUALIFY ROW_NUMBER() OVER (PARTITION BY window_end ORDER BY n DESC) <= 3""",
    ),
    "a window among groupings": (
        "SELECT src, COUNT(*) AS n FROM packets GROUP BY ROLLUP (window(ts, '1 minute'), src)",
        "write GROUP BY window(ts, '1 minute'), ROLLUP (a, b)",
        "SELECT src, COUNT(*) AS n FROM packets GROUP BY window(ts, '1 minute'), ROLLUP (src)",
    ),
    "a value in the condition of an outer join": (
        """SELECT p.src FROM packets [RANGE 1 HOUR] p LEFT JOIN flows [RANGE 1 HOUR] f
           ON p.src = f.src AND p.bytes > (SELECT COUNT(*) FROM hosts)""",
        "compute what it gives in a subquery, FROM (SELECT ...) AS x [RANGE 10 SECONDS], and compare that",
        """SELECT p.src
           FROM (SELECT src, bytes, (SELECT COUNT(*) FROM hosts) AS n FROM packets) [RANGE 1 HOUR] p
           LEFT JOIN flows [RANGE 1 HOUR] f ON p.src = f.src AND p.bytes > p.n""",
    ),
    "a window of ksqlDB": (
        "SELECT src, COUNT(*) FROM packets WINDOW TUMBLING (SIZE 30 SECONDS) GROUP BY src EMIT CHANGES",
        "write s [TUMBLE 30 SECONDS]",
        "SELECT src, COUNT(*) AS n FROM packets [TUMBLE 30 SECONDS] GROUP BY src",
    ),
    "EMIT CHANGES": (
        "SELECT src, COUNT(*) AS n FROM packets GROUP BY src EMIT CHANGES",
        "EMIT is not needed, as results are emitted as they come; leave it out",
        "SELECT src, COUNT(*) AS n FROM packets GROUP BY src",
    ),
    "WITHIN": (
        "SELECT p.src FROM packets AS p JOIN flows WITHIN 1 HOUR ON p.src = flows.src",
        "write FROM a [RANGE 1 HOUR] JOIN b [RANGE 1 HOUR] ON ...",
        "SELECT p.src FROM packets [RANGE 1 HOUR] AS p JOIN flows [RANGE 1 HOUR] ON p.src = flows.src",
    ),
    "WITHIN before and after": (
        "SELECT p.src FROM packets p LEFT JOIN flows f WITHIN (1 HOUR, 5 MINUTES) ON p.src = f.src",
        "WITHIN is a window of each side",
        "SELECT p.src FROM packets [RANGE 1 HOUR] p LEFT JOIN flows [RANGE 5 MINUTES] f ON p.src = f.src",
    ),
    "MATCH_RECOGNIZE": (
        "SELECT * FROM packets MATCH_RECOGNIZE (PARTITION BY src ORDER BY ts PATTERN (A B+))",
        "FROM s [PARTITION BY k ROWS 2] AS a, s [NOW] AS b",
        """SELECT a.src FROM packets [PARTITION BY src ROWS 2] AS a, packets [NOW] AS b
           WHERE a.src = b.src AND b.bytes > a.bytes""",
    ),
    "PARTITION BY": (
        "SELECT src FROM packets PARTITION BY src",
        "leave it out",
        "SELECT src FROM packets",
    ),
    "TOP": (
        "SELECT TOP 10 src FROM packets",
        "write FROM s [TUMBLE 10 SECONDS] ORDER BY x DESC LIMIT 10",
        "SELECT src FROM packets [TUMBLE 10 SECONDS] ORDER BY bytes DESC LIMIT 10",
    ),
    "LIMIT": (
        "SELECT src FROM packets LIMIT 10",
        "write FROM s [TUMBLE 10 SECONDS] ORDER BY x LIMIT 10",
        "SELECT src FROM packets [TUMBLE 10 SECONDS] ORDER BY bytes LIMIT 10",
    ),
    "a window without brackets": (
        "SELECT src, MAX(bytes) AS m FROM packets RANGE 10 MINUTES GROUP BY src",
        "write [RANGE 10 MINUTES]",
        "SELECT src, MAX(bytes) AS m FROM packets [RANGE 10 MINUTES] GROUP BY src",
    ),
    "a window the other way round": (
        "SELECT src, MAX(bytes) AS m FROM packets [10 ROWS] GROUP BY src",
        "write [ROWS 10]",
        "SELECT src, MAX(bytes) AS m FROM packets [ROWS 10] GROUP BY src",
    ),
    "a window called sliding": (
        "SELECT src, MAX(bytes) AS m FROM packets [SLIDING 10 MINUTES] GROUP BY src",
        "did you mean RANGE?",
        "SELECT src, MAX(bytes) AS m FROM packets [RANGE 10 MINUTES] GROUP BY src",
    ),
    "a rank in WHERE": (
        """SELECT src, RANK() OVER (PARTITION BY src ORDER BY bytes DESC) AS place
           FROM packets [TUMBLE 1 MINUTE] WHERE place <= 3""",
        "write QUALIFY place <= 10",
        """SELECT src, RANK() OVER (PARTITION BY src ORDER BY bytes DESC) AS place
           FROM packets [TUMBLE 1 MINUTE] QUALIFY place <= 3""",
    ),
    "an operator of C": (
        "SELECT src FROM packets WHERE bytes == 3 && src = 'a'",
        "write AND",
        "SELECT src FROM packets WHERE bytes == 3 AND src = 'a'",
    ),
    "the latest value in ksqlDB": (
        "SELECT src, LATEST_BY_OFFSET(bytes) AS b FROM packets GROUP BY src",
        "write last(x)",
        "SELECT src, last(bytes) AS b FROM packets GROUP BY src",
    ),
    "the largest values in ksqlDB": (
        "SELECT src, TOPK(bytes, 3) AS b FROM packets [TUMBLE 1 MINUTE] GROUP BY src",
        "write slice(sort_array(collect_list(x), false), 1, 3)",
        """SELECT src, slice(sort_array(collect_list(bytes), false), 1, 3) AS b
           FROM packets [TUMBLE 1 MINUTE] GROUP BY src""",
    ),
    "JSON_VALUE": (
        "SELECT JSON_VALUE(src, '$.a') AS a FROM packets",
        "write get_json_object(text, '$.a')",
        "SELECT get_json_object(src, '$.a') AS a FROM packets",
    ),
    "a value beside rows that change": (
        """SELECT src, n FROM (SELECT src, COUNT(*) AS n FROM packets GROUP BY src) AS c
           WHERE n > (SELECT COUNT(*) FROM hosts) INTO noop OPTIONS (mode 'latest', key 'src')""",
        "write it in the subquery, in a condition of HAVING",
        """SELECT src, COUNT(*) AS n FROM packets GROUP BY src HAVING COUNT(*) > (SELECT COUNT(*) FROM hosts)
           INTO noop OPTIONS (mode 'latest')""",
    ),
    "elements of rows that change": (
        """SELECT n, part FROM (SELECT src, COUNT(*) AS n FROM packets GROUP BY src) AS c
           LATERAL VIEW explode(split(src, ',')) t AS part INTO noop OPTIONS (mode 'latest', key 'part')""",
        "or over its tuples",
        """SELECT part, COUNT(*) AS n FROM packets LATERAL VIEW explode(split(src, ',')) t AS part
           GROUP BY part INTO noop OPTIONS (mode 'latest')""",
    ),
    "IN beside OR": (
        "SELECT src FROM packets WHERE src IN (SELECT ip FROM hosts) OR bytes > 9",
        "elsewhere, join the source in FROM",
        """SELECT src FROM packets LEFT JOIN (SELECT DISTINCT ip FROM hosts) AS h ON src = ip
           WHERE ip IS NOT NULL OR bytes > 9""",
    ),
    "tuples of a window": (
        "SELECT src FROM packets [TUMBLE 1 MINUTE]",
        "write SELECT RSTREAM",
        "SELECT RSTREAM src FROM packets [TUMBLE 1 MINUTE]",
    ),
    "three streams": (
        """SELECT p.src FROM packets [RANGE 1 s] p LEFT JOIN flows [RANGE 1 s] f ON p.src = f.src
           LEFT JOIN flows [RANGE 1 s] g ON p.src = g.src""",
        "write the same [TUMBLE 10 SECONDS] behind each",
        """SELECT p.src FROM packets [TUMBLE 10 SECONDS] p
           LEFT JOIN flows [TUMBLE 10 SECONDS] f ON p.src = f.src
           LEFT JOIN flows [TUMBLE 10 SECONDS] g ON p.src = g.src""",
    ),
}


@pytest.mark.parametrize(("refused", "part", "advised"), ADVICE.values(), ids=ADVICE.keys())
def test_what_a_message_advises_is_accepted(refused: str, part: str, advised: str) -> None:
    with pytest.raises(QueryError) as error:
        bound_select(refused)
    assert part in str(error.value) and "\n" not in str(error.value)
    bound_select(advised)

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
        "join it instead, LEFT JOIN (SELECT k, MAX(x) AS m FROM r GROUP BY k) AS r ON r.k = s.k",
        """SELECT src FROM packets AS p LEFT JOIN (SELECT ip, COUNT(*) AS n FROM hosts GROUP BY ip) AS r
           ON r.ip = p.src WHERE bytes > r.n""",
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

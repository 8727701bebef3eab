"""Operators are the same if they compute the same, whatever they are called and whoever shares them."""

from __future__ import annotations

import pytest
from tests.planning.support import catalog_of

from headgate.model.identity import definitions, derived_streams, identities, with_starts
from headgate.model.network import Network
from headgate.model.operator_inputs import Start, StreamInput
from headgate.planning.lower import Stages, share_subplans

STREAMS = """
CREATE STREAM packets (ts TIMESTAMP, src STRING, bytes INT) FROM json OPTIONS (path '/p', timestamp 'ts');
CREATE STREAM links (ts TIMESTAMP, src STRING, up INT) FROM json OPTIONS (path '/l', timestamp 'ts');
"""
LARGE = "CREATE QUERY large AS SELECT src FROM packets WHERE bytes > 5 AND src <> 'x';"
SUMS = """CREATE QUERY sums AS SELECT src, SUM(bytes) AS n FROM packets [RANGE 10 SECONDS SLIDE 5 SECONDS]
WHERE bytes > 5 AND src <> 'x' GROUP BY src;"""
JOINED = """CREATE QUERY joined AS SELECT a.src FROM packets [RANGE 5 SECONDS] AS a, links [ROWS 3] AS b
WHERE a.src = b.src;"""
HOSTS = "CREATE RELATION hosts (ip STRING, owner STRING) FROM parquet OPTIONS (path '/h');"
LARGE_STREAM = "CREATE STREAM big AS SELECT src, bytes FROM packets WHERE bytes > 100;"


def stages(*queries: str, streams: str = STREAMS) -> Stages:
    return Stages.of(catalog_of("".join(queries), streams))


def of_query(network: Network, query: str) -> set[str]:
    own = identities(network)
    return {own[name] for name in network.operators_of(query)}


@pytest.mark.parametrize("query", [LARGE, SUMS, JOINED])
def test_operators_keep_their_identity_when_other_queries_come(query: str) -> None:
    alone, beside = stages(query), stages(LARGE.replace("large", "twin"), SUMS.replace("sums", "s"), query)
    [name] = alone.lowered.queries
    assert of_query(alone.lowered, name) == of_query(beside.lowered, name)
    assert definitions(alone.unshared)[name] == definitions(beside.unshared)[name]


def test_the_order_of_streams_that_a_join_does_not_read_is_no_part_of_it() -> None:
    first = "CREATE STREAM a (ts TIMESTAMP, x INT) FROM json OPTIONS (path '/a', timestamp 'ts');"
    before, after = stages(JOINED), stages(JOINED, streams=first + STREAMS)
    assert of_query(before.lowered, "joined") == of_query(after.lowered, "joined")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (LARGE, LARGE.replace("> 5", "> 6")),
        (SUMS, SUMS.replace("10 SECONDS", "20 SECONDS")),
        (JOINED, JOINED.replace("ROWS 3", "ROWS 4")),
        (LARGE, LARGE.replace("SELECT src", "SELECT bytes")),
    ],
)
def test_a_query_that_computes_something_else_is_another_one(one: str, other: str) -> None:
    before, after = stages(one).unshared, stages(other).unshared
    [name] = before.queries
    assert definitions(before)[name] != definitions(after)[name]


def test_a_query_over_a_stream_with_other_columns_is_another_one() -> None:
    other = STREAMS.replace("bytes INT", "bytes BIGINT")
    assert definitions(stages(LARGE).unshared) != definitions(stages(LARGE, streams=other).unshared)


def test_where_a_stream_is_read_from_is_no_part_of_a_query() -> None:
    moved = STREAMS.replace("/p", "/elsewhere")
    assert definitions(stages(LARGE).unshared) == definitions(stages(LARGE, streams=moved).unshared)


def test_queries_with_different_starts_share_no_operator() -> None:
    twin = LARGE.replace("QUERY large AS SELECT src", "QUERY twin AS SELECT bytes")
    both = stages(LARGE, twin).unshared
    assert len(share_subplans(both).operators) == 3
    for other in (Start(7, 2), Start(8, 1)):
        started = share_subplans(with_starts(both, {"twin": Start(7, 1), "large": other}))
        assert len(started.operators) == len(both.operators) == 4
        assert not of_query(started, "large") & of_query(started, "twin")
    again = share_subplans(with_starts(both, {"twin": Start(7, 1), "large": Start(7, 1)}))
    assert len(again.operators) == 3


def test_a_start_holds_for_all_streams_of_a_query_and_its_subqueries() -> None:
    nested = """CREATE QUERY nested AS SELECT n FROM
    (SELECT src, bytes AS n FROM packets WHERE bytes > 1) [RANGE 3 SECONDS] AS p, links [NOW] AS l
    WHERE p.src = l.src;"""
    network = with_starts(stages(nested).unshared, {"nested": Start(9, 2)})
    inputs = [i for o in network.operators.values() for i in o.inputs if isinstance(i, StreamInput)]
    assert len(inputs) == 2 and {i.since for i in inputs} == {Start(9, 2)}


def test_a_derived_stream_has_a_definition_of_its_own() -> None:
    reader = "CREATE QUERY reader AS SELECT src FROM big;"
    ordered = "CREATE QUERY ordered AS SELECT src, COUNT(*) AS n FROM big [ROWS 3] GROUP BY src;"
    one, two = stages(LARGE_STREAM, reader).unshared, stages(LARGE_STREAM, reader, ordered).unshared
    assert derived_streams(one) == ("big",)
    # the second reader has its tuples numbered, which leaves the stream what it was
    assert definitions(one)["big"] == definitions(two)["big"]


def test_a_query_over_stored_relations_is_the_one_that_earlier_versions_have_begun() -> None:
    """The hash is that of checkpoints: another one here would start such queries anew on an upgrade."""
    query = """CREATE QUERY known AS SELECT p.src, h.n FROM packets AS p JOIN (SELECT a.ip, COUNT(*) AS n
        FROM hosts AS a LEFT JOIN hosts AS b ON a.owner = b.owner WHERE a.ip > 'x' GROUP BY a.ip) AS h
        ON h.ip = p.src;"""
    assert definitions(stages(query, streams=STREAMS + HOSTS).unshared) == {"known": "550343e46fc30d39"}


def test_rows_that_are_generated_otherwise_make_another_query() -> None:
    query = """CREATE QUERY known AS SELECT p.src, h.x FROM packets AS p JOIN (SELECT ip, x
        FROM hosts LATERAL VIEW explode(split(owner, ',')) t AS x) AS h ON h.ip = p.src;"""
    one, other = (stages(text, streams=STREAMS + HOSTS) for text in (query, query.replace("','", "';'")))
    assert definitions(one.unshared) != definitions(other.unshared)

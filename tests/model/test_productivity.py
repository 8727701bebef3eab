"""Which keys decide how many matches a tuple finds."""

from __future__ import annotations

import pytest
from tests.planning.support import catalog_of

from headgate.errors import SetupError
from headgate.model.network import Network
from headgate.model.productivity import KeyMatch
from headgate.planning.lower import Stages
from headgate.statistics.store import JoinSelectivities

STREAMS = "".join(
    f"CREATE STREAM {n} (ts TIMESTAMP, k INT, j STRING) FROM kafka OPTIONS (timestamp 'ts');" for n in "abc"
)
WITH = "WITH (overload = 'shed', utility = 'Productivity ( )')"


def network_of(where: str, sources: str = "a [ROWS 9], b [ROWS 9], c [ROWS 9]", others: str = "") -> Network:
    query = f"CREATE QUERY q {WITH} AS SELECT a.k FROM {sources} WHERE {where};"
    return Stages.of(catalog_of(query + others, STREAMS)).lowered


def test_keys_are_over_the_columns_of_a_stream_and_meet_those_of_the_other_side() -> None:
    network = network_of("a.k = b.k AND lower(b.j) = c.j AND a.k < c.k AND a.k > 3")
    found = network.productivity()
    assert found == {
        "a": [(KeyMatch("`k`", "q.join.1: `b__k`"),)],
        "b": [(KeyMatch("`k`", "q.join.0: `a__k`"), KeyMatch("lower(`j`)", "q.join.2: `c__j`"))],
        "c": [(KeyMatch("`j`", "q.join.1: lower(`b__j`)"),)],
    }
    assert network.utilities() == dict.fromkeys("abc", "productivity()")


def test_a_stream_joined_with_itself_is_ranked_by_both_of_its_sides() -> None:
    query = f"CREATE QUERY q {WITH} AS SELECT x.k FROM a [ROWS 9] AS x, a [ROWS 9] AS y WHERE x.k = y.j;"
    network = Stages.of(catalog_of(query, STREAMS)).lowered
    assert network.productivity() == {
        "a": [(KeyMatch("`k`", "q.join.1: `y__j`"),), (KeyMatch("`j`", "q.join.0: `x__k`"),)]
    }


def test_a_query_that_compares_no_keys_is_refused() -> None:
    with pytest.raises(SetupError, match="query q joins no windows of streams on equal keys"):
        network_of("a.k < b.k AND b.k < c.k").utilities()


def test_a_stream_has_one_utility() -> None:
    other = "CREATE QUERY r WITH (overload = 'shed', utility = 'k') AS SELECT k FROM a;"
    with pytest.raises(SetupError, match="stream a has one drop box"):
        network_of("a.k = b.k AND b.k = c.k", others=other).utilities()


def test_counts_of_keys_are_multiples_of_their_mean_and_follow_the_latest() -> None:
    joins = JoinSelectivities()
    joins.add_keys({"t": [3, 1, 0, 0]})
    assert joins.key_tables == {"t": (3.0, 1.0, 0.0, 0.0)}
    joins.add_keys({"t": [0, 0, 0, 10]})
    assert joins.key_tables == {"t": (1.5, 0.5, 0.0, 2.0)}
    joins.add_keys({"t": [0, 0, 0, 0]})
    assert joins.key_tables == {"t": (1.5, 0.5, 0.0, 2.0)}

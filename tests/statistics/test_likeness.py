"""Operators that were not measured stand for themselves as they were, or for the nearest of their kind."""

from __future__ import annotations

import pytest

from headgate import cql
from headgate.model.joins import WindowJoin
from headgate.model.network import Network
from headgate.model.operator import Select
from headgate.model.profile import Profile
from headgate.planning.catalog import Catalog
from headgate.planning.lower import lower
from headgate.planning.queries import bind
from headgate.planning.rules import optimize
from headgate.session.run_options import RunOptions
from headgate.session.statements import perform
from headgate.statistics.completeness import operator_profiles
from headgate.statistics.likeness import with_estimates
from headgate.statistics.profile_file import Measured

SCRIPT = """
CREATE STREAM r (ts TIMESTAMP, k INT, v INT) FROM rate OPTIONS (rowsPerSecond '100', timestamp 'ts');
CREATE STREAM s (ts TIMESTAMP, k INT, v INT) FROM rate OPTIONS (rowsPerSecond '100', timestamp 'ts');
CREATE QUERY short AS SELECT r.v FROM r [RANGE 1 SECOND], s [RANGE 1 SECOND] WHERE r.k = s.k INTO noop;
CREATE QUERY long AS SELECT r.v FROM r [RANGE 1 MINUTE], s [RANGE 1 MINUTE] WHERE r.k = s.k INTO noop;
CREATE QUERY new AS SELECT r.k FROM r [RANGE 50 SECONDS], s [RANGE 50 SECONDS] WHERE r.k = s.k INTO noop;
CREATE QUERY of_s AS SELECT v FROM s WHERE v > 1 AND k < 3 INTO noop;
CREATE QUERY of_r AS SELECT v FROM r WHERE v > 2 INTO noop;
CREATE QUERY filter AS SELECT v FROM r WHERE v > 3 AND k > 7 INTO noop;
"""


@pytest.fixture(scope="module")
def network() -> Network:
    catalog, options = Catalog(), RunOptions()
    for statement in cql.parse(SCRIPT, "likeness.sql"):
        perform(statement, catalog, options)
    return lower([optimize(bind(query, catalog)) for query in catalog.queries.values()], catalog)


def operator_of(network: Network, query: str, kind: type) -> str:
    return next(n for n in network.operators_of(query) if type(network.operators[n]) is kind)


def measured(network: Network, *lost: str) -> Measured:
    """Every operator has a cost of its own, but for those of lost queries."""
    names = {name for query in lost for name in network.operators_of(query)}
    profiles = {
        name: Profile(1e-6 * (1 + number), samples=9)
        for number, name in enumerate(network.operators)
        if name not in names
    }
    return Measured(profiles)


def test_a_join_stands_for_the_one_with_windows_of_about_the_same_length(network: Network) -> None:
    new, long = (operator_of(network, query, WindowJoin) for query in ("new", "long"))
    known = measured(network, "new")
    found, likes = with_estimates(known, network)
    assert likes[new] == long
    own = found.profiles[new]
    assert own.seconds_per_tuple == known.profiles[long].seconds_per_tuple
    assert own.samples == 0 and own.seconds_per_tuple_error >= own.seconds_per_tuple
    assert set(operator_profiles(found, network)) == set(network.operators)


def test_a_selection_stands_for_one_of_the_same_stream_before_one_of_as_many_conditions(
    network: Network,
) -> None:
    new, of_r = (operator_of(network, query, Select) for query in ("filter", "of_r"))
    assert with_estimates(measured(network, "filter"), network)[1][new] == of_r
    other = operator_of(network, "of_s", Select)
    assert with_estimates(measured(network, "filter", "of_r"), network)[1][new] == other


def test_what_has_no_like_stays_unknown_and_what_is_known_stays_as_it_is(network: Network) -> None:
    found, likes = with_estimates(measured(network, "short", "long", "new"), network)
    joins = {name for name, own in network.operators.items() if type(own) is WindowJoin}
    assert joins and not joins & likes.keys() and not joins & found.profiles.keys()
    complete = measured(network)
    assert with_estimates(complete, network) == (complete, {})


def test_a_changed_operator_is_taken_to_be_as_it_was(network: Network) -> None:
    name = operator_of(network, "filter", Select)
    known = measured(network)
    changed = Measured(known.profiles, definitions={name: "of another condition"})
    found, likes = with_estimates(changed, network)
    assert likes == {name: name}
    assert found.profiles[name].seconds_per_tuple == known.profiles[name].seconds_per_tuple

"""Orders that callers ask for, where queries share a join."""

from __future__ import annotations

import pytest
from tests.planning.support import catalog_of

from headgate.adaptation.wishes import Wishes
from headgate.errors import SetupError
from headgate.planning.stages import Stages

TEXT = "".join(
    f"""CREATE QUERY {query} AS SELECT p.{column} FROM packets [ROWS 9] p, flows [ROWS 5] f
      WHERE p.src = f.src;"""
    for query, column in (("one", "src"), ("two", "dst"))
)


def test_queries_that_share_a_join_have_one_order() -> None:
    catalog = catalog_of(TEXT)
    network = Stages.of(catalog).lowered
    assert Wishes.checked(network, {}, None, {"two": ["f", "p"]}).orders == {"one.join": ("f", "p")}
    both = {"one": ["p", "f"], "two": ["f", "p"]}
    with pytest.raises(SetupError, match="query two shares its join with one; give all of them one order"):
        Wishes.checked(network, {}, None, both)
    with pytest.raises(SetupError, match="the order p does not fit query two, which has p, f"):
        Wishes.checked(network, {}, None, {"two": ["p"]})

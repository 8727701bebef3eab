"""Sharing what several queries have in common."""

from __future__ import annotations

from tests.planning.support import bound, catalog_of

from headgate.model.joins import WindowJoin
from headgate.model.network import Network
from headgate.model.operator import Select
from headgate.model.operator_inputs import StreamInput
from headgate.planning.lower import lower, share_subplans
from headgate.planning.rules import optimize


def network_of(text: str) -> Network:
    catalog = catalog_of(text)
    return lower([optimize(plan) for plan in bound(text, catalog)], catalog)


TWO = """
CREATE QUERY a AS SELECT p.src FROM packets [ROWS 9] p, flows [ROWS 5] f WHERE p.src = f.src AND p.bytes > 1;
CREATE QUERY b AS SELECT p.dst, f.flow FROM packets [ROWS 9] p, flows [ROWS 5] f
  WHERE p.src = f.src AND p.bytes > 1 AND p.dst = f.src;
CREATE QUERY c AS SELECT p.dst, f.flow FROM packets [ROWS 9] p, flows [ROWS 5] f
  WHERE p.src = f.src AND p.bytes > 1;
"""


def test_a_common_prefix_of_several_queries_runs_once() -> None:
    shared = share_subplans(network_of(TWO))
    assert sorted(shared.operators) == [
        "a.join",
        "a.project",
        "a.select_p",
        "b.join",
        "b.project",
        "c.project",
    ]
    assert shared.readers("a.select_p") == ("a.join", "b.join")
    assert shared.readers("a.join") == ("a.project", "c.project")
    assert [query.outputs for query in shared.queries.values()] == [
        ("a.project",),
        ("b.project",),
        ("c.project",),
    ]


def test_a_shared_operator_reads_the_columns_of_all() -> None:
    shared = share_subplans(network_of(TWO))
    select, join = shared.operators["a.select_p"], shared.operators["a.join"]
    assert isinstance(select, Select) and isinstance(select.input, StreamInput)
    assert set(select.input.columns) == {"src", "dst", "bytes"}
    assert isinstance(join, WindowJoin) and isinstance(join.sides[1].input, StreamInput)
    assert set(join.sides[1].input.columns) == {"src", "flow"}


def test_other_windows_aliases_or_predicates_are_not_shared() -> None:
    variants = [("p", 9, 1), ("p", 8, 1), ("x", 9, 1), ("p", 9, 2)]
    text = "".join(
        f"""CREATE QUERY q{number} AS SELECT {p}.src FROM packets [ROWS {rows}] {p}, flows [ROWS 5] f
          WHERE {p}.src = f.src AND {p}.bytes > {least};"""
        for number, (p, rows, least) in enumerate(variants)
    )
    network = network_of(text)
    assert list(share_subplans(network).operators) == list(network.operators)


def test_relations_and_aggregates_are_shared_too() -> None:
    text = "".join(
        f"""CREATE QUERY {name} AS SELECT {items} FROM packets [RANGE 9 s] p, hosts h WHERE src = ip
          GROUP BY owner;"""
        for name, items in (("a", "owner, COUNT(*) AS n"), ("b", "COUNT(*) AS n, owner"))
    )
    shared = share_subplans(network_of(text))
    assert list(shared.operators) == ["a.relation_h", "a.aggregate", "a.project", "b.project"]


def test_predicates_in_another_order_are_the_same() -> None:
    text = "".join(
        f"CREATE QUERY {name} AS SELECT src FROM packets WHERE {where};"
        for name, where in (("a", "bytes > 1 AND dst = 'x'"), ("b", "dst = 'x' AND bytes > 1"))
    )
    assert list(share_subplans(network_of(text)).operators) == ["a.select_packets", "a.project", "b.project"]


def test_the_network_knows_who_does_the_work_and_for_whom() -> None:
    shared = share_subplans(network_of(TWO))
    assert shared.running("c.join") == "a.join" and shared.running("b.join") == "b.join"
    assert shared.queries_of("a.select_p") == ("a", "b", "c")
    assert shared.queries_of("a.join") == ("a", "c")
    assert shared.operators_of("c") == ("a.select_p", "a.join", "c.project")
    assert shared.streams_of("c") == {"packets", "flows"}
    assert shared.changed(queries=tuple(shared.queries.values())).shared == shared.shared


def test_nothing_in_common_leaves_a_network_and_its_checkpoints_as_they_are() -> None:
    network = network_of(TWO.replace("b AS", "b WITH (latency = '1 s') AS"))
    alone = network_of("CREATE QUERY a AS SELECT src FROM packets WHERE bytes > 1;")
    assert share_subplans(alone).fingerprint == alone.fingerprint
    assert share_subplans(network).fingerprint != network.fingerprint

from __future__ import annotations

import json

from tests.planning.support import bound, catalog_of

from headgate.model.joins import JoinSide, RelationJoin, WindowJoin
from headgate.model.network import Network
from headgate.model.operator import Aggregate
from headgate.model.operator_inputs import OperatorInput, StreamInput
from headgate.model.window import RowWindow, TimeWindow, UnboundedWindow
from headgate.planning.lower import describe_json, lower
from headgate.planning.rules import optimize


def network_of(text: str, optimized: bool = True) -> Network:
    catalog = catalog_of(text)
    plans = bound(text, catalog)
    return lower([optimize(plan) for plan in plans] if optimized else plans, catalog)


def test_only_what_is_used_is_included_streams_in_order_of_declaration() -> None:
    network = network_of("CREATE QUERY q AS SELECT f.src FROM flows [NOW] f, packets [NOW] p, owners")
    assert list(network.streams) == ["packets", "flows"]
    assert list(network.relations) == ["owners"]


def test_sides_stand_in_order_of_from_and_ties_break_by_declaration() -> None:
    network = network_of(
        """CREATE QUERY q AS SELECT f.src FROM flows [ROWS 2] f, packets [PARTITION BY SRC ROWS 3] p,
             flows [RANGE 2 s SLIDE 1 s] g WHERE f.flow > 1"""
    )
    join = network.operators["q.join"]
    assert isinstance(join, WindowJoin)
    assert join.sides == (
        JoinSide(OperatorInput("q.select_f"), "f", "flows", RowWindow(2), (1, 0)),
        JoinSide(StreamInput("packets", "p", ()), "p", "packets", RowWindow(3, ("src",)), (0, 1)),
        JoinSide(StreamInput("flows", "g", ()), "g", "flows", TimeWindow(2_000_000, 1_000_000), (1, 2)),
    )


def test_an_aggregate_knows_its_stream_and_window_across_relations() -> None:
    network = network_of(
        "CREATE QUERY q AS SELECT COUNT(*) FROM packets p, hosts h WHERE src = ip AND bytes > 1"
    )
    aggregate = network.operators["q.aggregate"]
    assert isinstance(aggregate, Aggregate)
    assert (aggregate.stream, aggregate.alias, aggregate.window) == ("packets", "p", UnboundedWindow())
    relation = network.operators["q.relation_h"]
    assert isinstance(relation, RelationJoin)
    assert (relation.relation, relation.alias, relation.columns) == ("hosts", "h", ("ip",))
    assert network.path_from("q.select_p") == ("q.select_p", "q.relation_h", "q.aggregate", "q.project")


def test_now_is_a_range_of_zero() -> None:
    aggregate = network_of("CREATE QUERY q AS SELECT COUNT(*) FROM packets [NOW]").operators["q.aggregate"]
    assert isinstance(aggregate, Aggregate)
    assert aggregate.window == TimeWindow(0)


def test_a_query_ends_in_the_project_of_every_branch() -> None:
    text = """CREATE QUERY q WITH (latency = '2 s', memory = '1 MB', overload = 'shed') AS
      SELECT src FROM packets WHERE bytes > 1 UNION ALL SELECT src FROM flows INTO noop"""
    query = network_of(text).queries["q"]
    assert query.outputs == ("q.1.project", "q.2.project")
    assert (query.latency_s, query.memory_bytes, query.overload) == (2.0, 2**20, "shed")
    assert query.sink.format == "noop"


def test_a_plan_that_was_not_optimized_runs_too() -> None:
    network = network_of(
        "CREATE QUERY q AS SELECT p.src FROM packets [NOW] p, flows [NOW] f, hosts WHERE p.bytes > 1",
        optimized=False,
    )
    assert list(network.operators) == ["q.join", "q.relation_hosts", "q.where", "q.project"]


def test_layout_and_case_leave_the_fingerprint_alone() -> None:
    tidy = network_of("CREATE QUERY q AS SELECT src FROM packets WHERE bytes > 1")
    messy = network_of("CREATE QUERY q AS SELECT SRC FROM Packets WHERE BYTES\n  > -- many\n 1")
    other = network_of("CREATE QUERY q AS SELECT src FROM packets WHERE bytes > 2")
    assert tidy.fingerprint == messy.fingerprint != other.fingerprint


def test_a_network_is_json() -> None:
    described = json.loads(
        json.dumps(
            describe_json(
                network_of("CREATE QUERY q AS SELECT src, owner FROM packets, hosts WHERE src = ip")
            )
        )
    )
    assert [stream["name"] for stream in described["streams"]] == ["packets"]
    assert [relation["name"] for relation in described["relations"]] == ["hosts"]
    [query] = described["queries"]
    assert query["branches"][0]["name"] == "q.project"
    assert query["branches"][0]["inputs"][0]["name"] == "q.relation_hosts"

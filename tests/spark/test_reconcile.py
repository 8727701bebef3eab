"""What becomes of the state of a checkpoint when its queries change; no JVM is needed for that."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.planning.support import catalog_of

from headgate.model.identity import identities
from headgate.model.joins import WindowUpdate
from headgate.model.network import Network
from headgate.model.operator_inputs import StreamInput
from headgate.model.shedding import TickSettings
from headgate.planning.lower import Stages
from headgate.session.changing import network_after
from headgate.spark.manifest import BlockRef, Manifest, OperatorState
from headgate.spark.reconcile import InputStreams, Reconciliation, Transition, carried_over, source_names
from headgate.spark.stream_log import log_needs

STREAMS = """
CREATE STREAM packets (ts TIMESTAMP, src STRING, bytes INT) FROM json OPTIONS (path '/p', timestamp 'ts');
CREATE STREAM links (ts TIMESTAMP, src STRING, up INT) FROM json OPTIONS (path '/l', timestamp 'ts');
"""
LARGE = "CREATE QUERY large AS SELECT src FROM packets WHERE bytes > 5;"
ALSO_LARGE = "CREATE QUERY also AS SELECT src FROM packets WHERE bytes > 5;"
SUMS = """CREATE QUERY sums AS SELECT src, SUM(bytes) AS n FROM packets [RANGE 10 SECONDS SLIDE 5 SECONDS]
GROUP BY src;"""
LAST = "CREATE QUERY last_ones AS SELECT src, COUNT(*) AS n FROM packets [ROWS 3] GROUP BY src;"
LINKS = "CREATE QUERY up AS SELECT src FROM links WHERE up = 1;"


def stages(*queries: str, streams: str = STREAMS) -> Stages:
    return Stages.of(catalog_of("".join(queries), streams))


def reads_logs(network: Network) -> dict[str, InputStreams]:
    """As ``Prepared.input_streams``, for operators that read streams directly."""
    found = {}
    for name, operator in network.operators.items():
        inputs = tuple(i if isinstance(i, StreamInput) else None for i in operator.inputs)
        assert not isinstance(operator, WindowUpdate)
        found[name] = InputStreams(inputs, (None,) * len(inputs))
    return found


def after(before: Manifest, planned: Stages) -> tuple[Manifest, Transition, Network]:
    transition = Reconciliation(before, planned.unshared).transition()
    network = network_after(planned, transition)
    needs = {name: log_needs(network.operators.values(), name) for name in network.streams}
    return carried_over(before, transition, network, reads_logs(network), needs), transition, network


def block(path: str, min_ts: int, max_ts: int) -> BlockRef:
    return BlockRef(path, 10, 100, min_ts, max_ts)


def ticked(planned: Stages, max_ts: int = 1_000, whole_from_ts: int = 400) -> Manifest:
    """The manifest of a first run after some ticks; its operators hold a block and have come to 900."""
    manifest, _, network = after(Manifest(), planned)
    held = block("blocks/000000003/packets", 500, max_ts)
    operators = {
        name: replace(state, progress_ts=900, blocks=tuple((held,) for _ in state.blocks))
        for name, state in manifest.operators.items()
    }
    streams = {
        name: replace(state, max_ts=max_ts, whole_from_ts=whole_from_ts)
        for name, state in manifest.streams.items()
    }
    return replace(
        manifest,
        batch_id=7,
        operators=operators,
        streams=streams,
        rows_out=dict.fromkeys(network.queries, 5),
        paused=("large",),
    )


def test_the_same_queries_go_on_and_nothing_changes() -> None:
    before = ticked(stages(LARGE, SUMS))
    manifest, transition, _ = after(before, stages(LARGE, SUMS))
    assert not transition.changes
    assert manifest == before


def test_a_document_of_it_can_be_read_again() -> None:
    before = ticked(stages(LARGE, SUMS))
    assert Manifest.from_json(before.to_json()) == before


def test_what_is_gone_ends_and_its_blocks_go_with_it() -> None:
    before = ticked(stages(LARGE, SUMS))
    manifest, transition, network = after(before, stages(SUMS))
    assert transition.goes_on == ("sums",) and transition.ends == ("large",)
    assert manifest.operators == {name: before.operators[name] for name in network.operators}
    assert manifest.rows_out == {"sums": 5} and manifest.paused == ()
    assert manifest.epoch == 1


def test_an_operator_keeps_its_state_when_the_query_that_it_was_named_after_goes() -> None:
    before = ticked(stages(LARGE, ALSO_LARGE))
    assert "also.select_packets" not in before.operators
    manifest, _, _ = after(before, stages(ALSO_LARGE))
    assert manifest.operators["also.select_packets"] == before.operators["large.select_packets"]


def test_a_new_query_sees_what_comes_after_the_latest_tuple() -> None:
    before = ticked(stages(LARGE))
    manifest, transition, network = after(before, stages(LARGE, ALSO_LARGE))
    assert transition.goes_on == ("large",) and transition.starts == ("also",)
    assert transition.registered["also"].start_us == 1_001
    assert manifest.operators["large.select_packets"] == before.operators["large.select_packets"]
    assert manifest.operators["also.select_packets"].blocks == ((),)
    own = network.operators["also.select_packets"].inputs[0]
    assert isinstance(own, StreamInput) and own.since is not None and own.since.us == 1_001


def test_a_query_that_starts_with_the_log_sees_all_that_it_holds_whole() -> None:
    from_log = ALSO_LARGE.replace("QUERY also", "QUERY also WITH (start = 'log')")
    before = ticked(stages(LARGE))
    manifest, transition, _ = after(before, stages(LARGE, from_log))
    assert transition.registered["also"].start_us == 400
    assert manifest.operators["also.select_packets"].blocks == before.operators["large.select_packets"].blocks


def test_tuples_that_went_with_their_last_query_are_not_promised_to_later_ones() -> None:
    from_log = ALSO_LARGE.replace("QUERY also", "QUERY also WITH (start = 'log')")
    small = "CREATE QUERY small AS SELECT src, bytes FROM packets WHERE bytes < 9;"
    # the new query starts after the latest tuple, and the log holds nothing before it
    manifest, _, _ = after(ticked(stages(LARGE)), stages(small))
    assert manifest.streams["packets"].whole_from_ts == 1_001
    _, transition, _ = after(manifest, stages(small, from_log))
    assert transition.registered["also"].start_us == 1_001


@pytest.mark.parametrize("query", [SUMS, LAST])
def test_a_log_without_the_columns_or_numbers_that_a_query_needs_is_of_no_use(query: str) -> None:
    name = query.split()[2]
    wanted = query.replace(f"QUERY {name}", f"QUERY {name} WITH (start = 'log')", 1)
    small = "CREATE QUERY small AS SELECT src FROM packets;"
    manifest, transition, _ = after(ticked(stages(small)), stages(small, wanted))
    assert transition.registered[name].start_us == 1_001
    # later queries find these columns from then on
    assert manifest.streams["packets"].whole_from_ts == 1_001


def test_numbers_stay_when_the_query_that_needed_them_goes() -> None:
    manifest, _, _ = after(ticked(stages(LARGE, LAST)), stages(LARGE))
    assert manifest.streams["packets"].is_numbered


def test_a_stream_comes_with_its_first_query_and_is_read_from_its_beginning() -> None:
    manifest, transition, network = after(ticked(stages(LARGE)), stages(LARGE, LINKS))
    assert transition.registered["up"].start_us is None
    assert source_names(ticked(stages(LARGE)), network, transition.epoch) == {"links": "links__1"}
    assert manifest.streams["links"].source == "links__1"
    assert manifest.streams["packets"].source == "packets"


def test_a_stream_that_is_read_again_is_another_one() -> None:
    without, _, _ = after(ticked(stages(LARGE, LINKS)), stages(LARGE))
    again, transition, _ = after(without, stages(LARGE, LINKS))
    assert "links" not in without.streams
    assert again.streams["links"].source == "links__2"
    assert transition.registered["up"].start_us is None


def test_a_changed_query_starts_anew() -> None:
    changed = LARGE.replace("> 5", "> 6")
    manifest, transition, _ = after(ticked(stages(LARGE, SUMS)), stages(changed, SUMS))
    assert (transition.replaced, transition.starts, transition.ends) == (("large",), ("large",), ())
    assert manifest.operators["large.select_packets"].blocks == ((),)
    assert manifest.rows_out == {"sums": 5}
    assert transition.lines() == [
        "query sums goes on",
        "query large has changed and starts anew at 1970-01-01T00:00:00.001001Z",
    ]


def test_queries_that_come_one_after_the_other_share_nothing_even_at_the_same_timestamp() -> None:
    first, _, _ = after(ticked(stages(LARGE)), stages(LARGE, ALSO_LARGE))
    third = ALSO_LARGE.replace("also", "third")
    _, transition, network = after(first, stages(LARGE, ALSO_LARGE, third))
    assert transition.registered["third"].start_us == transition.registered["also"].start_us
    assert {"also.select_packets", "third.select_packets"} <= network.operators.keys()


def test_an_altered_quality_of_service_leaves_a_query_the_same() -> None:
    altered = LARGE.replace("QUERY large", "QUERY large WITH (latency = '3 s')")
    manifest, transition, network = after(ticked(stages(LARGE)), stages(altered))
    assert not transition.changes and network.queries["large"].latency_s == 3
    assert manifest.epoch == 0


def test_a_stream_that_a_new_query_may_not_lose_is_shed_no_more() -> None:
    shedding = LARGE.replace("QUERY large", "QUERY large WITH (overload = 'shed')")
    before = replace(ticked(stages(shedding)), settings=TickSettings(keep={"packets": 0.5}))
    assert after(before, stages(shedding))[0].settings.keep == {"packets": 0.5}
    assert after(before, stages(shedding, SUMS))[0].settings.keep == {}


def test_operators_of_one_network_have_identities_of_their_own() -> None:
    network = stages(LARGE, ALSO_LARGE, SUMS, LAST, LINKS).lowered
    assert len(set(identities(network).values())) == len(network.operators)


def test_a_manifest_lists_the_blocks_of_logs_by_stream() -> None:
    one, two = block("blocks/1/packets", 0, 1), block("blocks/2/queue", 0, 1)
    state = OperatorState(blocks=((one,), (two,)), reads=("packets", ""))
    assert Manifest(operators={"q": state}).logs() == {"packets": {one.path: one}}

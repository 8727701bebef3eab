"""What a run finds in its checkpoint: the last manifest, output of a tick without one, queries of before."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from headgate.errors import HeadgateError, SetupError
from headgate.spark.arrival.dead_letters import DeadLetters
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.manifest import Manifest
from headgate.spark.outbox import DeliveringSink
from headgate.spark.prepared import Prepared
from headgate.spark.reconcile import Transition, carried_over
from headgate.spark.sinks import FileSink, Sink
from headgate.spark.stream_log import log_needs


def found_manifest(checkpoint: Checkpoint) -> Manifest:
    """The last manifest, which is verified later; an empty one if there is none, or it is damaged."""
    ticks = checkpoint.history.ticks()
    with suppress(HeadgateError):
        return checkpoint.history.read(ticks[-1]) if ticks else Manifest()
    return Manifest()


def discard_after(batch_id: int, outputs: Iterable[Sink | DeadLetters]) -> None:
    """Discard output of ticks after the last manifest: they are re-executed, perhaps with other cuts."""
    for output in outputs:
        if isinstance(output, (FileSink, DeadLetters, DeliveringSink)):
            output.discard_after(batch_id)


def carry_over(
    checkpoint: Checkpoint,
    before: Manifest,
    transition: Transition,
    prepared: Prepared,
    script: str,
    is_named: bool,
) -> Manifest:
    """The state of the queries that go on, with that of new ones; durable if any came or went, or are first.

    With ``is_named``, the streaming query knows its sources by name, not by position.
    """
    if before.batch_id != transition.from_tick:
        raise SetupError(f"checkpoint {checkpoint.root} was used by another run meanwhile; try again")
    network = prepared.network
    if before.streams and not is_named and list(before.streams) != list(network.streams):
        message = "streams that are DataFrames cannot come and go"
        raise SetupError(f"{message}; declare them with CREATE STREAM, or choose another checkpoint")
    inputs = {name: prepared.input_streams(name) for name in network.operators}
    needs = {name: log_needs(network.operators.values(), name) for name in network.streams}
    after = replace(carried_over(before, transition, network, inputs, needs), script=script)
    # those of a run that ends before its first tick are found again by their script
    is_first = before.batch_id < 0 and not before.registered
    if is_first or transition.epoch != before.epoch or (before.registered and before.script != script):
        checkpoint.adopt(network, after)
    return after

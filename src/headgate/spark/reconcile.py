"""Reconciling the state of a checkpoint with a network: what goes on, what starts, what ends.

Queries that are the same go on with their state. A new query sees the tuples from a timestamp on, which is
fixed here: its results are those of a run whose streams begin at that timestamp.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from headgate.errors import DamagedStateError, SetupError
from headgate.model.identity import definitions, identities, owner_of, stream_identity
from headgate.model.joins import WindowJoin, WindowUpdate
from headgate.model.network import Network
from headgate.model.operator import Eddy, Operator
from headgate.model.operator_inputs import DerivedInput, Start, StreamInput
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.manifest import (
    BlockRef,
    Manifest,
    OperatorState,
    Registration,
    StreamState,
    kept_paths,
)
from headgate.spark.sql import BEGINNING_US, END_US
from headgate.spark.stream_log import log_needs

Needs = tuple[frozenset[str], bool]
"""Columns of a log in lower case, and whether tuples have to be numbered."""


@dataclass(frozen=True)
class Transition:
    """From the network of a manifest to another one."""

    registered: Mapping[str, Registration]
    """Queries and derived streams of the new network."""
    epoch: int
    goes_on: tuple[str, ...] = ()
    starts: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    """Of those that start: queries of which another version ends."""
    ends: tuple[str, ...] = ()
    from_tick: int = -1
    """The tick of the manifest that it is for."""
    shares: bool = True
    """Whether equal operators are shared."""

    @property
    def changes(self) -> bool:
        """Whether any query starts or ends."""
        return bool(self.starts or self.ends)

    @property
    def start_of(self) -> dict[str, Start]:
        """The starts of queries and derived streams that joined a running network."""
        return {
            name: Start(BEGINNING_US if one.start_us is None else one.start_us, one.epoch)
            for name, one in self.registered.items()
            if one.epoch
        }

    def lines(self) -> list[str]:
        """What happens to each query, a line for each."""
        begun = [f"{name} starts{self._since(name)}" for name in self.starts if name not in self.replaced]
        anew = [f"{name} has changed and starts anew{self._since(name)}" for name in self.replaced]
        return [
            *(f"query {name} goes on" for name in self.goes_on),
            *(f"query {text}" for text in (*begun, *anew)),
            *(f"query {name} ends; its results stay" for name in self.ends),
        ]

    def news(self) -> list[str]:
        """The same if a checkpoint has queries and not all of them just go on; otherwise nothing."""
        return self.lines() if self.from_tick >= 0 and self.changes else []

    def to_json(self) -> dict[str, object]:
        """The document that ``run --dry-run --json`` prints; starts are seconds, None for all tuples."""
        starts = {name: self.registered[name].start_us for name in self.starts}
        return {
            "goes_on": list(self.goes_on),
            "starts": {name: None if us is None else us / 1e6 for name, us in starts.items()},
            "replaced": list(self.replaced),
            "ends": list(self.ends),
        }

    def _since(self, name: str) -> str:
        start_us = self.registered[name].start_us
        return " at the beginning of its streams" if start_us is None else f" at {shown_time(start_us)}"


def shown_time(us: int) -> str:
    """A timestamp as messages show it."""
    try:
        return datetime.fromtimestamp(us / 1e6, tz=timezone.utc).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return f"{us / 1e6:.6f} s"


@dataclass(frozen=True)
class Reconciliation:
    """Finds out what a manifest means for a network that is not shared and has no starts yet."""

    before: Manifest
    network: Network

    def transition(self) -> Transition:
        """Decide what goes on and where the others start."""
        before, own = self.before, definitions(self.network)
        if not before.registered and before.batch_id < 0:
            return Transition(_first(self.network), 0, starts=tuple(self.network.queries))
        same = {n for n, text in own.items() if n in before.registered and self._same(n, text)}
        is_changed = own.keys() != same or before.registered.keys() != own.keys()
        epoch = before.epoch + is_changed
        registered = {
            name: before.registered[name]
            if name in same
            else Registration(text, self._start(name), epoch, name not in self.network.queries)
            for name, text in own.items()
        }
        queries, old = self.network.queries, before.registered
        return Transition(
            registered=registered,
            epoch=epoch,
            goes_on=tuple(name for name in queries if name in same),
            starts=tuple(name for name in queries if name not in same),
            replaced=tuple(name for name in queries if name in old and name not in same),
            ends=tuple(name for name, one in old.items() if not one.is_stream and name not in queries),
            from_tick=before.batch_id,
            shares=before.shares,
        )

    def _same(self, name: str, definition: str) -> bool:
        return self.before.registered[name].definition == definition

    def _streams(self, name: str) -> frozenset[str]:
        """The streams below a query or derived stream that were there before."""
        network = self.network
        below: set[str] = set()
        wanted = {n for n in network.operators if owner_of(n) == name}
        for operator in reversed(list(network.operators)):
            if operator in wanted:
                for source in network.operators[operator].inputs:
                    if isinstance(source, StreamInput):
                        below.add(source.stream)
                    else:
                        wanted.add(source.operator)
        return frozenset(stream for stream in below if self._is_known(stream))

    def _is_known(self, stream: str) -> bool:
        state = self.before.streams.get(stream)
        return state is not None and _is_same(state, stream, self.network) and state.max_ts > BEGINNING_US

    def _start(self, name: str) -> int | None:
        """The first timestamp that a new query sees; None if its streams begin with it."""
        streams = self._streams(name)
        if not streams:
            return None
        query = self.network.queries.get(name)
        if query is not None and query.start == "log" and self._can_read_logs(name, streams):
            start_us = max(self.before.streams[stream].whole_from_ts for stream in streams)
            return None if start_us == BEGINNING_US else start_us
        latest = [self.before.streams[stream].max_ts for stream in streams]
        if self.before.flushed:
            # at the end of input, operators go beyond the last tuple
            progress = (state.progress_ts for state in self.before.operators.values())
            latest += [ts - 1 for ts in progress if ts < END_US]
        return max(latest) + 1

    def _can_read_logs(self, name: str, streams: Iterable[str]) -> bool:
        """Whether logs hold all that a query needs: derived streams and pools keep none."""
        for operator in self.network.operators.values():
            if owner_of(operator.name) == name:
                for source in operator.inputs:
                    is_other = isinstance(source, DerivedInput) and owner_of(source.operator) != name
                    if is_other or (isinstance(source, StreamInput) and _is_placed(operator)):
                        return False
        for stream in streams:
            operators = (o for o in self.network.operators.values() if owner_of(o.name) == name)
            (columns, is_numbered), state = log_needs(operators, stream), self.before.streams[stream]
            if not columns <= set(state.columns) or is_numbered > state.is_numbered:
                return False
        return True


def _is_placed(operator: Operator) -> bool:
    """Whether an operator works for pools, and reads a queue where others read a log."""
    is_window = isinstance(operator, WindowUpdate) and not isinstance(operator, WindowJoin)
    return is_window or isinstance(operator, Eddy)


def _first(unshared: Network) -> dict[str, Registration]:
    own = definitions(unshared)
    return {name: Registration(own[name], is_stream=name not in unshared.queries) for name in own}


def transition_to(shared: Network, unshared: Network, checkpoint: Checkpoint) -> Transition:
    """What becomes of the queries of a checkpoint; ``unshared`` are the same operators as ``shared``."""
    ticks, owner = checkpoint.history.ticks(), checkpoint.check_owner()
    try:
        before = checkpoint.history.read(ticks[-1]) if ticks else Manifest()
    except DamagedStateError:
        # says which tick is good
        checkpoint.history.current()
        raise
    # manifests up to the fifth format tell nothing of their queries but whether they are the very same
    shares = owner is None or owner.fingerprint != unshared.fingerprint or not shared.shared
    is_same = owner is not None and owner.fingerprint in (shared.fingerprint, unshared.fingerprint)
    if before.registered or before.batch_id < 0 or owner is None:
        found = Reconciliation(before, unshared).transition()
        return found if before.registered else replace(found, shares=shares)
    if not is_same:
        raise SetupError(
            f"checkpoint {checkpoint.root} was written by an earlier version for other queries "
            f"({', '.join(owner.queries)}); choose another folder, or remove it to start anew"
        )
    queries, tick = tuple(shared.queries), before.batch_id
    return Transition(_first(unshared), 0, goes_on=queries, from_tick=tick, shares=shares)


@dataclass(frozen=True)
class InputStreams:
    """The streams whose logs the inputs of an operator read; None for an input with a queue.

    ``pushes`` are those that decide expiry for a row window over a queue.
    """

    reads: tuple[StreamInput | None, ...]
    pushes: tuple[StreamInput | None, ...]


def carried_over(
    before: Manifest,
    transition: Transition,
    network: Network,
    inputs: Mapping[str, InputStreams],
    needs: Mapping[str, Needs],
) -> Manifest:
    """The manifest for a network: the state of what goes on, and an empty one for what starts.

    ``network`` has the starts of the transition, ``inputs`` those of its operators; ``needs`` is what the
    logs of its streams hold from now on.
    """
    names = _names(before, network)
    logs, own = before.logs(), identities(network)
    operators = {
        name: _described(before.operators[names[name]], own[name], inputs[name])
        if name in names
        else _begun(own[name], inputs[name], logs)
        for name in network.operators
    }
    kept_blocks = kept_paths(operators)
    sheddable, renamed = network.sheddable(), {old: new for new, old in names.items()}
    settings = replace(
        before.settings,
        keep={stream: ratio for stream, ratio in before.settings.keep.items() if stream in sheddable},
        orders={renamed[n]: order for n, order in before.settings.orders.items() if n in renamed},
        # counted anew, as joins may have other names
        key_tables={},
    )
    kept = set(transition.goes_on)
    return replace(
        before,
        flushed=before.flushed and not transition.changes,
        streams={
            name: _stream_state(before, name, network, transition.epoch, needs[name]).held(
                logs.get(name, {}).values(), kept_blocks
            )
            for name in network.streams
        },
        operators=operators,
        rows_out={name: rows for name, rows in before.rows_out.items() if name in kept},
        settings=settings,
        relations={n: state for n, state in before.relations.items() if n in network.relations},
        registered=dict(transition.registered),
        epoch=transition.epoch,
        paused=tuple(name for name in before.paused if name in kept),
        shares=transition.shares,
    )


def _names(before: Manifest, network: Network) -> dict[str, str]:
    """By operator that goes on, the name under which the manifest has its state."""
    own = identities(network)
    by_identity = {state.identity: name for name, state in before.operators.items() if state.identity}
    found = {name: by_identity[identity] for name, identity in own.items() if identity in by_identity}
    # manifests up to the fifth format go with the very operators of the network
    same = {
        name: name for name, s in before.operators.items() if name in own and s.identity in ("", own[name])
    }
    return {**found, **same}


def _described(state: OperatorState, identity: str, inputs: InputStreams) -> OperatorState:
    reads = tuple(source.stream if source else "" for source in inputs.reads)
    pushes = tuple(source.stream if source else "" for source in inputs.pushes)
    return replace(state, identity=identity, reads=reads, pushes=pushes)


def _begun(identity: str, inputs: InputStreams, logs: Mapping[str, Mapping[str, BlockRef]]) -> OperatorState:
    """A new operator: what waits for it is what the logs hold from its start on."""

    def waiting(source: StreamInput | None) -> tuple[BlockRef, ...]:
        if source is None or source.since is None:
            return ()
        since_us = source.since.us
        held = [block for block in logs.get(source.stream, {}).values() if block.max_ts >= since_us]
        return tuple(sorted(held, key=lambda block: (block.first_seq or 0, block.min_ts, block.path)))

    pushing = tuple(map(waiting, inputs.pushes)) if any(inputs.pushes) else ()
    state = OperatorState(blocks=tuple(map(waiting, inputs.reads)), pushing=pushing)
    return _described(state, identity, inputs)


def _is_same(state: StreamState, stream: str, network: Network) -> bool:
    return state.identity in ("", stream_identity(network.streams[stream]))


def source_names(before: Manifest, network: Network, epoch: int) -> dict[str, str]:
    """The names of sources that differ from those of their streams.

    Spark goes on from where it has read a source of a name: a stream that comes later has a name of its own.
    """
    names = {name: _source_name(before, name, network, epoch) for name in network.streams}
    return {stream: name for stream, name in names.items() if name != stream}


def _source_name(before: Manifest, stream: str, network: Network, epoch: int) -> str:
    found = before.streams.get(stream)
    if found is not None and _is_same(found, stream, network):
        return found.source or stream
    return f"{stream}__{epoch}" if epoch else stream


def _stream_state(before: Manifest, name: str, network: Network, epoch: int, needs: Needs) -> StreamState:
    identity = stream_identity(network.streams[name])
    columns, is_numbered = needs
    held = tuple(sorted(columns))
    found = before.streams.get(name)
    if found is None or not _is_same(found, name, network):
        source = _source_name(before, name, network, epoch)
        return StreamState(columns=held, is_numbered=is_numbered, identity=identity, source=source)
    whole_from_ts = found.whole_from_ts
    if not columns <= set(found.columns) or is_numbered > found.is_numbered:
        # tuples so far lack what is stored from now on
        whole_from_ts = max(whole_from_ts, found.max_ts + 1)
    return replace(
        found,
        columns=held,
        is_numbered=is_numbered or found.is_numbered,
        whole_from_ts=whole_from_ts,
        identity=identity,
        source=found.source or name,
    )

"""The manifest of a tick: progress, blocks and streams as they are after it."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from headgate.model.operator import Eddy
from headgate.spark.eddies.dispatcher import Eddies
from headgate.spark.jobs import JobResults
from headgate.spark.manifest import Manifest, OperatorState, StreamState, kept_paths
from headgate.spark.prepared import Prepared
from headgate.spark.sql import BEGINNING_US
from headgate.spark.tick_plan import OpenTick, TickPlan


@dataclass(frozen=True)
class NextManifest:
    """Lists what is still needed after a tick. ``_streams_of`` are the streams below each operator."""

    _prepared: Prepared
    _eddies: Eddies
    _streams_of: Mapping[str, Collection[str]]

    def after(
        self, before: Manifest, tick: OpenTick, plan: TickPlan, found: JobResults, paused: tuple[str, ...]
    ) -> Manifest:
        """What is needed after a tick: ``before`` is the state it began with."""
        operators = self._operators(before, plan, found)
        rows_out = dict(before.rows_out)
        for name, result in found.written.items():
            is_latest = self._prepared.network.queries[name].sink.is_latest
            rows_out[name] = result.rows if is_latest else rows_out.get(name, 0) + result.rows
        logs, kept = before.logs(), kept_paths(operators) | {p for m in plan.merged for p in m.parts}
        streams = {
            name: self._raise_floor(name, a.state, operators).held(
                (*logs.get(name, {}).values(), *a.blocks), kept
            )
            for name, a in tick.arrivals.items()
        }
        # behind an eddy, the input ends when the last tuple has left the eddy
        ended = tick.end_of_input and all(plan.rows[name].idle for name in tick.snapshots)
        # as with settings, a replay of the next tick reads the same
        now_us = int(time.time() * 1e6)
        relations = self._prepared.relations.versions_after(before.relations, tick.batch_id, now_us)
        return replace(
            before,
            batch_id=tick.batch_id,
            flushed=ended,
            streams=streams,
            operators=operators,
            rows_out=rows_out,
            relations=relations,
            paused=paused,
        )

    def _operators(self, before: Manifest, plan: TickPlan, found: JobResults) -> dict[str, OperatorState]:
        operators = {}
        for name, operator in self._prepared.operators.items():
            blocks = [list(side) for side in plan.retained[name]]
            groups = list(plan.groups.get(name, ()))
            pushing = [list(side) for side in plan.pushing.get(name, ())]
            for task, ref in found.stored:
                if task.operator == name and ref is not None:
                    if task.side is None:
                        groups.append(ref)
                    elif task.is_pushing:
                        pushing[task.side].append(ref)
                    elif isinstance(operator.settings, Eddy):
                        blocks[task.side] += self._eddies.enter(name, ref)
                    else:
                        blocks[task.side].append(ref)
            progress = plan.progress[name]
            if not operator.is_ordered and not any(blocks):
                # an empty queue has no order to preserve: stragglers are accepted again
                progress = BEGINNING_US
            operators[name] = replace(
                before.operators.get(name, OperatorState()),
                progress_ts=progress,
                blocks=tuple(map(tuple, blocks)),
                groups=tuple(groups),
                pushing=tuple(map(tuple, pushing)),
            )
        return operators

    def _raise_floor(
        self, stream: str, state: StreamState, operators: Mapping[str, OperatorState]
    ) -> StreamState:
        """Raise the floor to the progress of ordered readers: tuples below it are late."""
        readers = [
            operators[name].progress_ts
            for name, operator in self._prepared.operators.items()
            if operator.is_ordered and stream in self._streams_of[name]
        ]
        return replace(state, floor_ts=max([state.floor_ts, *readers]))

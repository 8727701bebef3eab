"""All eddies of a run: jobs of pools beside the ticks, and what a tick has to know of them.

Jobs begin as soon as there is something to do and their results are used at once, in memory. A tick
takes what has come through when it begins; its manifest lists what was inside at that moment. So a crash
repeats work that no manifest knows of, and nothing is lost or doubled.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import count

from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from headgate.errors import HeadgateError, SetupError
from headgate.model.operator import JoinEddy, OperatorInput
from headgate.spark.blocks import BlockStore
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.cluster import task_slots
from headgate.spark.columns import SIDE, tick_constant
from headgate.spark.eddies.balance import Balance
from headgate.spark.eddies.job import finished_tuples, first_history, run_job
from headgate.spark.eddies.layout import Layout, numbered
from headgate.spark.eddies.line import Line, Share, Standing
from headgate.spark.eddies.parts import Parts, measured, measures
from headgate.spark.eddies.pools import Pools
from headgate.spark.eddies.probe import probe_task, run_probe
from headgate.spark.eddies.task import DONE, NUMBER
from headgate.spark.eddies.turning import Weights, turned
from headgate.spark.faults import told_user_code_error
from headgate.spark.manifest import BlockRef, Manifest, OperatorState
from headgate.spark.sources import first_line

# one works while the other begins or ends: its start is no loss for the pools
_JOBS_OF_AN_EDDY = 2
_BUDGET_S = 0.7
# where jobs of an eddy cannot overlap, they are longer
_LONE_BUDGET_S = 4.0
# tuples of the first job, which finds out how long they take
_FIRST_ROWS = 256
# a probe is Spark's work: fewer tuples are not worth a job of their own
_FIRST_PROBES = 20_000
# of a job that had no call to wait for
_AT_ONCE_S = 0.1
_LATEST = 0.3
# threads that do no more than wait for jobs of probes
_PROBING = 16
_CANCEL_EVERY_S = 0.2

Lane = tuple[str, int | None]
"""An eddy, and the probe that tuples wait for; None: for functions."""

Blocks = tuple[tuple[BlockRef, ...], ...]


class Eddies:
    """Runs the jobs of all eddies."""

    def __init__(
        self,
        layouts: Iterable[Layout],
        pools: Pools,
        store: BlockStore,
        checkpoint: Checkpoint,
        manifest: Manifest,
        balance: Balance | None = None,
        seed: int = 0,
    ) -> None:
        self._layouts = {layout.eddy.name: layout for layout in layouts}
        self.pools = pools
        self._store = store
        self._checkpoint = checkpoint
        self._balance = balance
        self._seed = seed
        none = OperatorState()
        self._lines = {name: Line(manifest.operators.get(name, none).blocks[0]) for name in self._layouts}
        self._windows = self._windows_in(manifest)
        self._entering: dict[str, Observation] = {}
        self._per_s: dict[Lane, float] = {}
        self._changed = threading.Lock()
        self._calling = dict.fromkeys(self._layouts, 0)
        self._probing: Counter[str] = Counter()
        self._error: BaseException | None = None
        self._is_closed = False
        self._names = count()
        # a later run on the same checkpoint must not write to the same paths
        self._token = uuid.uuid4().hex[:8]
        self._tag = f"headgate pools {self._token}"
        slots = task_slots(store.spark)
        # ticks need a task slot too; without a machine in common, nobody watches over slots
        self._most_jobs = None if slots is None else max(1, slots - 1)
        self._jobs_of_one = min(_JOBS_OF_AN_EDDY, self._most_jobs or 1)
        self._locks = None if slots is None else tempfile.mkdtemp(prefix="headgate-slots-")
        self._threads = ThreadPoolExecutor(
            self._jobs_of_one * len(self._layouts) + _PROBING, thread_name_prefix="headgate-pool"
        )
        self._jobs: set[Future[None]] = set()
        self._paths: set[str] = set()
        if self._layouts:
            self._checkpoint.sweep_eddies(manifest.block_paths())

    def layout(self, eddy: str) -> Layout:
        """How an eddy's tuples look."""
        return self._layouts[eddy]

    def standing(self) -> dict[str, Standing]:
        """Every eddy now; raises what made a job fail."""
        with self._changed:
            if self._error is not None:
                raise self._error
            return {name: line.standing() for name, line in self._lines.items()}

    def entering(self, eddy: str, tuples: DataFrame) -> DataFrame:
        """Tuples on their way into an eddy, numbered; where there are only probes, sent to those."""
        layout, first = self._layouts[eddy], tick_constant(self._lines[eddy].next_number)
        if not layout.ways.probes:
            return numbered(tuples, first)
        sides = range(layout.ways.probes)
        counts = [F.count_if(F.col(SIDE) == side).alias(f"side{side}") for side in sides]
        if layout.steps:
            come = numbered(tuples, first)
        else:
            come = tuples.withColumns(
                {NUMBER: F.monotonically_increasing_id() + first, DONE: first_history()}
            )
            come = turned(come, layout.ways, self._weights(eddy))
            counts += measures(layout.ways)
        self._entering[eddy] = Observation(f"entering {eddy}")
        return come.observe(self._entering[eddy], *counts)

    def _weights(self, eddy: str) -> Weights:
        with self._changed:
            waiting, queues = self._waiting(), self._queues(eddy)
        return self.pools.weights(eddy, waiting, queues)

    def finished(self, eddy: str, standing: Standing) -> DataFrame | None:
        """The tuples that have come through."""
        if not standing.finished:
            return None
        return finished_tuples(self._store, self._layouts[eddy], standing.finished)

    def entered(self, eddy: str, block: BlockRef) -> list[BlockRef]:
        """A block was written whose tuples wait from now on; it may be several, by where they go."""
        layout, line = self._layouts[eddy], self._lines[eddy]
        sides = [block.rows]
        if layout.ways.probes:
            found = self._entering.pop(eddy).get
            sides = [found[f"side{side}"] for side in range(layout.ways.probes)]
        self.pools.came(eddy, sides)
        with self._changed:
            if layout.steps:
                return [line.enter(block)]
            parts = measured(layout.ways, found, block.path, block.bytes / block.rows, block.arrived_us)
            line.enter_decided(parts.left)
            return list(parts.left)

    def _waiting(self) -> dict[str, int]:
        return {name: line.rows for name, line in self._lines.items()}

    def _queues(self, eddy: str) -> dict[str, int]:
        """Tuples in line before every probe."""
        ways, line = self._layouts[eddy].ways, self._lines[eddy]
        return {ways.names[step]: line.rows_before(step) for step in range(ways.probes)}

    def _windows_in(self, manifest: Manifest) -> dict[str, Blocks]:
        """The contents of the windows that probes look into."""
        found = {}
        for name, layout in self._layouts.items():
            source = layout.eddy.input
            if isinstance(layout.eddy, JoinEddy) and isinstance(source, OperatorInput):
                found[name] = manifest.operators.get(source.operator, OperatorState()).blocks
        return found

    def committed(self, manifest: Manifest, standings: Mapping[str, Standing]) -> None:
        """A tick has happened: what it took is gone, what came may be worked on."""
        with self._changed:
            for name, standing in standings.items():
                self._lines[name].passed(standing)
            self._windows = self._windows_in(manifest)
            live = {block.path for line in self._lines.values() for block in _blocks(line.standing())}
            dead = self._paths - live - manifest.block_paths()
            self._paths -= dead
        for path in dead:
            self._checkpoint.drop(path)
        if self._balance is not None:
            for pool, slots in self._balance.move(self.pools.status(), time.time()).items():
                self.pools.alter(pool, slots)
        self._begin_jobs()

    def _begin_jobs(self) -> None:
        with self._changed:
            # the longest line first
            for lane in sorted(
                self._all_lanes(), key=lambda lane: -self._lines[lane[0]].rows_before(lane[1])
            ):
                while self._may_begin(lane):
                    share = self._lines[lane[0]].take(self._rows_of_a_job(lane), lane[1])
                    if share is None:
                        break
                    self._count(lane, 1)
                    run = inheritable_thread_target(self._store.spark)(self._run)
                    self._jobs = {job for job in self._jobs if not job.done()}
                    self._jobs.add(self._threads.submit(run, lane, share))

    def _all_lanes(self) -> Iterator[Lane]:
        for eddy, layout in self._layouts.items():
            if layout.steps:
                yield eddy, None
            yield from ((eddy, step) for step in range(layout.ways.probes))

    def _may_begin(self, lane: Lane) -> bool:
        if self._is_closed or self._error is not None:
            return False
        eddy, step = lane
        calling, probing = sum(self._calling.values()), self._probing.total()
        if self._most_jobs is not None and calling + probing >= self._most_jobs:
            return False
        if step is None:
            return self._calling[eddy] < self._jobs_of_one and (self._most_jobs is not None or not calling)
        pool = self._layouts[eddy].ways.pools[step]
        return self._probing[pool] < self.pools.slots()[pool]

    def _count(self, lane: Lane, jobs: int) -> None:
        eddy, step = lane
        if step is None:
            self._calling[eddy] += jobs
        else:
            self._probing[self._layouts[eddy].ways.pools[step]] += jobs

    @property
    def _budget_s(self) -> float:
        return _BUDGET_S if self._jobs_of_one > 1 else _LONE_BUDGET_S

    def _rows_of_a_job(self, lane: Lane) -> int:
        if lane not in self._per_s:
            return _FIRST_ROWS if lane[1] is None else _FIRST_PROBES
        least = 1 if lane[1] is None else _FIRST_PROBES
        return max(least, round(self._budget_s * self._per_s[lane]))

    def _run(self, lane: Lane, share: Share) -> None:
        path = self._checkpoint.eddy_block(f"{lane[0]}-{self._token}-{next(self._names)}")
        context = self._store.spark.sparkContext
        context.addJobTag(self._tag)
        try:
            parts = self._call(lane, share, path) if lane[1] is None else self._probe(lane, share, path)
        except BaseException as error:
            with self._changed:
                self._count(lane, -1)
                self._error = self._error or _told_apart(error)
            return
        finally:
            context.removeJobTag(self._tag)
        with self._changed:
            self._count(lane, -1)
            self._paths.add(path)
            self._lines[lane[0]].harvest(share, parts.finished, parts.left)
        self._begin_jobs()

    def _call(self, lane: Lane, share: Share, path: str) -> Parts:
        eddy = lane[0]
        layout = self._layouts[eddy]
        with self._changed:
            waiting, queues = self._waiting(), self._queues(eddy)
        given = self.pools.assigned(
            eddy, layout.steps, self._budget_s, self._locks, self._seed, waiting, queues
        )
        parts, told = run_job(self._store, layout, given, share, path, self._checkpoint.full(path))
        self.pools.take_in(told)
        if told.settled or told.active_s:
            self._learn(lane, told.settled / (told.active_s or _AT_ONCE_S))
        return parts

    def _probe(self, lane: Lane, share: Share, path: str) -> Parts:
        eddy, step = lane
        layout, began_s = self._layouts[eddy], time.perf_counter()
        assert step is not None and isinstance(layout.eddy, JoinEddy)
        with self._changed:
            task = probe_task(layout.eddy, step, share, self._windows[eddy][step])
        parts = Parts(None, ())
        if task.window:
            weights, full_path = self._weights(eddy), self._checkpoint.full(path)
            parts = run_probe(self._store, layout, task, weights, path, full_path)
        seconds = time.perf_counter() - began_s
        with self._changed:
            queue = self._lines[eddy].rows_before(step)
        self.pools.probed(layout.ways.names[step], share.rows, parts.rows, seconds, queue)
        self._learn(lane, share.rows / seconds)
        return parts

    def _learn(self, lane: Lane, per_s: float) -> None:
        with self._changed:
            known = self._per_s.get(lane, per_s)
            self._per_s[lane] = max(1e-3, (1 - _LATEST) * known + _LATEST * per_s)

    def close(self) -> None:
        """End jobs under way: their tuples are still in the manifest."""
        with self._changed:
            self._is_closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        jobs = set(self._jobs)
        while jobs:
            # again and again: one that has not come to its Spark job yet is not there to be cancelled
            self._store.spark.sparkContext.cancelJobsWithTag(self._tag)
            jobs = wait(jobs, _CANCEL_EVERY_S).not_done
        if self._locks is not None:
            shutil.rmtree(self._locks, ignore_errors=True)


def _told_apart(error: BaseException) -> BaseException:
    """A user's function that raises is no defect of ours: its message in one line."""
    if isinstance(error, HeadgateError):
        return error
    return told_user_code_error(str(error)) or SetupError(f"a job of a pool failed: {first_line(error)}")


def _blocks(standing: Standing) -> tuple[BlockRef, ...]:
    return (*standing.inside, *standing.finished)

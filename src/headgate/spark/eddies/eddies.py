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
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import count

from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame

from headgate.errors import HeadgateError, SetupError
from headgate.spark.blocks import BlockStore
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.cluster import task_slots
from headgate.spark.columns import tick_constant
from headgate.spark.eddies.balance import Balance
from headgate.spark.eddies.job import finished_tuples, run_job
from headgate.spark.eddies.layout import Layout, numbered
from headgate.spark.eddies.line import Line, Share, Standing
from headgate.spark.eddies.pools import Pools
from headgate.spark.eddies.task import FAILED
from headgate.spark.manifest import BlockRef, Manifest, OperatorState
from headgate.spark.sources import first_line

# one works while the other begins or ends: its start is no loss for the pools
_JOBS_OF_AN_EDDY = 2
_BUDGET_S = 0.7
# where jobs of an eddy cannot overlap, they are longer
_LONE_BUDGET_S = 4.0
# tuples of the first job, which finds out how long they take
_FIRST_ROWS = 256
_LATEST = 0.3


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
        self._per_s: dict[str, float] = {}
        self._changed = threading.Lock()
        self._running = dict.fromkeys(self._layouts, 0)
        self._error: BaseException | None = None
        self._is_closed = False
        self._names = count()
        # a later run on the same checkpoint must not write to the same paths
        self._token = uuid.uuid4().hex[:8]
        self._tag = f"headgate pools {self._token}"
        slots = task_slots(store.spark)
        # ticks need a task slot too; without a machine in common, nobody watches over slots
        self._most_jobs = 1 if slots is None else max(1, slots - 1)
        self._jobs_of_one = 1 if slots is None else min(_JOBS_OF_AN_EDDY, self._most_jobs)
        self._locks = None if slots is None else tempfile.mkdtemp(prefix="headgate-slots-")
        self._threads = ThreadPoolExecutor(
            max(1, self._jobs_of_one * len(self._layouts)), thread_name_prefix="headgate-pool"
        )
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
        """Tuples on their way into an eddy, with their numbers."""
        return numbered(tuples, tick_constant(self._lines[eddy].next_number))

    def finished(self, eddy: str, standing: Standing) -> DataFrame | None:
        """The tuples that have come through."""
        if not standing.finished:
            return None
        return finished_tuples(self._store, self._layouts[eddy], standing.finished)

    def entered(self, eddy: str, block: BlockRef) -> BlockRef:
        """A block was written that waits from now on."""
        self.pools.came(eddy, block.rows)
        with self._changed:
            return self._lines[eddy].enter(block)

    def _waiting(self) -> dict[str, int]:
        return {name: line.rows for name, line in self._lines.items()}

    def committed(self, manifest: Manifest, standings: Mapping[str, Standing]) -> None:
        """A tick has happened: what it took is gone, what came may be worked on."""
        with self._changed:
            for name, standing in standings.items():
                self._lines[name].passed(standing)
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
            for name in sorted(self._lines, key=lambda name: -self._lines[name].rows):
                while self._may_begin(name):
                    share = self._lines[name].take(self._rows_of_a_job(name))
                    if share is None:
                        break
                    self._running[name] += 1
                    run = inheritable_thread_target(self._store.spark)(self._run)
                    self._threads.submit(run, name, share)

    def _may_begin(self, eddy: str) -> bool:
        if self._is_closed or self._error is not None:
            return False
        return self._running[eddy] < self._jobs_of_one and sum(self._running.values()) < self._most_jobs

    @property
    def _budget_s(self) -> float:
        return _BUDGET_S if self._jobs_of_one > 1 else _LONE_BUDGET_S

    def _rows_of_a_job(self, eddy: str) -> int:
        if eddy not in self._per_s:
            return _FIRST_ROWS
        return max(1, round(self._budget_s * self._per_s[eddy]))

    def _run(self, eddy: str, share: Share) -> None:
        layout = self._layouts[eddy]
        path = self._checkpoint.eddy_block(f"{eddy}-{self._token}-{next(self._names)}")
        context = self._store.spark.sparkContext
        context.addJobTag(self._tag)
        try:
            with self._changed:
                waiting = self._waiting()
            given = self.pools.assigned(eddy, layout.steps, self._budget_s, self._locks, self._seed, waiting)
            done = run_job(self._store, layout, given, share, path, self._checkpoint.full(path))
        except BaseException as error:
            with self._changed:
                self._running[eddy] -= 1
                self._error = self._error or _told_apart(error)
            return
        finally:
            context.removeJobTag(self._tag)
        self.pools.take_in(done.told)
        with self._changed:
            self._running[eddy] -= 1
            self._paths.add(path)
            if done.told.active_s > 0:
                self._learn(eddy, done.told.settled / done.told.active_s)
            self._lines[eddy].harvest(share, done.finished, done.left)
        self._begin_jobs()

    def _learn(self, eddy: str, per_s: float) -> None:
        known = self._per_s.get(eddy, per_s)
        self._per_s[eddy] = max(1e-3, (1 - _LATEST) * known + _LATEST * per_s)

    def close(self) -> None:
        """End jobs under way: their tuples are still in the manifest."""
        with self._changed:
            self._is_closed = True
        self._store.spark.sparkContext.cancelJobsWithTag(self._tag)
        self._threads.shutdown(wait=True)
        if self._locks is not None:
            shutil.rmtree(self._locks, ignore_errors=True)


def _told_apart(error: BaseException) -> BaseException:
    """A user's function that raises is no defect of ours: its message in one line."""
    if isinstance(error, HeadgateError):
        return error
    for line in str(error).splitlines():
        if FAILED in line:
            return SetupError(line[line.index(FAILED) :])
    return SetupError(f"a job of a pool failed: {first_line(error)}")


def _blocks(standing: Standing) -> tuple[BlockRef, ...]:
    return (*standing.inside, *standing.finished)

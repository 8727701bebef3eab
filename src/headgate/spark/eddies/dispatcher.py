"""All eddies of a run: jobs of pools beside the ticks, and what a tick needs to know of them.

Jobs start as soon as there is input for them. A tick reads what is finished when it begins, and its manifest
lists the blocks that are inside at that moment. After a crash, work that no manifest contains is repeated;
nothing is lost or duplicated.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import InitVar, dataclass
from itertools import count

from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from headgate.errors import HeadgateError, SetupError
from headgate.model.operator import JoinEddy
from headgate.model.operator_inputs import OperatorInput
from headgate.spark.application.cluster import driver_hosts, processors_of_executor, task_places
from headgate.spark.blocks import BlockStore
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.eddies.eddy_jobs import (
    EddyLayout,
    JobOutput,
    Weights,
    call_functions,
    finished_tuples,
    first_history,
    job_output,
    output_measures,
    run_probe,
    tick_constant,
    with_next_operator,
)
from headgate.spark.eddies.pools import Balance, Pools, rows_of_job
from headgate.spark.eddies.queue import EddyQueue, EddySnapshot, JobInput
from headgate.spark.eddies.slot_server import SlotServer
from headgate.spark.eddies.task import DONE, NUMBER
from headgate.spark.manifest import BlockRef, Manifest, OperatorState
from headgate.spark.sources import first_line
from headgate.spark.sql import SIDE
from headgate.spark.user_functions import reported_user_code_error

# one works while the other starts or ends, so that pools do not wait for the start of a job
_JOBS_OF_AN_EDDY = 2
_LEAST_BUDGET_S = 0.7
# of the time that the other job takes to start and to end
_BUDGET_OF_OVERHEAD = 1.2
# jobs that cannot overlap are longer
_LONE_BUDGET_S = _MOST_BUDGET_S = 4.0
# input of the first job, which measures how long tuples take
_FIRST_ROWS = 256
# a probe is a join in Spark: fewer tuples are not worth a job
_FIRST_PROBES = 20_000
# duration of a job without any call
_AT_ONCE_S = 0.1
# weight of the latest job in the estimate of tuples per second
_LATEST = 0.3
# threads that only wait for jobs of probes
_PROBING = 16
_CANCEL_EVERY_S = 0.2

Lane = tuple[str, int | None]
"""An eddy, and the probe that tuples wait for; None if they wait for functions."""


@dataclass(eq=False, repr=False)
class Eddies:
    """Runs the jobs of all eddies."""

    layouts: InitVar[Iterable[EddyLayout]]
    pools: Pools
    _store: BlockStore
    _checkpoint: Checkpoint
    manifest: InitVar[Manifest]
    _balance: Balance | None = None

    def __post_init__(self, layouts: Iterable[EddyLayout], manifest: Manifest) -> None:
        self._layouts = {layout.eddy.name: layout for layout in layouts}
        states = {name: manifest.operators.get(name, OperatorState()) for name in self._layouts}
        self._queues = {name: EddyQueue(state.blocks[0]) for name, state in states.items()}
        self._windows = self._probed_windows(manifest)
        self._entering: dict[str, Observation] = {}
        self._per_s: dict[Lane, float] = {}
        self._changed = threading.Lock()
        self._lanes: list[Lane] = []
        for name, layout in self._layouts.items():
            self._lanes += [(name, None)] if layout.steps else []
            self._lanes += [(name, step) for step in range(layout.rules.probes)]
        self._running: Counter[Lane] = Counter()
        self._error: BaseException | None = None
        self._is_closed = False
        self._names = count()
        # a later run on the same checkpoint must not reuse the paths
        self._token = uuid.uuid4().hex[:8]
        self._tag = f"headgate pools {self._token}"
        self._overhead_s: float | None = None
        """What a job takes beside its calls."""
        self._threads = ThreadPoolExecutor(
            _JOBS_OF_AN_EDDY * len(self._layouts) + _PROBING, thread_name_prefix="headgate-pool"
        )
        self._server: SlotServer | None = None
        if any(layout.steps for layout in self._layouts.values()):
            self._server = SlotServer(*driver_hosts(self._store.spark), self.pools, self._computing_pools())
        self._count_tasks()
        self._jobs: set[Future[None]] = set()
        self._paths: set[str] = set()
        if self._layouts:
            self._checkpoint.sweep_eddies(manifest.block_paths())

    def _computing_pools(self) -> set[str]:
        """Pools of functions that compute in processes of their own."""
        placed = (
            (step, pool)
            for layout in self._layouts.values()
            for step, pool in zip(layout.steps, layout.rules.pools[layout.rules.probes :], strict=True)
        )
        return {pool for step, pool in placed if step.in_processes}

    def _count_tasks(self) -> None:
        """Set how many jobs may run at a time, and in how many tasks each; executors come and go."""
        executors, tasks = task_places(self._store.spark)
        # ticks need a task slot too
        free = max(1, tasks - 1)
        self._tasks_of_job = min(executors, free)
        self._most_jobs = max(1, free // self._tasks_of_job)
        if self._server is not None:
            self._server.set_processors(processors_of_executor(self._store.spark))

    def snapshots(self) -> dict[str, EddySnapshot]:
        """Every eddy now; raises the error of a failed job."""
        with self._changed:
            if self._error is not None:
                raise self._error
            return {name: queue.snapshot() for name, queue in self._queues.items()}

    def entering_tuples(self, eddy: str, tuples: DataFrame) -> DataFrame:
        """Tuples about to enter an eddy, numbered; in an eddy of probes alone, already routed."""
        layout = self._layouts[eddy]
        number = F.monotonically_increasing_id() + tick_constant(self._queues[eddy].next_number)
        # in one partition, numbers have no gap
        entering = (tuples.coalesce(1) if layout.steps else tuples).withColumn(NUMBER, number)
        if not layout.rules.probes:
            return entering
        sides = range(layout.rules.probes)
        counts = [F.count_if(F.col(SIDE) == side).alias(f"side{side}") for side in sides]
        if not layout.steps:
            new = entering.withColumn(DONE, first_history())
            entering = with_next_operator(new, layout.rules, self._weights(eddy))
            counts += output_measures(layout.rules)
        self._entering[eddy] = Observation(f"entering {eddy}")
        return entering.observe(self._entering[eddy], *counts)

    def _weights(self, eddy: str) -> Weights:
        return self.pools.weights(eddy, *self._waiting(eddy))

    def _waiting(self, eddy: str) -> tuple[dict[str, int], dict[str, int]]:
        """Tuples that no job works on, by eddy, and those of one eddy that go to a probe next, by probe."""
        with self._changed:
            queue, rules = self._queues[eddy], self._layouts[eddy].rules
            probes = {rules.names[step]: queue.rows_in_lane(step) for step in range(rules.probes)}
            return {name: queue.rows for name, queue in self._queues.items()}, probes

    def finished_tuples(self, eddy: str, snapshot: EddySnapshot) -> DataFrame | None:
        if not snapshot.finished:
            return None
        return finished_tuples(self._store, self._layouts[eddy], snapshot.finished)

    def enter(self, eddy: str, block: BlockRef) -> list[BlockRef]:
        """Add a written block to the queue; returns it in parts, by where tuples go next."""
        layout, queue = self._layouts[eddy], self._queues[eddy]
        sides = [block.rows]
        if layout.rules.probes:
            measured = self._entering.pop(eddy).get
            sides = [measured[f"side{side}"] for side in range(layout.rules.probes)]
        self.pools.record_arrivals(eddy, sides)
        with self._changed:
            if layout.steps:
                return [queue.enter(block)]
            parts = job_output(layout.rules, measured, block.path, JobInput((block,))).unfinished
            queue.enter_routed(parts)
            return list(parts)

    def _probed_windows(self, manifest: Manifest) -> dict[str, tuple[tuple[BlockRef, ...], ...]]:
        windows = {}
        for name, layout in self._layouts.items():
            source = layout.eddy.input
            if isinstance(layout.eddy, JoinEddy) and isinstance(source, OperatorInput):
                windows[name] = manifest.operators.get(source.operator, OperatorState()).blocks
        return windows

    def after_commit(self, manifest: Manifest, snapshots: Mapping[str, EddySnapshot]) -> None:
        """Forget what a committed tick has read, and start jobs on what it has written."""
        with self._changed:
            for name, snapshot in snapshots.items():
                self._queues[name].remove_finished(snapshot)
            self._windows = self._probed_windows(manifest)
            current = [queue.snapshot() for queue in self._queues.values()]
            used = {block.path for snapshot in current for block in (*snapshot.inside, *snapshot.finished)}
            unused = self._paths - used - manifest.block_paths()
            self._paths -= unused
        for path in unused:
            self._checkpoint.drop(path)
        if self._balance is not None:
            for pool, slots in self._balance.move(self.pools.status(), time.time()).items():
                self.pools.alter(pool, slots)
        self._count_tasks()
        self._start_jobs()

    def _start_jobs(self) -> None:
        with self._changed:
            for lane in sorted(self._lanes, key=self._rows_in_lane, reverse=True):
                while self._may_start(lane):
                    taken = self._queues[lane[0]].take(self._rows_of_job(lane), lane[1])
                    if taken is None:
                        break
                    self._running[lane] += 1
                    run = inheritable_thread_target(self._store.spark)(self._run)
                    self._jobs = {job for job in self._jobs if not job.done()}
                    self._jobs.add(self._threads.submit(run, lane, taken))

    def _rows_in_lane(self, lane: Lane) -> int:
        return self._queues[lane[0]].rows_in_lane(lane[1])

    def _may_start(self, lane: Lane) -> bool:
        if self._is_closed or self._error is not None:
            return False
        if self._running.total() >= self._most_jobs:
            return False
        pool = self._probing_pool(lane)
        if pool is not None:
            beside = sum(jobs for other, jobs in self._running.items() if self._probing_pool(other) == pool)
            return beside < self.pools.slots()[pool]
        return self._running[lane] < self._jobs_of_one

    @property
    def _jobs_of_one(self) -> int:
        return min(_JOBS_OF_AN_EDDY, self._most_jobs)

    def _probing_pool(self, lane: Lane) -> str | None:
        eddy, step = lane
        return None if step is None else self._layouts[eddy].rules.pools[step]

    @property
    def _budget_s(self) -> float:
        """How long the calls of a job take: the pools must not wait for the start of the next one."""
        if self._jobs_of_one == 1:
            return _LONE_BUDGET_S
        wanted_s = _BUDGET_OF_OVERHEAD * (self._overhead_s or 0.0)
        return min(max(wanted_s, _LEAST_BUDGET_S), _MOST_BUDGET_S)

    def _rows_of_job(self, lane: Lane) -> int:
        is_probe = lane[1] is not None
        if lane not in self._per_s:
            return _FIRST_PROBES if is_probe else _FIRST_ROWS
        if is_probe:
            return max(_FIRST_PROBES, round(self._budget_s * self._per_s[lane]))
        return rows_of_job(self._budget_s, self._per_s[lane], self._rows_in_lane(lane))

    def _run(self, lane: Lane, taken: JobInput) -> None:
        path = self._checkpoint.eddy_block(f"{lane[0]}-{self._token}-{next(self._names)}")
        context = self._store.spark.sparkContext
        context.addJobTag(self._tag)
        try:
            output = self._call(lane, taken, path) if lane[1] is None else self._probe(lane, taken, path)
        except BaseException as error:
            shown = error if isinstance(error, HeadgateError) else reported_user_code_error(str(error))
            with self._changed:
                self._running[lane] -= 1
                self._error = (
                    self._error or shown or SetupError(f"a job of a pool failed: {first_line(error)}")
                )
            return
        finally:
            context.removeJobTag(self._tag)
        with self._changed:
            self._running[lane] -= 1
            self._paths.add(path)
            self._queues[lane[0]].finish_job(taken, output.finished, output.unfinished)
        self._start_jobs()

    def _call(self, lane: Lane, taken: JobInput, path: str) -> JobOutput:
        eddy, server = lane[0], self._server
        assert server is not None
        layout, access = self._layouts[eddy], server.new_job()
        assignment = self.pools.assignment(eddy, layout.steps, self._budget_s, access, *self._waiting(eddy))
        began_s = time.perf_counter()
        output = call_functions(self._store, layout, assignment, taken, path, self._tasks_of_job)
        reports = server.take_reports(access)
        worked_s = max((report.active_s + report.waited_s for report in reports), default=0.0)
        self._learn_overhead(time.perf_counter() - began_s - worked_s)
        for report in reports:
            self.pools.learn(report)
        settled = sum(report.settled for report in reports)
        active_s = max((report.active_s for report in reports), default=0.0)
        if settled or active_s:
            self._learn(lane, settled / (active_s or _AT_ONCE_S))
        return output

    def _probe(self, lane: Lane, taken: JobInput, path: str) -> JobOutput:
        eddy, step = lane
        layout, began_s = self._layouts[eddy], time.perf_counter()
        assert step is not None and isinstance(layout.eddy, JoinEddy)
        first_ts = min(block.min_ts for block in taken.blocks) - layout.eddy.probes[step].window.reach_us
        last_ts = max(block.max_ts for block in taken.blocks)
        with self._changed:
            window = self._windows[eddy][step]
        # blocks without possible partners may be deleted before the probe starts
        window = tuple(block for block in window if block.max_ts >= first_ts and block.min_ts <= last_ts)
        output = JobOutput(None, ())
        if window:
            output = run_probe(self._store, layout, step, taken, window, self._weights(eddy), path)
        seconds = time.perf_counter() - began_s
        with self._changed:
            queue = self._rows_in_lane(lane)
        self.pools.record_probe(layout.rules.names[step], taken.rows, output.rows, seconds, queue)
        self._learn(lane, taken.rows / seconds)
        return output

    def _learn_overhead(self, seconds: float) -> None:
        with self._changed:
            # the first job starts the worker: it is like no other
            known = seconds if self._overhead_s is None else self._overhead_s
            self._overhead_s = (1 - _LATEST) * min(known, _MOST_BUDGET_S) + _LATEST * seconds

    def _learn(self, lane: Lane, per_s: float) -> None:
        with self._changed:
            known = self._per_s.get(lane, per_s)
            self._per_s[lane] = max(1e-3, (1 - _LATEST) * known + _LATEST * per_s)

    def close(self) -> None:
        """Cancel running jobs; their tuples are still in the manifest."""
        with self._changed:
            self._is_closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        jobs = set(self._jobs)
        while jobs:
            # repeatedly, since a thread may not have started its Spark job yet
            self._store.spark.sparkContext.cancelJobsWithTag(self._tag)
            jobs = wait(jobs, _CANCEL_EVERY_S).not_done
        if self._server is not None:
            self._server.close()

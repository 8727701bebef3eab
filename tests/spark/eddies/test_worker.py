"""The eddy worker without Spark: results, time, slots."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pytest

from headgate.model.expression import Expression
from headgate.model.network import PoolDefinition
from headgate.model.operator import ByTruth, Eddy, PlacedPredicate
from headgate.model.operator_inputs import StreamInput
from headgate.routing import router_names
from headgate.session.placed import router_for_run
from headgate.spark.eddies.pools import Pools, rows_of_job
from headgate.spark.eddies.publication import Count, Publication, Report
from headgate.spark.eddies.slot_server import SlotClient, SlotServer
from headgate.spark.eddies.worker import DROPPED, Assignment, EddyWorker, Step

Holds = Callable[[int], bool]
PREDICATES: list[Holds] = [lambda row: row % 2 == 0, lambda row: row % 3 > 0, lambda row: row % 5 > 1]
FULL = 0b111


def eddy_of(predicates: int, pool_of: Callable[[int], str]) -> Eddy:
    truth = Expression.parse("true")
    placed = [
        PlacedPredicate(f"f{n}()", f"f{n}", (), ByTruth(truth, truth, truth), pool_of(n))
        for n in range(predicates)
    ]
    return Eddy("q.eddy", StreamInput("s", "s", ()), tuple(placed))


@dataclass
class Cluster:
    """Pools with a server of slots, and workers as threads of this process."""

    policy: str
    slots: dict[str, int]
    computing: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = list(self.slots)
        self.eddy = eddy_of(3, lambda n: names[n % len(names)])
        definitions = [PoolDefinition(name, slots) for name, slots in self.slots.items()]
        self.pools = Pools(definitions, [self.eddy], router_for_run(self.policy))
        self.server = SlotServer("127.0.0.1", "127.0.0.1", self.pools, self.computing)

    def job(self, budget_s: float = 60.0, waiting: int = 0) -> Assignment:
        steps = tuple(Step(predicate.function, b"", (), "", ()) for predicate in self.eddy.predicates)
        return self.pools.assignment(
            "q.eddy", steps, budget_s, self.server.new_job(), {"q.eddy": waiting}, {}
        )

    def work(self, job: Assignment, holds: Sequence[Holds], done: list[int], executor: str = "one") -> Report:
        client = SlotClient(job.access, job.statistics, lambda: None, executor)
        try:
            return EddyWorker(job, holds, done, range(len(done)), client).run()
        finally:
            client.close()


Clusters = Callable[..., Cluster]


@pytest.fixture
def cluster() -> Iterator[Clusters]:
    made: list[Cluster] = []

    def make(policy: str, slots: dict[str, int], computing: tuple[str, ...] = ()) -> Cluster:
        made.append(Cluster(policy, slots, computing))
        return made[-1]

    yield make
    for each in made:
        each.server.close()


@pytest.mark.parametrize("policy", router_names())
@pytest.mark.parametrize("slots", [{"a": 1, "b": 1, "c": 1}, {"a": 3, "b": 2}])
def test_every_policy_settles_the_same_tuples(cluster: Clusters, policy: str, slots: dict[str, int]) -> None:
    done, eddy = [0] * 300, cluster(policy, slots)
    report = eddy.work(eddy.job(), PREDICATES, done)
    passed = [row for row, bits in enumerate(done) if bits == FULL]
    assert passed == [row for row in range(300) if all(p(row) for p in PREDICATES)]
    assert all(bits in (FULL, DROPPED) for bits in done)
    assert report.settled == 300


def test_unfinished_tuples_are_handed_back_with_their_histories(cluster: Clusters) -> None:
    def slowly(row: int) -> bool:
        time.sleep(0.002)
        return True

    done = [0] * 400
    eddy = cluster("wscq", {"a": 1, "b": 1, "c": 1})
    report = eddy.work(eddy.job(budget_s=0.15), [slowly] * 3, done)
    assert 0 < report.settled < 400
    assert any(bits not in (0, FULL) for bits in done)
    calls = sum(count.done for count in report.counts.values())
    assert sum(bits.bit_count() for bits in done) == calls
    # the next job calls only what is left
    left = [bits for bits in done if bits != FULL]
    more = eddy.work(eddy.job(), [lambda row: True] * 3, left)
    assert sum(count.done for count in more.counts.values()) == 3 * 400 - calls


def test_while_others_wait_a_job_hands_its_last_tuples_back(cluster: Clusters) -> None:
    eddy = cluster("wscq", {"a": 1, "b": 1, "c": 1})
    report = eddy.work(eddy.job(waiting=100), [lambda row: True] * 3, [0] * 200)
    assert 150 <= report.settled < 200


@pytest.mark.parametrize("waiting", [0, 1000])
def test_a_job_works_for_its_time_whether_it_hands_tuples_back_or_not(waiting: int) -> None:
    rows = rows_of_job(budget_s=1.2, per_s=100.0, waiting=waiting)
    given = Cluster("wscq", {"a": 1, "b": 1, "c": 1})
    handed_back = int(given.job(waiting=waiting).left_over * rows)
    given.server.close()
    assert rows - handed_back == pytest.approx(1.2 * 100.0, abs=1)


class Calls:
    """Calls in progress, by worker, and the most at a time."""

    def __init__(self, seconds: float) -> None:
        self._guard, self._seconds = threading.Lock(), seconds
        self.now = self.most = 0
        self.of: Counter[int] = Counter()
        self._busy_s, self._began_s, self._changed_s = 0.0, time.perf_counter(), time.perf_counter()

    def _change(self, by: int) -> None:
        now_s = time.perf_counter()
        self._busy_s += self.now * (now_s - self._changed_s)
        self._changed_s = now_s
        self.now += by
        self.most = max(self.most, self.now)

    def begin(self, worker: int) -> None:
        with self._guard:
            self.of[worker] += 1
            self._change(1)

    def end(self) -> None:
        with self._guard:
            self._change(-1)

    @property
    def mean_at_a_time(self) -> float:
        return self._busy_s / (self._changed_s - self._began_s)

    def holds(self, worker: int) -> Holds:
        def watched(row: int) -> bool:
            self.begin(worker)
            time.sleep(self._seconds)
            self.end()
            return True

        return watched


def run_at_once(works: list[Callable[[], object]]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


def test_workers_of_several_jobs_never_use_more_slots_than_a_pool_has(cluster: Clusters) -> None:
    eddy, calls = cluster("wscq", {"a": 2}), Calls(0.001)
    jobs = [eddy.job(), eddy.job()]
    run_at_once(
        [partial(eddy.work, jobs[n // 2], [calls.holds(n)] * 3, [0] * 60) for n in range(4)],
    )
    assert calls.most == 2
    assert calls.of == {n: 180 for n in range(4)}


@pytest.mark.slow
def test_workers_of_one_job_take_turns(cluster: Clusters) -> None:
    eddy, calls = cluster("wscq", {"a": 1}), Calls(0.01)
    job = eddy.job(budget_s=1.5)
    run_at_once([partial(eddy.work, job, [calls.holds(n)] * 3, [0] * 500) for n in range(2)])
    assert min(calls.of.values()) > 0.25 * max(calls.of.values())


def test_slots_of_a_computing_pool_keep_the_processors_of_all_executors_busy(cluster: Clusters) -> None:
    eddy = cluster("wscq", {"a": 2}, computing=("a",))
    job, calls = eddy.job(), Calls(0.005)
    of_executor = {name: Calls(0.0) for name in ("one", "other")}

    def work(name: str) -> None:
        def holds(row: int) -> bool:
            of_executor[name].begin(0)
            calls.holds(0)(row)
            of_executor[name].end()
            return True

        eddy.work(job, [holds] * 3, [0] * 40, name)

    run_at_once([partial(work, name) for name in of_executor])
    assert calls.most == 2
    assert {name: each.most for name, each in of_executor.items()} == {"one": 1, "other": 1}
    # one of them ends a little earlier
    assert calls.mean_at_a_time > 1.5


@pytest.mark.slow
@pytest.mark.parametrize("waiting", [0, 100])
def test_executors_settle_tuples_at_their_own_speed_while_others_wait(
    cluster: Clusters, waiting: int
) -> None:
    """A job ends with the first of its workers that has no tuples left, unless there are no others."""
    eddy, reports = cluster("wscq", {"a": 8}), dict[str, Report]()
    job = eddy.job(waiting=waiting)
    calls_of, has_settled_one = Counter[int](), threading.Event()

    def slow(row: int) -> bool:
        time.sleep(0.02)
        calls_of[row] += 1
        if calls_of[row] == 3:
            has_settled_one.set()
        return True

    def work_slowly() -> None:
        reports["slow"] = eddy.work(job, [slow] * 3, [0] * 240)

    def work_quickly() -> None:
        assert has_settled_one.wait(60)
        reports["quick"] = eddy.work(job, [Calls(0.001).holds(0)] * 3, [0] * 240)

    run_at_once([work_slowly, work_quickly])
    assert reports["quick"].settled >= 180
    if waiting:
        assert 0 < reports["slow"].settled < 180
        assert reports["slow"].active_s < 2 * reports["quick"].active_s + 1
    else:
        assert reports["slow"].settled == reports["quick"].settled == 240


def test_a_worker_learns_the_queues_and_statistics_of_others(cluster: Clusters) -> None:
    eddy = cluster("wscq", {"a": 1, "b": 1, "c": 1})
    job = eddy.job()
    one, other = (SlotClient(job.access, job.statistics, lambda: None) for _ in range(2))
    name = job.rules.names[0]
    work = Count(tuples_in=50, done=50, out=10, busy_s=1.0)
    one.publish(Publication({name: work}, {name: 7}, 1.0))
    one.end(Report(Publication({}, {name: 7}, 0.0), {}, 0.0))
    other.end(Report(Publication({}, {name: 3}, 0.0), {}, 0.0))
    assert other.statistics[name].queue == 7
    assert other.statistics[name].seconds == pytest.approx(0.02)
    assert other.statistics[name].selectivity < 0.5
    assert one.statistics[name].queue == 0
    for client in (one, other):
        client.close()
    assert len(eddy.server.take_reports(job.access)) == 2


def test_an_error_of_a_function_ends_the_job(cluster: Clusters) -> None:
    def fails(row: int) -> bool:
        raise ValueError("no")

    eddy = cluster("wscq", {"a": 1})
    with pytest.raises(ValueError, match="no"):
        eddy.work(eddy.job(), [fails] * 3, [0] * 10)

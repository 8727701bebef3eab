"""Plans that are executed again, over other inputs and with other bounds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from headgate.spark import sql
from headgate.spark.application.cluster import private_session
from headgate.spark.physical_plans import LightPlan, MeasuredQuery, PhysicalPlans, Target

pytestmark = pytest.mark.spark

COUNTED = ("count(1) AS rows", "max(v) AS largest")


def bound(value: int, column: str = "v") -> str:
    return sql.Bound(value).at(sql.name(column))


class Ticks:
    """Executes one query in several ticks."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.plans = PhysicalPlans(spark)
        self.folder = folder
        self.number = 0

    def memory(self, name: str, values: Sequence[int]) -> None:
        rows = self.spark.createDataFrame([(value,) for value in values], "v BIGINT")
        self.plans.views.define_input(name, rows.localCheckpoint())

    def files(self, name: str, values: Sequence[int]) -> None:
        path = str(self.folder / f"source-{self.number}-{name}")
        self.spark.createDataFrame([(value,) for value in values], "v BIGINT").write.parquet(path)
        self.plans.views.define_input(name, self.spark.read.schema("v BIGINT").parquet(path))

    def run(self, query: str, measures: Sequence[str] = COUNTED) -> tuple[dict[str, object], list[int]]:
        self.number += 1
        measured = MeasuredQuery(self.plans, query, measures)
        path = str(self.folder / str(self.number))
        measured.save(Target("parquet", (), path))
        return dict(measured.found), sorted(row.v for row in self.spark.read.parquet(path).collect())

    @property
    def kept(self) -> int:
        return sum(known.result() is not None for known in self.plans._known.values())


@pytest.fixture(scope="module")
def private(compiled: SparkSession) -> SparkSession:
    return private_session(compiled)


@pytest.fixture
def ticks(private: SparkSession, tmp_path: Path) -> Ticks:
    return Ticks(private, tmp_path)


@pytest.mark.parametrize("kind", ["memory", "files"])
def test_a_plan_is_executed_over_the_inputs_and_bounds_of_each_tick(ticks: Ticks, kind: str) -> None:
    for low, high, values in ((2, 9, range(10)), (-5, 3, range(-9, 9, 2)), (0, 100, [])):
        getattr(ticks, kind)("s", list(values))
        found, rows = ticks.run(f"SELECT v FROM `s` WHERE v >= {bound(low)} AND v < {bound(high)}")
        wanted = [v for v in values if low <= v < high]
        assert rows == wanted
        assert found["rows"] == len(wanted) and found.get("largest") == max(wanted, default=None)
    assert ticks.kept == 1


def test_joins_of_two_inputs_and_aggregates_of_other_bounds_share_a_plan(ticks: Ticks) -> None:
    for shift in (0, 7):
        ticks.memory("a", range(shift, shift + 5))
        ticks.files("b", range(shift + 2, shift + 9))
        query = "SELECT /*+ SHUFFLE_HASH(`b`) */ `a`.v FROM `a` JOIN `b` ON `a`.v = `b`.v"
        found, rows = ticks.run(query, [f"count_if(v > {bound(shift + 3)}) AS above"])
        assert rows == [shift + 2, shift + 3, shift + 4] and found == {"above": 1}
    assert ticks.kept == 1


def test_a_bound_that_the_optimizer_makes_a_plain_number_is_replaced_too(ticks: Ticks) -> None:
    for least in (3, 6):
        ticks.memory("s", range(9))
        exploded = "SELECT explode(sequence(v, v + 1)) AS v FROM `s`"
        query = f"SELECT v FROM ({exploded}) WHERE v >= {bound(least)}"
        _, rows = ticks.run(query)
        assert rows == sorted(v + more for v in range(9) for more in (0, 1) if v + more >= least)
    assert ticks.kept == 1


def test_a_bound_inside_of_what_the_optimizer_computes_is_planned_anew(ticks: Ticks) -> None:
    for least in (3, 6):
        ticks.memory("s", range(9))
        exploded = "SELECT explode(sequence(v, v + 1)) AS v FROM `s`"
        query = f"SELECT v FROM ({exploded}) WHERE v >= {bound(least)} + 1L"
        _, rows = ticks.run(query)
        assert rows == sorted(v + more for v in range(9) for more in (0, 1) if v + more >= least + 1)


def test_texts_that_look_like_bounds_are_left_alone(ticks: Ticks) -> None:
    for value in (1, 2):
        ticks.memory("s", range(3))
        text = bound(value).replace("'", "")
        query = f"SELECT length('{text}') + {bound(value)} AS v FROM `s`"
        _, rows = ticks.run(query, ())
        assert rows == [len(text) + value] * 3
    assert ticks.kept == 0


@pytest.mark.parametrize("call", ["CAST(rand() * 1e15 AS BIGINT)", "unix_micros(current_timestamp())"])
def test_what_differs_from_one_execution_to_the_next_is_planned_anew(ticks: Ticks, call: str) -> None:
    found = []
    for _ in range(2):
        ticks.memory("s", [0])
        found.append(ticks.run(f"SELECT {call} AS v FROM `s`", ())[1])
    assert found[0] != found[1] and ticks.kept == 0


def test_inputs_of_other_columns_get_a_plan_of_their_own(ticks: Ticks) -> None:
    ticks.memory("s", [1, 2])
    assert ticks.run("SELECT v FROM `s`")[1] == [1, 2]
    wider = ticks.spark.createDataFrame([("x", 3)], "w STRING, v BIGINT").localCheckpoint()
    ticks.plans.views.define_input("s", wider)
    assert ticks.run("SELECT v FROM `s`")[1] == [3]
    assert ticks.kept == 2


def test_a_view_that_is_no_input_is_planned_anew(ticks: Ticks) -> None:
    for most in (1, 2):
        ticks.plans.views.begin_tick()
        ticks.memory("s", [0, 1, 2])
        ticks.plans.views.define("t", ticks.spark.sql(f"SELECT v FROM `s` WHERE v <= {most}"))
        assert ticks.run("SELECT v FROM `t`")[1] == list(range(most + 1))
    assert ticks.kept == 0


def test_plans_that_are_not_used_for_long_are_forgotten(
    ticks: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.spark.physical_plans._MOST_PLANS", 2)
    ticks.memory("s", [1, 2, 3])
    for more in (1, 2, 3, 1, 2, 3):
        assert ticks.run(f"SELECT v + {more} AS v FROM `s`")[1] == [1 + more, 2 + more, 3 + more]
        assert ticks.kept <= 2


def light(ticks: Ticks, query: str, target: Target) -> LightPlan:
    """The plan that one run of the query leaves behind."""
    measured = MeasuredQuery(ticks.plans, query, COUNTED)
    assert ticks.plans.light(measured, target) is None, "the first time, there is no plan yet"
    measured.save(target)
    plan = ticks.plans.light(MeasuredQuery(ticks.plans, query, COUNTED), target)
    assert plan is not None
    return plan


def test_light_plans_share_a_job_over_the_inputs_and_bounds_of_each_tick(ticks: Ticks) -> None:
    a, b = (f"(SELECT /*+ COALESCE(1) */ * FROM `{name}`) AS `{name}`" for name in "ab")
    joined = f"SELECT /*+ SHUFFLE_HASH(`b`) */ `a`.v FROM {a} JOIN {b} ON `a`.v = `b`.v"
    targets = [Target("parquet", (), str(ticks.folder / "x")), Target("json", (), str(ticks.folder / "y"))]
    for shift in (0, 30, -70):
        ticks.memory("a", range(shift, shift + 10))
        ticks.memory("b", range(shift + 5, shift + 15))
        queries = [
            f"SELECT v FROM `a` WHERE v >= {bound(shift + 7)} AND v < {bound(shift + 10)}",
            f"SELECT v FROM `b` WHERE v < {bound(shift + 8)}",
        ]
        if not shift:
            for query, target in zip((*queries, joined), (*targets, Target()), strict=True):
                light(ticks, query, target)
        found = [MeasuredQuery(ticks.plans, query, COUNTED) for query in (*queries, joined)]
        plans = [
            plan
            for one, target in zip(found, (*targets, Target()), strict=True)
            if (plan := ticks.plans.light(one, target))
        ]
        Path(targets[0].path, "part-left-over.parquet").write_text("of an earlier attempt")

        seconds = ticks.plans.run_in_one_job(plans)

        assert seconds is not None and len(seconds) == 3 and all(taken > 0 for taken in seconds)
        wanted = [(3, shift + 9), (3, shift + 7), (5, shift + 9)]
        assert [one.found for one in found] == [{"rows": rows, "largest": most} for rows, most in wanted]
        read = [ticks.spark.read.format(str(t.format)).load(t.path).collect() for t in targets]
        values = [sorted(row.v - shift for row in rows) for rows in read]
        assert values == [[7, 8, 9], [5, 6, 7]]


def test_plans_that_share_a_job_keep_the_options_of_their_files(ticks: Ticks) -> None:
    ticks.memory("s", range(10))
    targets = [
        Target("parquet", (("compression", codec),), str(ticks.folder / codec)) for codec in ("gzip", "zstd")
    ]
    plans = [light(ticks, "SELECT v, v AS w FROM `s`", target) for target in targets]
    ticks.plans.run_in_one_job(plans)
    for target in targets:
        [path] = Path(target.path).glob("part-*")
        file = pq.ParquetFile(path)
        assert file.metadata.row_group(0).column(0).compression == dict(target.options)["compression"].upper()
        assert file.read().to_pydict() == {"v": list(range(10)), "w": list(range(10))}


def test_equal_plans_of_one_tick_do_not_disturb_each_other(ticks: Ticks) -> None:
    ticks.memory("s", range(10))
    light(ticks, f"SELECT v FROM `s` WHERE v >= {bound(0)}", Target())
    found = [MeasuredQuery(ticks.plans, f"SELECT v FROM `s` WHERE v >= {bound(v)}", COUNTED) for v in (3, 8)]
    plans = [plan for one in found if (plan := ticks.plans.light(one, Target()))]
    ticks.plans.run_in_one_job(plans)
    assert [one.found["rows"] for one in found] == [7, 2]


def test_plans_of_several_stages_and_plans_over_files_are_not_light(ticks: Ticks) -> None:
    ticks.memory("s", range(10))
    measured = MeasuredQuery(ticks.plans, "SELECT v % 3 AS v FROM `s` GROUP BY v % 3", COUNTED)
    measured.save(Target())
    assert ticks.kept == 1 and ticks.plans.light(measured, Target()) is None
    ticks.files("s", range(10))
    measured = MeasuredQuery(ticks.plans, "SELECT v FROM `s`", COUNTED)
    measured.save(Target())
    assert ticks.kept == 2 and ticks.plans.light(measured, Target()) is None


def test_what_fails_in_a_shared_job_fails_it(ticks: Ticks) -> None:
    ticks.memory("s", [1, 2])
    plans = [
        light(ticks, query, Target())
        for query in ("SELECT v FROM `s`", "SELECT 10 div (v - 5) AS v FROM `s`")
    ]
    ticks.memory("s", [5])
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        ticks.plans.run_in_one_job(plans)


def test_no_two_views_of_a_tick_have_one_name(ticks: Ticks) -> None:
    read = [("a", "x"), ("a", "y"), ("a 1", "x"), ("a 1", "y"), ("a 1 0", "x")]
    names = [ticks.plans.views.share(stream, [path], lambda name: name) for stream, path in read]
    parts = [f"{name} {number}" for name in names for number in range(3)]
    assert len(set(names)) == len(names) and len(set(parts)) == len(parts)

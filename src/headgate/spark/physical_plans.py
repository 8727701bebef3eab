"""Executing the queries of a tick by physical plans of earlier ticks.

Spark takes longer to plan a query than to process a few thousand rows, above all in a JVM that has just
started. From tick to tick, a query changes its inputs, its bounds and the folder that it writes to. In a copy
of the plan, ``java/PhysicalPlans.java`` replaces all three. What cannot be executed this way is planned anew.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from headgate.spark import sql
from headgate.spark.application.cluster import task_slots
from headgate.spark.application.java_classes import new_object

_LOG = logging.getLogger(__name__)

# numbers that stand for bounds while a query is planned: larger than any timestamp or sequence number, and so
# far apart that none is another one plus the length of a window
_FIRST_PLACEHOLDER = 9_200_000_000_000_000_000
_STEP = 1_000_000_000_039
_TEXT = re.compile(r"'(?:[^'\\]|\\.|'')*'")
_BOUND = re.compile(r"array\((-?\d+)L, \1L\)\[int\(isnull\(")
_QUOTED = re.compile(r"`((?:[^`]|``)+)`")
# a plan takes some 100 kB
_MOST_PLANS = 1_000


class Views:
    """Temporary views, defined again in every tick.

    Spark runs a command of 5 ms to define a view; replacing the plan of a known view needs none.
    """

    def __init__(self, spark: SparkSession, plans: Any) -> None:
        session: Any = spark._jsparkSession
        jvm: Any = spark._jvm
        self._plans = plans
        self._catalog = session.sessionState().catalog()
        self._some = jvm.scala.Option.apply
        self._view = jvm.org.apache.spark.sql.catalyst.catalog.TemporaryViewRelation
        self._known: dict[str, tuple[Any, Any, str]] = {}
        self._shared: dict[tuple[str, tuple[str, ...]], str] = {}
        self._inputs: dict[str, str] = {}
        self._composed: set[str] = set()

    def begin_tick(self) -> None:
        """Define shared views anew, under the names of the tick before."""
        self._shared.clear()
        self._inputs.clear()
        self._composed.clear()

    def share(self, content: str, paths: Sequence[str], define: Callable[[str], str]) -> str:
        """One view for all readers of the same blocks in a tick; ``define`` is given its name."""
        key = content, tuple(paths)
        if key not in self._shared:
            # always with a number: the second view of a and the first of `a 1` must not have one name
            number = sum(known == content for known, _ in self._shared)
            self._shared[key] = define(f"{content} {number}")
        return self._shared[key]

    def define(self, name: str, frame: DataFrame) -> str:
        """Let a view stand for a plan; returns its quoted name."""
        self._replace(name, frame)
        self._inputs.pop(name, None)
        self._composed.add(name)
        return sql.name(name)

    def define_input(self, name: str, frame: DataFrame) -> str:
        """Let a view stand for one RDD or one relation of files; returns its quoted name."""
        plan = self._replace(name, frame)
        leaves = plan.collectLeaves()
        leaf = leaves.apply(0)
        kind = leaf.getClass().getSimpleName()
        if leaves.size() != 1 or kind not in ("LogicalRDD", "LogicalRelation"):
            return self.define(name, frame)
        self._composed.discard(name)
        self._plans.setInput(name, leaf.rdd() if kind == "LogicalRDD" else leaf.relation())
        self._inputs[name] = f"{name} {kind} {self._known[name][2]}"
        return sql.name(name)

    def _replace(self, name: str, frame: DataFrame) -> Any:
        java: Any = frame._jdf
        plan = java.queryExecution().analyzed()
        described, schema, _ = self._known.get(name, (None, None, ""))
        if described is None or schema is None or not schema.equals(plan.schema()):
            frame.createOrReplaceTempView(sql.name(name))
            described = self._catalog.getRawTempView(name).get().tableMeta()
            schema = described.schema()
            self._known[name] = described, schema, schema.json()
        else:
            self._catalog.createTempView(name, self._view(described, self._some(plan)), True)
        return plan

    def inputs_of(self, query: str) -> dict[str, str] | None:
        """The inputs that a query reads, described; None if it reads other views of this tick."""
        names = {name.replace("``", "`") for name in _QUOTED.findall(query)}
        if names & self._composed:
            return None
        return {name: self._inputs[name] for name in sorted(names & self._inputs.keys())}


@dataclass(frozen=True)
class Target:
    """Where rows go: a folder of files of a format. Without a format, they are computed and forgotten."""

    format: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    path: str = ""


@dataclass(eq=False)
class MeasuredQuery:
    """A query or frame to be executed, and aggregates over its rows; ``hidden`` columns are not saved."""

    plans: PhysicalPlans
    rows: str | DataFrame
    measures: Sequence[str]
    hidden: tuple[str, ...] = ()
    found: Mapping[str, Any] = field(default_factory=dict)
    """The aggregates, once the rows have been written."""

    def save(self, target: Target) -> None:
        """Write the rows, and measure them."""
        found = None if isinstance(self.rows, DataFrame) else self.plans.run(self, self.rows, target)
        if found is None:
            with self.observed() as frame:
                write(frame, target)
        else:
            self.found = found

    @contextmanager
    def observed(self) -> Iterator[DataFrame]:
        """The rows as a frame that is planned anew; one job on it measures them."""
        tuples = self.rows if isinstance(self.rows, DataFrame) else self.plans.spark.sql(self.rows)
        observation = Observation(f"measured {next(_NUMBERS)}")
        if self.measures:
            tuples = tuples.observe(observation, *map(F.expr, self.measures))
        yield tuples.drop(*self.hidden)
        if self.measures:
            self.found = observation.get


_NUMBERS = count()


def write(frame: DataFrame, target: Target) -> None:
    """Write a frame the usual way."""
    writer = frame.write.format(target.format or "noop").options(**dict(target.options)).mode("overwrite")
    writer.save(target.path or None)


@dataclass(frozen=True)
class _Shape:
    """A query without its bounds, and what else its plan depends on."""

    key: str
    texts: Sequence[str]
    bounds: Sequence[str]
    inputs: Mapping[str, str]


@dataclass(frozen=True)
class _KeptPlan:
    number: str
    is_light: bool


@dataclass(frozen=True)
class LightPlan:
    """A plan to be executed in one task together with others, with its bounds and its folder."""

    measured: MeasuredQuery
    number: str
    bounds: str
    path: str


class PhysicalPlans:
    """Plans by the shape of their queries: text without bounds, kinds of inputs, and target."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.tasks = ""
        """Number of tasks after a shuffle; part of every plan."""
        self._java = new_object(
            spark, "headgate.PhysicalPlans", spark._jsparkSession, _FIRST_PLACEHOLDER, _STEP
        )
        self.views = Views(spark, self._java)
        self._lock = threading.Lock()
        # a task of a cluster may be repeated, and its files must not be there twice
        self._runs_light_plans = task_slots(spark) is not None
        # by shape: a plan, or None if there can be none; the most recently used last
        self._known: OrderedDict[str, Future[_KeptPlan | None]] = OrderedDict()

    def run(self, measured: MeasuredQuery, query: str, target: Target) -> dict[str, Any] | None:
        """Execute a query by a plan that is kept; returns its aggregates, or None if no plan can be kept."""
        shape = self._shape(measured, query, target)
        if shape is None:
            return None
        with self._lock:
            known = self._known.get(shape.key)
            is_new = known is None
            if known is None:
                known = self._known[shape.key] = Future()
                self._forget_oldest()
            self._known.move_to_end(shape.key)
        if is_new:
            # others that wait for the same plan get None if this fails, and the error of their own planning
            plan = None
            try:
                plan = self._prepare(shape, measured.hidden, target)
            finally:
                known.set_result(plan)
        if (plan := known.result()) is None:
            return None
        found = self._java.run(plan.number, ",".join(shape.bounds), target.path)
        # another thread may have forgotten the plan in between
        return None if found is None else json.loads(found)

    def light(self, measured: MeasuredQuery, target: Target) -> LightPlan | None:
        """The plan of an earlier tick for a query that one task can execute; None if there is none."""
        if isinstance(measured.rows, DataFrame) or not self._runs_light_plans:
            return None
        shape = self._shape(measured, measured.rows, target)
        with self._lock:
            known = None if shape is None else self._known.get(shape.key)
            if shape is None or known is None or not known.done():
                return None
            self._known.move_to_end(shape.key)
        plan = known.result()
        if plan is None or not plan.is_light:
            return None
        return LightPlan(measured, plan.number, ",".join(shape.bounds), target.path)

    def run_in_one_job(self, light: Sequence[LightPlan]) -> list[float] | None:
        """Execute plans in one task; returns the seconds of each.

        None if a plan has been forgotten, or if its inputs are still to be computed by several tasks.
        """
        keys, bounds, paths = zip(*((one.number, one.bounds, one.path) for one in light), strict=True)
        found = self._java.runInOneJob("\n".join(keys), "\n".join(bounds), "\n".join(paths))
        if found is None:
            return None
        executed = json.loads(found)
        for one, of_one in zip(light, executed, strict=True):
            one.measured.found = of_one["found"]
        return [float(of_one["seconds"]) for of_one in executed]

    def _shape(self, measured: MeasuredQuery, query: str, target: Target) -> _Shape | None:
        """None if no plan of the query can be kept."""
        inputs = self.views.inputs_of(query)
        # names of files make a query another one in every tick; a text of the user's is no bound
        if inputs is None or sql.name(sql.FILE) in query or any(map(_BOUND.search, _TEXT.findall(query))):
            return None
        texts, bounds = _without_bounds([query, *measured.measures])
        described = f"{target.format} {target.options} {measured.hidden}"
        key = "\n".join([self.tasks, described, *inputs.values(), *texts])
        return _Shape(key, texts, bounds, inputs)

    def _forget_oldest(self) -> None:
        if len(self._known) > _MOST_PLANS:
            _, oldest = self._known.popitem(last=False)
            plan = oldest.result() if oldest.done() else None
            if plan is not None:
                self._java.remove(plan.number)

    def _prepare(self, shape: _Shape, hidden: Sequence[str], target: Target) -> _KeptPlan | None:
        """Plan a query whose bounds are placeholders."""
        texts, inputs = shape.texts, shape.inputs
        frame = self.spark.sql(texts[0])
        if len(texts) > 1:
            frame = frame.observe("measured", *map(F.expr, texts[1:]))
        java: Any = frame.drop(*hidden)._jdf
        options = _scala_map(self.spark, {**dict(target.options), "path": target.path})
        number = str(next(_NUMBERS))
        plan = java.queryExecution().analyzed()
        names = "\n".join(inputs)
        obstacle = self._java.prepare(number, plan, names, len(shape.bounds), target.format, options)
        _LOG.debug("planned %s: %s", texts[0], obstacle or "kept")
        return None if obstacle else _KeptPlan(number, bool(self._java.isLight(number)))


def _scala_map(spark: SparkSession, options: Mapping[str, str]) -> Any:
    jvm: Any = spark._jvm
    return jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(dict(options))


def _without_bounds(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Texts with consecutive placeholders for their bounds, and the bounds."""
    found: list[str] = []

    def replaced(match: re.Match[str]) -> str:
        number = _FIRST_PLACEHOLDER + _STEP * len(found)
        found.append(match[1])
        return f"array({number}L, {number}L)[int(isnull("

    return [_BOUND.sub(replaced, text) for text in texts], found

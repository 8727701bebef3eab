"""Outer, semi and anti joins of windows against the brute force, alone: any windows, any ticks."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from pyspark.sql import SparkSession
from tests.oracle import brute_force as oracle
from tests.oracle.brute_force import SECOND, Results, Tuple
from tests.oracle.random_queries import column, compare
from tests.spark.operators.alone import (
    COLUMNS,
    Alone,
    Feed,
    Tables,
    at_once,
    random_ticks,
    random_tuples,
    stream_input,
)
from tests.spark.operators.budget import few
from tests.spark.operators.test_window_join import WINDOWS, Pairs

from headgate.model.expression import Expression
from headgate.model.joins import (
    AntiWindowJoin,
    FullWindowJoin,
    JoinSide,
    LeftWindowJoin,
    OuterWindowJoin,
    RightWindowJoin,
    SemiWindowJoin,
)
from headgate.model.window import TimeWindow
from headgate.spark.operators.outer_join import OuterJoinOperator, SemiJoinOperator

pytestmark = pytest.mark.spark

KINDS: dict[str, type[OuterWindowJoin]] = {
    "LEFT": LeftWindowJoin,
    "RIGHT": RightWindowJoin,
    "FULL": FullWindowJoin,
    "SEMI": SemiWindowJoin,
    "ANTI": AntiWindowJoin,
}
TIMED = [pair for pair in WINDOWS if isinstance(pair[0], TimeWindow)]


def operator_of(kind: str, windows: Pairs, streams: Sequence[str]) -> OuterJoinOperator:
    sides = [
        JoinSide(stream_input(alias, stream), alias, stream, window, (streams.index(stream), place))
        for place, (alias, stream, (window, _)) in enumerate(zip("ab", streams, windows, strict=True))
    ]
    matches = (Expression.parse("a__k = b__k"), Expression.parse("a__v <> b__v"))
    made = SemiJoinOperator if kind == "SEMI" else OuterJoinOperator
    return made(KINDS[kind]("join", tuple(sides), matches))


def expected(kind: str, windows: Pairs, streams: Sequence[str], sides: Sequence[Sequence[Tuple]]) -> Results:
    tuples = [
        oracle.Stream(stream, streams.index(stream), rows)
        for stream, rows in zip(streams, sides, strict=True)
    ]
    matches = [compare("a", "k", "=", "b", "k"), compare("a", "v", "<>", "b", "v")]
    on = oracle.Predicate("", frozenset("ab"), lambda rows: all(one.holds(rows) is True for one in matches))
    declared = [
        oracle.Side(tuples[0], "a", windows[0][1]),
        oracle.Side(tuples[1], "b", windows[1][1], join=kind, on=on),
    ]
    shown = "a" if kind in ("SEMI", "ANTI") else "ab"
    values = [column(alias, name) for alias in shown for name in COLUMNS]
    return oracle.evaluate(oracle.Query("q", [oracle.Select(declared, values)]))


@pytest.mark.parametrize("kind", KINDS)
@few(4)
def test_any_ticks_give_matches_and_what_has_none(tiny: SparkSession, kind: str, seed: int) -> None:
    rng = Random(seed)
    preserved = KINDS[kind].preserved
    windows = [rng.choice(TIMED if side in preserved else WINDOWS) for side in (0, 1)]
    streams = rng.choice((["s", "t"], ["s", "s"]))
    one = random_tuples(rng)
    sides = [one, one if streams[0] == streams[1] else random_tuples(rng)]
    operator = operator_of(kind, windows, streams)
    feeds = [
        Feed(
            alias, rows, window, stream=stream, is_queue=isinstance(window, TimeWindow) and rng.random() < 0.3
        )
        for alias, rows, stream, (window, _) in zip("ab", sides, streams, windows, strict=True)
    ]
    ticks = random_ticks(rng, sides, end_us=operator.reach_us + 1, most=5)
    found = Alone(tiny, operator, feeds, Tables({*streams})).run(ticks)
    assert found == expected(kind, windows, streams, sides)


def test_equal_tuples_are_emitted_each_by_itself(tiny: SparkSession) -> None:
    windows = [TIMED[0], TIMED[0]]
    sides = [
        [Tuple(1 * SECOND, {"k": 1, "v": 1})] * 2 + [Tuple(1 * SECOND, {"k": 2, "v": 1})] * 3,
        [Tuple(ts * SECOND, {"k": 1, "v": 2}) for ts in (2, 3)],
    ]
    for kind, wanted in (("SEMI", {(2 * SECOND, 1, 1): 2}), ("ANTI", {(3 * SECOND, 2, 1): 3})):
        operator = operator_of(kind, windows, ["s", "t"])
        feeds = [Feed("a", sides[0], windows[0][0]), Feed("b", sides[1], windows[1][0], stream="t")]
        found = Alone(tiny, operator, feeds, Tables(("s", "t"))).run(at_once(sides, end_us=3 * SECOND))
        assert found == wanted, kind


@pytest.mark.parametrize("kind", KINDS)
def test_state_is_bounded_by_both_windows(tiny: SparkSession, kind: str) -> None:
    side = [Tuple(i * SECOND, {"k": i % 2, "v": i}) for i in range(60)]
    windows = [TIMED[0], TIMED[0]]
    feeds = [Feed("a", side, windows[0][0]), Feed("b", side, windows[1][0], stream="t")]
    alone = Alone(tiny, operator_of(kind, windows, ["s", "t"]), feeds, Tables(("s", "t")))
    assert alone.run([t for n in range(6, 61, 6) for t in at_once([side[:n], side[:n]])]).total() >= 0
    # blocks of six tuples: four seconds reach into the block before, at most
    assert alone.most_kept_tuples <= 2 * 12

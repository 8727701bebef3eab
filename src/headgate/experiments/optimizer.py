"""Join order with load shedding: the worked example, and a thousand random queries that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from scipy.optimize import brentq

from headgate.experiments.check import Progress, Study
from headgate.experiments.optimizer_queries import LEVELS, Level, connected_orders, levels_of
from headgate.model.window import RowWindow
from headgate.planning.cost import WindowSeconds
from headgate.planning.joins.candidate import Candidate
from headgate.planning.joins.exhaustive import exhaustive, left_deep_plans
from headgate.planning.joins.heuristic import heuristic
from headgate.planning.joins.problem import JoinInput, JoinPredicate, JoinProblem
from headgate.report.lines import plot_lines

QUERIES = 1000
_SEED = 2004
_AB, _BC, _AC = "(A, B), C", "(B, C), A", "(A, C), B"
_RATES = {"A": 10.0, "B": 70.0, "C": 20.0}


def reproduce(trace: Path | None, out: Path, progress: Progress) -> Study:
    """All of it; rates are drawn, so that a trace has nothing to add."""
    del trace
    study = Study("optimizer", out, progress)
    _example(study)
    _figure_6(study)
    study.progress(f"{QUERIES} random queries at {len(LEVELS)} resource levels")
    levels = levels_of(QUERIES, _SEED)
    _reoptimisation(study, levels)
    connected = {level.share: level for level in levels_of(QUERIES, _SEED, connected_orders())}
    study.equal("figure 7: share that gains at 60 % without cross products", 0.0, connected[0.6].gaining)
    _heuristic(study, levels)
    return study


def example_1(join_seconds: float) -> JoinProblem:
    """Three streams, two predicates, and one cost for each tuple that a join takes."""
    seconds = WindowSeconds(probe_seconds=join_seconds)
    return JoinProblem(
        "example 1",
        tuple(JoinInput(a, a, rate, RowWindow(10), window_seconds=seconds) for a, rate in _RATES.items()),
        (JoinPredicate("AB", frozenset("AB"), 0.5), JoinPredicate("BC", frozenset("BC"), 0.2)),
        seconds,
    )


@cache
def _plans_at(milliseconds: float) -> dict[str, Candidate]:
    problem = example_1(milliseconds / 1000)
    return {str(c): c for c in exhaustive(problem, left_deep_plans(problem), 1.0)}


def _throughput(plan: str) -> Callable[[float], float]:
    return lambda milliseconds: _plans_at(milliseconds)[plan].output_per_s


def _example(study: Study) -> None:
    study.progress("example 1")
    expected = {
        "tuples handled a second": (1000.0, {_AB: 500.0, _BC: 280.0, _AC: 400.0}),
        "utilisation at 0.5 ms": (0.5, {_AB: 0.25, _BC: 0.14, _AC: 0.2}),
        "utilisation at 3 ms": (3.0, {_AB: 1.5, _BC: 0.84, _AC: 1.2}),
    }
    for what, (milliseconds, by_plan) in expected.items():
        found = _plans_at(milliseconds)
        got = {plan: float(f"{found[plan].cost_per_s:.12g}") for plan in by_plan}
        study.equal(f"example 1: {what}", by_plan, got)
    got = {plan: c.output_per_s for plan, c in _plans_at(0.5).items()}
    study.equal("example 1: output of every plan that fits", dict.fromkeys(got, 1000.0), got)


def _figure_6(study: Study) -> None:
    study.progress("figure 6")
    at_14, at_100 = _plans_at(14.0), _plans_at(100.0)
    study.equal("figure 6: throughput of (A, C), B at 14 ms", 701, round(at_14[_AC].output_per_s))
    study.equal("figure 6: throughput of (B, C), A at 14 ms", 305, round(at_14[_BC].output_per_s))
    got = {plan: float(f"{c.output_per_s:.12g}") for plan, c in at_100.items()}
    study.equal("figure 6: throughput of all plans at 100 ms", dict.fromkeys(got, 100.0), got)
    at_60 = _plans_at(60.0)
    pair = (float(f"{at_60[plan].output_per_s:.12g}") for plan in (_AC, _AB))
    study.equal("figure 6: (A, C), B and (A, B), C give the same at 60 ms", *pair)
    switch = _crossing(_BC, _AC, 3.6, 6.0)
    study.at_least("figure 6: (A, C), B overtakes (B, C), A at a join cost of (ms)", 4.0, switch)
    study.at_most("figure 6: and before (ms)", 4.5, switch)
    worst = _crossing(_BC, _AB, 10.0, 30.0)
    study.at_least("figure 6: (B, C), A becomes the worst at (ms)", 16.0, worst)
    study.at_most("figure 6: and before (ms)", 17.0, worst)
    for milliseconds in (0.5, 3.0, 4.0, 4.5, 14.0, 40.0):
        best = next(iter(_plans_at(milliseconds)))
        found = str(heuristic(example_1(milliseconds / 1000), 1.0))
        study.equal(f"figure 6: the heuristic's plan at {milliseconds:g} ms", best, found)
    _draw_figure_6(study)


def _crossing(one: str, other: str, low_ms: float, high_ms: float) -> float:
    difference = lambda ms: _throughput(one)(ms) - _throughput(other)(ms)  # noqa: E731
    return float(brentq(difference, low_ms, high_ms))


def _draw_figure_6(study: Study) -> None:
    for name, costs_ms in (
        ("figure-6", [0.01, *range(1, 101)]),
        ("figure-6-corner", [0.01 + 0.1 * step for step in range(100)]),
    ):
        lines = {plan: (costs_ms, [_throughput(plan)(ms) for ms in costs_ms]) for plan in (_AB, _BC, _AC)}
        title = "Throughput of the three plans of example 1"
        figure = study.out / f"{name}.png"
        study.figure(plot_lines(figure, title, "join cost (ms)", "results a second", lines, steps=False))


def _reoptimisation(study: Study, levels: list[Level]) -> None:
    at = {level.share: level for level in levels}
    gaining = {f"{level.share:g}": level.gaining for level in levels}
    gains = {f"{level.share:g}": level.mean_gain for level in levels}
    study.rising("figure 7: share of queries that gain, resources falling", gaining)
    study.equal("figure 7: none gains while the cheapest plan fits", 0.0, at[1.0].gaining)
    half = _where_half_gain(levels)
    study.at_least("figure 7: half of the queries gain from resources of", 0.5, half)
    study.at_most("figure 7: (the paper: about 0.6)", 0.65, half)
    study.at_least("figure 7: share that gains at 20 % (nearly all)", 0.9, at[0.2].gaining)
    study.rising("figure 8: mean gain, resources falling", gains)
    study.at_least("figure 8: mean gain at 60 % (about 4 %)", 0.03, at[0.6].mean_gain)
    study.at_most("figure 8: mean gain at 60 %, from above", 0.05, at[0.6].mean_gain)
    study.at_least("figure 8: best / cheapest at 1 % (nearly 8)", 7.0, 1 + at[0.01].mean_gain)
    study.at_most("figure 8: best / cheapest at 1 %, from above", 9.0, 1 + at[0.01].mean_gain)
    ratios = {f"{s:g}": at[s].most_gain / at[s].mean_gain for s in (0.2, 0.4, 0.6, 0.8)}
    study.rising("figure 9: most gain / mean gain, resources rising", ratios)
    shares = [100 * level.share for level in levels]
    _draw(
        study,
        7,
        "Queries that gain from another plan",
        "share of queries",
        {"gain": list(gaining.values())},
        shares,
    )
    _draw(study, 8, "Gain over the cheapest plan", "mean gain", {"all": list(gains.values())}, shares)
    lines = {
        "mean of those that gain": [level.mean_gain_of_gaining for level in levels],
        "mean of all": list(gains.values()),
        "most": [level.most_gain for level in levels],
    }
    _draw(study, 9, "Mean and greatest gain over the cheapest plan", "gain", lines, shares)


def _where_half_gain(levels: list[Level]) -> float:
    """The share of resources at which half of the queries gain, between two levels on a straight line."""
    above = min((level for level in levels if level.gaining < 0.5), key=lambda level: level.share)
    below = max((level for level in levels if level.gaining >= 0.5), key=lambda level: level.share)
    part = (0.5 - above.gaining) / (below.gaining - above.gaining)
    return above.share + part * (below.share - above.share)


def _heuristic(study: Study, levels: list[Level]) -> None:
    errors = {level.share: float(level.errors.mean()) for level in levels}
    elsewhere = max(error for share, error in errors.items() if share > 0.01)
    study.at_most("figure 10: the heuristic's mean error above 1 %", 0.002, elsewhere)
    study.at_most("figure 10: the heuristic's mean error at 1 % (the paper: 0.28)", 0.28, errors[0.01])
    study.at_most("figure 10: it is exact while the cheapest plan fits", 1e-9, errors[1.0])
    worst = max(float((1 / (1 - level.errors)).max()) for level in levels)
    study.at_most("figure 10: best / heuristic, the worst of all queries", 2.0, worst)
    shares = [100 * share for share in errors]
    _draw(study, 10, "Error of the heuristic", "mean relative error", {"all": list(errors.values())}, shares)


def _draw(
    study: Study, number: int, title: str, label: str, lines: dict[str, list[float]], shares: list[float]
) -> None:
    drawn = {name: (shares, values) for name, values in lines.items()}
    figure = study.out / f"figure-{number}.png"
    study.figure(plot_lines(figure, title, "resources (% of saturation)", label, drawn, steps=False))

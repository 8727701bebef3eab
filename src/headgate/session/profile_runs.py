"""Runs over samples of streams, one after another, until all operators are measured."""

from __future__ import annotations

from collections.abc import Callable

from headgate.control.overrides import FixedController, has_orders
from headgate.model.network import Network
from headgate.scheduling.baselines import Fifo
from headgate.session.launching import Launcher
from headgate.session.run_settings import RunSettings
from headgate.statistics.profile_file import Measured
from headgate.statistics.profiling import Profiler, Sampling, rests, sampled
from headgate.statistics.store import StatisticsStore

# least ticks of a profiling round: fewer prove nothing
_TICKS_PER_ROUND = 3


def profile_runs(
    network: Network,
    length_s: float,
    launcher: Launcher,
    statistics: StatisticsStore,
    progress: Callable[[str], None],
    say: Callable[[str], None],
) -> Measured:
    """What rounds of runs measure in ``length_s``, or longer if that is too short; results are discarded."""
    from headgate.spark.application.cluster import processors
    from headgate.spark.measuring import known_rates

    profiler, sources = Profiler(network, length_s, statistics), launcher.sources
    rates = known_rates(sources, network.streams.values())
    endless = not all(sources.ends(stream) for stream in network.streams.values())
    # the selectivity of a join of two is that of its predicate
    controller = FixedController(has_orders(network))
    while profiler.wants_more() or profiler.extend(say):
        progress(profiler.stage)
        settings = RunSettings(
            strategy=Sampling(profiler.rounds) if profiler.separates_operators else Fifo(),
            statistics=statistics,
            until_done=not endless,
            tick_budget_s=float("inf"),
            rest_s=None if profiler.separates_operators else rests(),
            controller=controller,
        )
        sample = sampled(network, profiler.files_per_tick, rates.highest)
        run = launcher.launch(sample, settings)
        try:
            # on a busy machine, a source may take longer to start than a round lasts
            run.run_for(profiler.seconds_left, _TICKS_PER_ROUND)
        finally:
            run.discard()
        profiler.end_round(run.status())
    return profiler.measured(rates, processors(launcher.spark))

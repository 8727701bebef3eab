"""``headgate bench``: measurements on Spark that the repository makes claims about."""

from __future__ import annotations

from pathlib import Path

import typer

from headgate.cli.options import DEBUG, JSON

EXAMPLE = "Example: headgate bench burst --out bench-out"

_STUDIES = ("burst", "eddies", "overload", "predict")


def bench(
    study: str = typer.Argument(
        ..., metavar="STUDY", help=f"One of {', '.join(_STUDIES)}.", show_default=False
    ),
    out: Path = typer.Option(Path("bench-out"), metavar="DIR", help="Folder for the figures."),
    seed: int = typer.Option(7, min=0, help="Seed of the traffic of burst."),
    seconds: float = typer.Option(60.0, min=10.0, help="Length of a run of eddies."),
    policy: list[str] = typer.Option(
        [],
        metavar="NAME",
        help="A policy of eddies; again for others. [default: optimal, wscq, sc, t]",
    ),
    master: str = typer.Option("local[*]", metavar="URL", help="Spark master."),
    as_json: bool = JSON,
    debug: bool = DEBUG,
) -> None:
    """Measure on Spark what is claimed or predicted.

    burst: one burst under several strategies, beside what the simulator says. predict: what a profile
    predicts of four queries, beside runs at several loads. eddies: three placed predicates under several
    routing policies. overload: a join of three streams at three times what the machine can do. The exit code
    is 1 if a check fails.
    """
    del debug
    from headgate.cli.studies import check_study, progress, show_study
    from headgate.routing.registry import router_named

    check_study(study, _STUDIES)
    for name in policy:
        router_named(name)
    # Spark is slow to import; help and errors come without it
    from headgate.experiments.burst import burst_study
    from headgate.experiments.overload import overload_study
    from headgate.experiments.pools import POLICIES, POOL_TASKS, pools_study
    from headgate.experiments.predict import predict_study
    from headgate.spark.cluster import own_session

    spark = own_session(master, pool_tasks=POOL_TASKS if study == "eddies" else 0)
    try:
        if study == "burst":
            done = burst_study(spark, out / study, seed, progress)
        elif study == "eddies":
            done = pools_study(spark, out / study, seconds, policy or POLICIES, progress)
        elif study == "overload":
            done = overload_study(spark, out / study, progress)
        else:
            done = predict_study(spark, out / study, progress)
    finally:
        spark.stop()
    show_study(done, as_json)

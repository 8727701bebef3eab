"""``headgate route``: where placed operators send tuples next, and what that gives."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from headgate.cli.options import DEBUG, JSON
from headgate.errors import SetupError

if TYPE_CHECKING:
    from headgate.routing.solution import Solution
    from headgate.simulator.network_file import NetworkFile

EXAMPLE = "Example: headgate route examples/three_selections.toml --optimize art --rate 220"

_GOALS = ("art", "mdr")


def route(
    file: Path = typer.Argument(
        ..., metavar="NETWORK", help="Sources, placed operators and plans (.toml).", show_default=False
    ),
    optimize: str | None = typer.Option(
        None,
        metavar="art|mdr",
        help="Least response time or largest rate; without it, the file's weights.",
    ),
    rate: float | None = typer.Option(
        None, metavar="N", help="Tuples a second of all sources together; the file's if not given."
    ),
    as_json_document: bool = JSON,
    debug: bool = DEBUG,
) -> None:
    """Find the best routing of a network of placed operators, and what it gives.

    ART is the mean response time of tuples that reach the sink, MDR the largest rate before a queue passes
    max_queue.
    """
    del debug
    if optimize is not None and optimize not in _GOALS:
        raise SetupError(f"--optimize {optimize} is unknown; write art or mdr")
    if rate is not None and not (rate > 0 and math.isfinite(rate)):
        raise SetupError(f"--rate {rate:g} is out of range; write a number above 0")
    from headgate.cli.summary import screen
    from headgate.report.routes import as_json, route_tables
    from headgate.simulator.network_file import read_network

    read = read_network(file)
    at_rate = rate if rate is not None else read.network.total_rate
    solution = _solution(read, optimize, rate, str(file))
    if as_json_document:
        print(json.dumps(as_json(solution, at_rate)))
    else:
        for table in route_tables(solution, at_rate):
            screen().print(table)


def _solution(read: NetworkFile, optimize: str | None, rate: float | None, file: str) -> Solution:
    from headgate.routing import evaluate, largest_rate, least_response_time
    from headgate.simulator.network_file import given_rate

    if optimize == "mdr":
        return largest_rate(read.network)
    if optimize == "art":
        return least_response_time(read.network, given_rate(read.network, rate, file))
    if not read.weights:
        raise SetupError(f"{file} gives no weights; add --optimize art or --optimize mdr, or [weights.FROM]")
    return evaluate(read.network, read.weights)

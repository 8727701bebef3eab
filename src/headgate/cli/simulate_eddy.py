"""``headgate simulate`` of a routing network: what policies would make of it."""

from __future__ import annotations

import json
import math
from pathlib import Path

from headgate.cli.summary import screen
from headgate.errors import SetupError
from headgate.report.eddies import as_json, ranked, results_table
from headgate.routing import router_named, router_names
from headgate.simulator.eddy_file import eddy_run
from headgate.simulator.network_file import given_rate, read_network


def simulate_policies(file: Path, policy: str, rates: list[str], seed: int, as_json_document: bool) -> None:
    """Run a network under a policy, or under every one there is."""
    names = router_names() if policy == "all" else (policy,)
    # raises if there is none of that name, before the work begins
    for name in names:
        router_named(name)
    read = read_network(file)
    rate = given_rate(read.network, _rate(rates), str(file))
    runs = [eddy_run(read, name, rate, seed) for name in names]
    # takes a moment to import
    from headgate.simulator.eddies.run import simulate_eddy

    results = [simulate_eddy(run) for run in runs]
    if as_json_document:
        documents = [as_json(result) for result in results]
        print(json.dumps(documents if policy == "all" else documents[0]))
    else:
        screen().print(results_table(ranked(results)))


def _rate(texts: list[str]) -> float | None:
    if not texts:
        return None
    if len(texts) > 1:
        raise SetupError("--rate is given twice; a network has one rate, of all its sources together")
    try:
        rate = float(texts[0])
    except ValueError:
        raise SetupError(f"--rate {texts[0]} is no number; write --rate 220") from None
    if not (rate > 0 and math.isfinite(rate)):
        raise SetupError(f"--rate {texts[0]} is out of range; write a number above 0")
    return rate

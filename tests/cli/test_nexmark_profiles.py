"""``explain --profile`` and ``advise`` take every NEXMark query, given a profile of all that it runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.cli.support import invoke

from headgate import Session
from headgate.experiments.nexmark_answers import ANSWERS
from headgate.experiments.nexmark_bench import SCRIPTS
from headgate.model.operator_inputs import DerivedInput

pytestmark = pytest.mark.usefixtures("no_spark")

# joins of all tuples so far; those of tables are in subqueries, which have an order of their own
UNBOUNDED = (3, 20, 23)
OPERATOR = {"seconds_per_tuple": 2e-6, "selectivity": 0.5, "bytes_per_tuple": 100}


@pytest.mark.parametrize("number", ANSWERS)
def test_profiles_of_nexmark_queries_are_taken(number: int, tmp_path: Path) -> None:
    for file in (f"q{number}.sql", "functions.py"):
        shutil.copy(SCRIPTS / file, tmp_path)
    script = tmp_path / f"q{number}.sql"
    network = Session().execute(script.read_text(), origin=str(script))._stages().lowered
    read = (one for operator in network.operators.values() for one in operator.inputs)
    derived = {one.stream: 100 for one in read if isinstance(one, DerivedInput)}
    rates = dict.fromkeys(network.streams, 1000) | derived
    path = script.with_suffix(".profile.json")
    profile = {
        "operators": dict.fromkeys(network.operators, OPERATOR),
        "tuples_per_s": rates,
        "predicates": {
            "q23.join": dict.fromkeys(("`b__bidder` = `p__id`", "`a__seller` = `p__id`"), OPERATOR)
        },
    }
    path.write_text(json.dumps(profile))
    explained = invoke("explain", script, "--profile", path, "--json")
    assert explained.exit_code == 0, explained.stderr
    plans = json.loads(explained.stdout)
    assert f"q{number}" in plans["queries"]
    # what grows with the stream is compared as what is kept for an hour, and said so
    assert ("assumed" in plans) == (number in UNBOUNDED)
    advised = invoke("advise", script, "--tick", "500ms", "--processors", 2, "--json")
    assert advised.exit_code == 0, advised.output
    assert list(json.loads(advised.stdout)["queries"]) == [f"q{number}"]

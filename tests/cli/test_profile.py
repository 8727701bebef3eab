"""``profile``: what it measures, where it leaves it, and that it leaves nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.busy import busy_processors
from tests.cli.support import invoke

TRAFFIC = """\
CREATE STREAM packets (ts TIMESTAMP, src STRING, port INT)
  FROM burst OPTIONS (rate '4000', seed '1', timestamp 'ts', duration '4 s', speed 'max');
CREATE QUERY web AS SELECT src FROM packets
  WHERE aggregate(sequence(1, 60), concat(src, ts), (d, i) -> sha2(d, 256)) > '4' AND port = 443
  INTO parquet OPTIONS (path '{out}');
CREATE QUERY rare AS SELECT src FROM packets WHERE port = 0;
"""


@pytest.mark.spark
@pytest.mark.usefixtures("compiled")
def test_costs_and_selectivities_lie_beside_the_script(tmp_path: Path) -> None:
    out = tmp_path / "out"
    script = tmp_path / "web.sql"
    script.write_text(TRAFFIC.format(out=out))
    result = invoke("profile", script, "--for", "6s", "--json")
    # no packet goes to port 0, so that nothing can be measured of what such packets cost
    assert result.exit_code == 1, result.stderr
    document = json.loads(result.stdout)
    assert document["not_measured"] == {"rare.project": "no tuple reached it"}
    assert "not measured: rare.project: no tuple reached it" in result.stderr
    assert json.loads((tmp_path / "web.profile.json").read_text()) == document
    # half of all packets go to port 443, and three digests of four are above
    selection = document["operators"]["web.select_packets"]
    assert selection["selectivity"] == pytest.approx(0.375, abs=5 * selection["selectivity_error"] + 0.05)
    assert 0 < selection["selectivity_error"] < 0.05
    assert sum(figures["seconds_per_tuple"] for figures in document["operators"].values()) < 1e-3
    assert not out.exists()
    # the second predicate takes away more, for less
    digest, port = document["predicates"]["web.select_packets"].values()
    assert digest["seconds_per_tuple"] > 3 * port["seconds_per_tuple"]
    assert digest["selectivity"] == pytest.approx(0.75, abs=0.1)
    assert port["selectivity"] == pytest.approx(0.5, abs=0.1)
    explained = invoke("explain", script, "--profile", tmp_path / "web.profile.json").stdout
    assert "select packets.port = 443 AND aggregate(" in explained
    # what was measured is enough for a simulation
    simulated = invoke("simulate", script, "--for", "0.1s", "--json")
    assert simulated.exit_code == 0, simulated.stderr
    assert "it counts as idle" in simulated.stderr


LIVE = """\
CREATE STREAM packets (ts TIMESTAMP, src STRING, port INT, bytes INT)
  FROM burst OPTIONS (rate '4000', seed '1', timestamp 'ts', process 'poisson');
CREATE QUERY web WITH (latency = '30 s') AS SELECT src FROM packets WHERE sha2(src, 256) > '4' AND port = 443;
CREATE QUERY loud AS SELECT src, SUM(bytes) AS bytes FROM packets [RANGE 2 SECONDS SLIDE 1 SECOND]
  WHERE bytes > 100 GROUP BY src;
CREATE QUERY rare AS SELECT src FROM packets WHERE bytes > 100000;
"""


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.usefixtures("compiled")
def test_on_a_busy_machine_no_number_is_made_up(tmp_path: Path) -> None:
    script = tmp_path / "live.sql"
    script.write_text(LIVE)
    with busy_processors():
        result = invoke("profile", script, "--for", "3s", "--json")
    document = json.loads(result.stdout)
    missing = document["not_measured"]
    # no packet is as large, so that nothing can be measured of what such packets cost
    assert missing["rare.project"] == "no tuple reached it"
    assert result.exit_code == 1
    assert "not measured: rare.project: no tuple reached it" in result.stderr
    operators = {"web.select_packets", "web.project", "loud.select_packets", "loud.aggregate"}
    operators |= {"loud.project", "rare.select_packets", "rare.project"}
    assert document["operators"].keys() | missing.keys() - {"ticks"} == operators
    for name, own in document["operators"].items():
        assert own["samples"] >= 1 and 0 < own["seconds_per_tuple_error"] < 1, name
        assert own["selectivity_error"] > 0, name
    shares = {"web.select_packets": 0.375, "loud.select_packets": 0.35, "rare.select_packets": 0.0}
    for name in shares.keys() & document["operators"].keys():
        own = document["operators"][name]
        assert own["selectivity"] == pytest.approx(shares[name], abs=5 * own["selectivity_error"] + 0.05)
    # the stream brings what it declares, whatever the machine has time for
    assert document["tuples_per_s"] == {"packets": 4000.0} and document["processors"] == 2
    advised, simulated = invoke("advise", script), invoke("simulate", script, "--for", "0.1s")
    if missing.keys() == {"rare.project"}:
        assert "counted as idle: rare.project" in advised.stdout
        assert "it counts as idle" in simulated.stderr and simulated.exit_code == 0
    else:
        assert advised.exit_code == 2 and advised.stdout == ""
    assert result.stderr.count("not measured: ") == len(missing)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["missing.sql"], "no such file: missing.sql"),
        (["{script}", "--for", "0s"], "--for must be more than 0"),
        (["{script}", "--for", "soon"], "--for:"),
        (["{script}", "--output", "no/such/folder/p.json"], "there is no folder no/such/folder"),
    ],
)
def test_wrong_arguments_are_one_line(tmp_path: Path, arguments: list[str], said: str) -> None:
    script = tmp_path / "web.sql"
    script.write_text(TRAFFIC.format(out=tmp_path / "out"))
    result = invoke("profile", *(argument.format(script=script) for argument in arguments))
    assert result.exit_code == 2
    assert said in result.stderr and len(result.stderr.strip().splitlines()) == 1

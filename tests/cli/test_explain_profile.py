"""``headgate explain --profile``: what is chosen, what is shown, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.support import headings_without_unit, invoke

from headgate.model.profile import Profile
from headgate.statistics.profile_file import Measured

pytestmark = pytest.mark.usefixtures("no_spark")

CQL = """\
CREATE STREAM A (a INT) FROM rate;
CREATE STREAM B (a INT, b INT, v INT) FROM rate;
CREATE STREAM C (b INT, c INT) FROM rate;
CREATE RELATION names (c INT, name STRING) FROM parquet OPTIONS (path 'names/');
"""
JOIN = """CREATE QUERY q AS SELECT A.a, B.b, C.c FROM A [ROWS 10], B [ROWS 10], C [ROWS 10]
  WHERE A.a = B.a AND B.b = C.b;
"""
RATES = "[streams.A]\nrate = 10\n[streams.B]\nrate = 70\n[streams.C]\nrate = 20\n"
SELECTIVITIES = '[predicates."A.a = B.a"]\nselectivity = 0.5\n[predicates."B.b = C.b"]\nselectivity = 0.2\n'


def profile(join_ms: float) -> str:
    return f"{RATES}{SELECTIVITIES}[cost]\njoin_seconds = {join_ms / 1000}\n"


def files(folder: Path, queries: str, figures: str, name: str = "p.toml") -> tuple[Path, Path]:
    (folder / "q.sql").write_text(CQL + queries)
    (folder / name).write_text(figures)
    return folder / "q.sql", folder / name


def explained(folder: Path, queries: str, figures: str, *options: object) -> dict[str, Any]:
    script, path = files(folder, queries, figures)
    done = invoke("explain", script, "--profile", path, "--json", *options)
    assert done.exit_code == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document["queries"]


def refused(folder: Path, queries: str, figures: str, *options: object) -> str:
    script, path = files(folder, queries, figures)
    done = invoke("explain", script, "--profile", path, *options)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.output
    return str(done.stderr).removeprefix("error: ").strip().replace(f"{path}", "P")


def test_example_1_at_3_ms(tmp_path: Path) -> None:
    query = explained(tmp_path, JOIN, profile(3))["q"]
    assert query["feasible"] is True
    assert query["chosen"]["order"] == ["B", "C", "A"]
    assert query["chosen"]["keep"] == {"A": 1.0, "B": 1.0, "C": 1.0}
    found = {"".join(c["order"]): round(c["utilisation"], 9) for c in query["candidates"]}
    assert found == {"BCA": 0.84, "ACB": 1.2, "ABC": 1.5}


def test_example_1_shed_at_14_ms(tmp_path: Path) -> None:
    query = explained(tmp_path, JOIN, profile(14))["q"]
    assert query["feasible"] is False
    assert query["chosen"]["order"] == ["A", "C", "B"]
    assert round(query["chosen"]["output_rate"]) == 701
    assert query["chosen"]["utilisation_kept"] == pytest.approx(1.0)
    rates = {"".join(c["order"]): round(c["output_rate"]) for c in query["candidates"]}
    assert rates == {"ACB": 701, "BCA": 305, "ABC": 286}


def test_capacity_is_in_processors(tmp_path: Path) -> None:
    query = explained(tmp_path, JOIN, profile(14), "--capacity", 4)["q"]
    assert query["feasible"] is True
    assert query["chosen"]["utilisation"] == pytest.approx(280 * 0.014 / 4)


def test_people_see_a_table_a_tree_and_the_reason(tmp_path: Path) -> None:
    script, path = files(tmp_path, JOIN, profile(14))
    text = invoke("explain", script, "--profile", path).stdout
    assert text.startswith("query q: no plan fits: this one would take 5.6 of the capacity")
    assert "the cheapest, (B, C), A, would give 304.762" in text
    assert "  cross product: 1.2987 tuples/s, 100 in its window, 0.001818 processors" in text
    assert [line.split()[0] for line in text.splitlines() if "B 0.2925" in line] == ["(B,"]
    assert headings_without_unit(text) == {"order"}


@pytest.mark.parametrize(
    "written",
    ["B.a=A.a", "b.A  =  a.A", "(A.a == B.a)", "`A`.`a` = `B`.a"],
)
def test_a_predicate_is_known_however_it_is_written(tmp_path: Path, written: str) -> None:
    figures = profile(3).replace("A.a = B.a", written)
    assert explained(tmp_path, JOIN, figures)["q"]["chosen"]["order"] == ["B", "C", "A"]


def test_aliases_are_those_of_the_query_and_boxes_those_of_streams(tmp_path: Path) -> None:
    query = (
        "CREATE QUERY q AS SELECT x.a FROM A [ROWS 10] AS x, B [ROWS 10] AS y WHERE x.a = y.a AND y.v > 3;"
    )
    figures = (
        RATES + '[predicates."x.a = y.a"]\nselectivity = 0.5\n[predicates."3 < y.v"]\nselectivity = 0.25\n'
        "[cost]\njoin_seconds = 0.001\nselect_seconds = 0.0001\n"
    )
    chosen = explained(tmp_path, query, figures)["q"]["chosen"]
    assert chosen["order"] == ["x", "y"]
    assert set(chosen["keep"]) == {"A", "B"}
    # the selection shrinks B's window too: 0.5 (10 * 2.5 + 17.5 * 10)
    assert chosen["output_rate"] == pytest.approx(0.5 * (10 * 2.5 + 17.5 * 10))
    assert chosen["utilisation"] == pytest.approx((10 + 17.5) * 0.001 + 70 * 0.0001)


def test_filters_of_one_stream_are_asked_by_rank(tmp_path: Path) -> None:
    query = "CREATE QUERY q AS SELECT a FROM B WHERE v > 1 AND b > 2;"
    figures = (
        '[streams.B]\nrate = 1000\n[predicates."v > 1"]\nselectivity = 0.5\nseconds = 0.001\n'
        '[predicates."b > 2"]\nselectivity = 0.25\nseconds = 0.0005\n'
    )
    chosen = explained(tmp_path, query, figures)["q"]["chosen"]
    assert chosen["utilisation"] == pytest.approx(0.5 + 0.25)
    assert chosen["output_rate"] == pytest.approx(125)


def test_time_windows_partitions_and_relations_have_their_figures(tmp_path: Path) -> None:
    query = """CREATE QUERY q AS SELECT name FROM B [RANGE 2 SECONDS], C [PARTITION BY b ROWS 3], names
      WHERE B.b = C.b AND C.c = names.c;"""
    figures = (
        RATES
        + '[predicates."B.b = C.b"]\nselectivity = 0.1\n[predicates."C.c = names.c"]\nselectivity = 0.01\n'
        "[relations.names]\nrows = 200\n[cost]\ninsert_seconds = 0.0001\nprobe_seconds = 0.0003\n"
        "relation_seconds = 0.00001\n"
    )
    assert refused(tmp_path, query, figures) == (
        "P lacks streams.C.keys, which nothing measures; write a profile in TOML with [streams.NAME] "
        "keys = 50"
    )
    chosen = explained(tmp_path, query, figures.replace("rate = 20", "rate = 20\nkeys = 5"))["q"]["chosen"]
    joined = 0.1 * (70 * 15 + 20 * 140)
    assert chosen["output_rate"] == pytest.approx(2 * joined)
    assert chosen["utilisation"] == pytest.approx(90 * 0.0004 + joined * 0.00001)


def test_elements_of_arrays_are_results(tmp_path: Path) -> None:
    query = "CREATE QUERY q AS SELECT part FROM A LATERAL VIEW explode(sequence(1, a)) t AS part;"
    figures = (
        f'{RATES}[predicates."explode(sequence(1, A.a))"]\nselectivity = 0.5\nrows = 6\nseconds = 0.01\n'
    )
    chosen = explained(tmp_path, query, figures)["q"]["chosen"]
    assert (chosen["output_rate"], chosen["utilisation"]) == pytest.approx((30.0, 0.1))


def test_several_queries_share_one_capacity_and_the_boxes_of_streams(tmp_path: Path) -> None:
    two = JOIN + "CREATE QUERY r AS SELECT A.a FROM A [ROWS 10], B [ROWS 10] WHERE A.a = B.a;"
    found = explained(tmp_path, two, profile(3))
    assert {name: q["feasible"] for name, q in found.items()} == {"q": False, "r": False}
    chosen = [q["chosen"] for q in found.values()]
    assert sum(c["utilisation_kept"] for c in chosen) == pytest.approx(1.0)
    assert chosen[0]["keep"]["A"] == chosen[1]["keep"]["A"]
    # a query of great weight is the last to lose
    weighed = explained(tmp_path, two, profile(3) + "[queries.r]\nweight = 1000\n")
    assert weighed["r"]["chosen"]["output_rate"] >= found["r"]["chosen"]["output_rate"]
    assert weighed["r"]["chosen"]["output_rate"] == pytest.approx(0.5 * 10 * 80)


def test_a_join_that_queries_share_is_paid_once(tmp_path: Path) -> None:
    two = JOIN + JOIN.replace("QUERY q", "QUERY r").replace("A.a, B.b, C.c", "C.c")
    found = explained(tmp_path, two, profile(3))
    assert (found["q"]["shares_join_with"], found["r"]["shares_join_with"]) == (None, "q")
    # 0.84 of the capacity, not 1.68
    assert [q["feasible"] for q in found.values()] == [True, True]
    assert [q["chosen"]["utilisation"] for q in found.values()] == [pytest.approx(0.84), 0.0]
    assert found["r"]["chosen"]["order"] == found["q"]["chosen"]["order"] == ["B", "C", "A"]
    assert [q["chosen"]["output_rate"] for q in found.values()] == [pytest.approx(1000.0)] * 2
    script, path = files(tmp_path, two, profile(3))
    text = invoke("explain", script, "--profile", path).stdout
    assert "query r: shares the join of q: it takes 0 of the capacity more" in text
    assert "join B.b = C.b, shared with q: 180 tuples/s" in text
    lowered = invoke("explain", script, "--after", "lower").stdout
    assert "  q.join: window join" in lowered and "shared by q, r" in lowered
    assert "r.join" not in lowered


def test_branches_of_a_union_are_decided_one_by_one(tmp_path: Path) -> None:
    union = "CREATE QUERY u AS SELECT a FROM A UNION ALL SELECT a FROM B;"
    assert set(explained(tmp_path, union, RATES)) == {"u.1", "u.2"}


def test_more_plans_are_tried_with_bushy(tmp_path: Path) -> None:
    four = """CREATE QUERY q AS SELECT A.a FROM A [ROWS 9], B [ROWS 9], C [ROWS 9], B [ROWS 9] AS D
      WHERE A.a = B.a AND C.b = D.b;"""
    figures = (
        RATES + '[predicates."A.a = B.a"]\nselectivity = 0.01\n[predicates."C.b = D.b"]\nselectivity = 0.01\n'
    )
    figures += "[cost]\njoin_seconds = 0.001\n"
    assert explained(tmp_path, four, figures)["q"]["considered"] == 12
    bushy = explained(tmp_path, four, figures, "--bushy")["q"]
    assert bushy["considered"] == 15 and len(bushy["candidates"]) == 10
    assert bushy["chosen"]["order"] == ["A", "B", ["C", "D"]]


def test_measured_profiles_are_taken_too(tmp_path: Path) -> None:
    query = "CREATE QUERY q AS SELECT A.a FROM A [ROWS 10], B [ROWS 10] WHERE A.a = B.a AND B.v > 1;"
    measured = Measured(
        {
            "q.select_B": Profile(0.0001, 0.5),
            "q.join": Profile(0.001, 5.0),
            "q.project": Profile(0.0, 1.0),
        },
        {"A": 10.0, "B": 70.0},
    )
    script, path = files(tmp_path, query, measured.to_json(), "profiles.json")
    for given in (path, tmp_path):
        done = invoke("explain", script, "--profile", given, "--json")
        chosen = json.loads(done.stdout)["queries"]["q"]["chosen"]
        assert chosen["output_rate"] == pytest.approx(5.0 * 45)
        assert chosen["utilisation"] == pytest.approx(70 * 0.0001 + 45 * 0.001)


def test_a_profile_that_has_sampled_pairs_orders_three_streams(tmp_path: Path) -> None:
    joined = {"`A__a` = `B__a`": Profile(0.0, 0.5), "`B__b` = `C__b`": Profile(0.0, 0.2)}
    measured = Measured(
        {"q.join": Profile(0.003, 10.0), "q.project": Profile(0.0)},
        {"A": 10.0, "B": 70.0, "C": 20.0},
        predicates={"q.join": joined},
    )
    script, path = files(tmp_path, JOIN, measured.to_json(), "profiles.json")
    chosen = json.loads(invoke("explain", script, "--profile", path, "--json").stdout)["queries"]["q"][
        "chosen"
    ]
    assert chosen["order"] == ["B", "C", "A"]
    assert chosen["utilisation"] == pytest.approx(0.84)


def test_no_plan_is_chosen_by_what_was_not_measured(tmp_path: Path) -> None:
    query = "CREATE QUERY q AS SELECT A.a FROM A [ROWS 10], B [ROWS 10] WHERE A.a = B.a AND B.v > 1;"
    known = {"q.select_B": Profile(0.0001, 0.5), "q.join": Profile(0.001, 5.0), "q.project": Profile(0.0)}
    for name, what in (
        ("q.select_B", "the selectivity of B.v > 1"),
        ("q.join", "the cost of q.join"),
        ("q.project", "the cost of q.project"),
    ):
        left = {other: profile for other, profile in known.items() if other != name}
        measured = Measured(left, {"A": 10.0, "B": 70.0}, not_measured={name: "it was late"})
        script, path = files(tmp_path, query, measured.to_json(), "profiles.json")
        done = invoke("explain", script, "--profile", path)
        assert done.exit_code == 2 and f"lacks {what} (it was late)" in done.stderr.replace("A.a = B.a, ", "")
    # behind a join that finds nothing, a projection costs nothing
    idle = {**known, "q.join": Profile(0.001, 0.0)}
    del idle["q.project"]
    measured = Measured(idle, {"A": 10.0, "B": 70.0}, not_measured={"q.project": "no tuple reached it"})
    script, path = files(tmp_path, query, measured.to_json(), "profiles.json")
    assert invoke("explain", script, "--profile", path).exit_code == 0


@pytest.mark.parametrize(
    ("figures", "message"),
    [
        (
            profile(3).replace("[streams.C]\nrate = 20\n", ""),
            "P lacks the rate of stream C; headgate profile measures it",
        ),
        (
            RATES + "[cost]\njoin_seconds = 0.001\n",
            "P lacks the selectivity of A.a = B.a, the selectivity of B.b = C.b; "
            "headgate profile measures it",
        ),
        (RATES + SELECTIVITIES, "P lacks cost.join_seconds; headgate profile measures it"),
        (
            profile(3).replace("= 0.5", "= 1.5"),
            'P: predicates."A.a = B.a".selectivity = 1.5 is out of range; write a number from 0 to 1',
        ),
        (profile(3) + "[streams.Z]\nrate = 1\n", "P: streams.Z is not declared; known: A, B, C"),
        (
            profile(3) + '[predicates."A.a = C.b"]\nselectivity = 0.1\n',
            'P: predicates."A.a = C.b" is in no query; known: "A.a = B.a", "B.b = C.b"',
        ),
        (profile(3) + "[queries.z]\nweight = 2\n", "P: queries.z is not declared; known: q"),
        (profile(3) + "[relations.z]\nrows = 2\n", "P: relations.z is not declared; known: names"),
        (profile(3) + "probe_seconds = 1\n", "P: cost.join_seconds is the sum of insert_seconds"),
        (profile(3).replace("rate = 10", "rate = -1"), "P: streams.A.rate = -1 is out of range"),
        (profile(3).replace("rate = 10", 'rate = "x"'), 'P: streams.A.rate = "x" is wrong; write a number'),
        ("streams = 3", "P: streams = 3 is wrong; write [streams.NAME] with rate"),
        ("]", "P is not valid TOML"),
    ],
)
def test_what_is_missing_or_wrong_is_said_in_one_line(tmp_path: Path, figures: str, message: str) -> None:
    assert refused(tmp_path, JOIN, figures).startswith(message)


@pytest.mark.parametrize("capacity", ["0", "-1", "nan", "inf"])
def test_a_capacity_that_runs_nothing_is_refused(tmp_path: Path, capacity: str) -> None:
    message = refused(tmp_path, JOIN, profile(3), "--capacity", capacity)
    right = "write a number of processors from 1e-6 to 1e6"
    assert message == f"--capacity {float(capacity):g} is out of range; {right}"


def test_options_that_need_a_profile_say_so(tmp_path: Path) -> None:
    script, path = files(tmp_path, JOIN, profile(3))
    assert "add --profile" in invoke("explain", script, "--capacity", 2).stderr
    assert "add --profile" in invoke("explain", script, "--bushy").stderr
    assert "exclude each other" in invoke("explain", script, "--profile", path, "--after", "bind").stderr
    missing = invoke("explain", script, "--profile", tmp_path / "none.toml")
    assert missing.exit_code == 2 and "no such file" in missing.stderr


def test_answers_of_the_file_stand_before_the_decision(tmp_path: Path) -> None:
    script, path = files(tmp_path, f"SHOW QUERIES; {JOIN}", profile(3))
    assert invoke("explain", script, "--profile", path).stdout.startswith(
        "-- SHOW QUERIES\nno queries\n\nquery q: "
    )
    document = json.loads(invoke("explain", script, "--profile", path, "--json").stdout)
    assert document["answers"] == [{"statement": "SHOW QUERIES", "rows": []}]
    assert list(document["queries"]) == ["q"]

"""The bench of NEXMark, as far as it needs no JVM."""

from __future__ import annotations

import pytest

from headgate.errors import SetupError
from headgate.experiments.nexmark_answers import ANSWERS
from headgate.experiments.nexmark_bench import BY_HAND, SCRIPTS, MeasuredRun, query_numbers


def test_every_query_has_a_script_and_an_answer() -> None:
    assert sorted(ANSWERS) == list(range(24))
    assert {path.name for path in SCRIPTS.glob("*.sql")} == {f"q{number}.sql" for number in ANSWERS}
    assert BY_HAND.keys() <= ANSWERS.keys()


def test_queries_are_named_like_their_scripts() -> None:
    assert query_numbers(["q5", "q23"]) == (5, 23)
    assert query_numbers([]) == tuple(range(24))
    with pytest.raises(SetupError, match="--query: unknown query q24; known: q0, q1"):
        query_numbers(["q24"])


def test_a_row_shows_what_a_query_takes_beside_one_written_by_hand() -> None:
    run = MeasuredRun(
        1_000_000, seconds=4.0, ticks=10, latency_p50_s=0.4, latency_p99_s=0.5, state_bytes=3_210_000
    )
    row = run.row(MeasuredRun(1_000_000, seconds=10.0, ticks=10))
    assert row == {
        "events_per_s": 250_000,
        "tick_s": 0.4,
        "latency_p50_s": 0.4,
        "latency_p99_s": 0.5,
        "state_MB": 3.21,
        "times_by_hand": 2.5,
    }
    assert "times_by_hand" not in run.row(None)

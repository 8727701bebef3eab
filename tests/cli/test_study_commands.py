"""``headgate bench`` and ``headgate reproduce``: what each study is given, however it is called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.cli.support import COMMANDS, invoke

from headgate.cli import studies
from headgate.experiments.study import Study

# those that every study has
COMMON = {"--out", "--json", "--debug"}
OPTIONS = {
    "bench burst": {"--seed", "--queries", "--master"},
    "bench eddies": {"--seconds", "--policy", "--executors", "--cpu-bound", "--master"},
    "bench overload": {"--master"},
    "bench predict": {"--master"},
    "bench percentiles": {"--master"},
    "bench nexmark": {"--seed", "--events", "--query", "--master"},
    "reproduce chain": {"--trace"},
    "reproduce segments": {"--trace"},
    "reproduce findings": {"--trace"},
    "reproduce eddies": {"--spark", "--full"},
    "reproduce optimizer": set(),
    "reproduce queueing": {"--trace", "--spark", "--measure"},
    "reproduce all": {"--trace", "--measure"},
}


def test_a_study_has_its_own_options_and_no_others() -> None:
    found = {
        path: {name for parameter in command.params for name in parameter.opts}
        for path, command in COMMANDS.items()
        if path.startswith(("bench ", "reproduce "))
    }
    assert found == {path: COMMON | options for path, options in OPTIONS.items()}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What the functions that run studies are called with, instead of their work."""
    found: list[tuple[Any, ...]] = []

    def record(name: str) -> Any:
        def recorded(*arguments: Any, **named: Any) -> Study:
            found.append((name, *arguments, *((key, given) for key, given in named.items() if given)))
            return Study("any", Path(), lambda what: None)

        return recorded

    for name in ("reproduced", "measured", "measured_bursts", "measured_eddies", "measured_nexmark"):
        monkeypatch.setattr(studies, name, record(name))
    return found


@pytest.mark.parametrize(
    ("line", "call"),
    [
        ("bench burst --out D --seed 8 --queries eight", ("bursts", "D/burst", 8, "eight", "local[*]")),
        ("bench --queries one --out D burst", ("bursts", "D/burst", 7, "one", "local[*]")),
        # the value of an option is no study
        ("bench --out eddies burst", ("bursts", "eddies/burst", 7, "both", "local[*]")),
        (
            "bench eddies --executors 2 --policy all",
            ("eddies", "bench-out/eddies", 60.0, ["all"], False, "local-cluster[2,1,1024]"),
        ),
        (
            "bench eddies --cpu-bound --seconds 20 --master local[2]",
            ("eddies", "bench-out/eddies", 20.0, [], True, "local[2]"),
        ),
        ("bench overload --json", ("", "overload", "bench-out/overload", "local[*]")),
        ("bench percentiles --out D", ("", "percentiles", "D/percentiles", "local[*]")),
        (
            "bench nexmark --events 200000 --query q5 --query q8",
            ("nexmark", "bench-out/nexmark", 200_000, ["q5", "q8"], 7, "local[*]"),
        ),
    ],
)
def test_a_bench_is_given_its_options(line: str, call: tuple[Any, ...], calls: list[tuple[Any, ...]]) -> None:
    done = invoke(*line.split())
    assert done.exit_code == 0, done.output
    name, *arguments = call
    expected = ["_".join(filter(None, ("measured", name))), *arguments]
    assert [str(one) if isinstance(one, Path) else one for one in calls[0]] == expected


@pytest.mark.parametrize(
    ("line", "settings", "notes"),
    [
        ("reproduce optimizer --out D", {}, []),
        ("reproduce chain", {}, ["no --trace given"]),
        ("reproduce --trace README.md chain", {"trace": Path("README.md")}, []),
        ("reproduce eddies --full --spark", {"is_full": True, "on_spark": True}, []),
        ("reproduce queueing --spark", {"on_spark": True}, ["no --trace given", "no --measure given"]),
        ("reproduce queueing --measure", {"in_real_time": True}, ["no --trace given"]),
    ],
)
def test_a_study_of_a_paper_is_given_its_options(
    line: str, settings: dict[str, Any], notes: list[str], calls: list[tuple[Any, ...]]
) -> None:
    done = invoke(*line.split())
    assert done.exit_code == 0, done.output
    assert dict(calls[0][3:]) == settings
    printed = done.stderr.splitlines()
    assert len(printed) == len(notes) and all(map(str.startswith, printed, notes))


def test_all_studies_are_one_page(tmp_path: Path, calls: list[tuple[Any, ...]]) -> None:
    done = invoke("reproduce", "all", "--measure", "--out", tmp_path)
    assert done.exit_code == 0, done.output
    assert [study for _, study, *_ in calls] == [
        "chain",
        "segments",
        "findings",
        "eddies",
        "optimizer",
        "queueing",
    ]
    assert [study for _, study, _, _, *settings in calls if settings] == ["queueing"]
    assert (tmp_path / "index.html").is_file()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("optimizer --trace README.md", "--trace goes with chain, segments, findings, queueing and all, not"),
        ("chain --spark", "--spark goes with eddies and queueing, not with chain"),
        ("eddies --measure", "--measure goes with queueing and all, not with eddies"),
        ("queueing --full", "--full goes with eddies, not with queueing"),
        ("chain --x", "No such option: --x; see headgate reproduce chain --help"),
    ],
)
def test_an_option_of_another_study_is_refused_in_one_line(line: str, message: str) -> None:
    failed = invoke("reproduce", *line.split())
    assert failed.exit_code == 2
    assert failed.stderr.startswith(f"error: {message}") and failed.stderr.count("\n") == 1

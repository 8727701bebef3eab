"""Documents, options and texts of users, mutated: each is accepted, or refused in one line within a second.

``python -m tests.mutations --cases 100000`` runs as many; the seed that it prints repeats them.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import random
import re
import secrets
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

import typer.main
from tests.cli import test_advise, test_explain_profile, test_route
from tests.simulator import test_workload_file

from headgate.cli import execution, simulating, studies
from headgate.cli.advising import Question, answer
from headgate.cli.app import app
from headgate.cli.decision import show_decision
from headgate.cli.script import Script
from headgate.cli.simulating import MeasuredOptions, simulate_policies, simulate_strategies, solve
from headgate.errors import HeadgateError, InternalError, SetupError
from headgate.planning.lower import Stages
from headgate.routing import router_names
from headgate.scheduling import strategy_names
from headgate.simulator import workload_file
from headgate.simulator.eddies import EddyRun, eddy_simulation
from headgate.simulator.scenario import Scenario
from headgate.workload.packets import BurstSettings

EXAMPLES = Path(__file__).parents[1] / "examples"
LONGEST_S = 1.0
# work that was accepted and takes longer is legitimate, and not done here
_MOST_TUPLES, _MOST_ENTRIES, _MOST_EVENTS = 20_000, 300, 5_000

_NUMBERS = (
    *(
        "0",
        "-0.0",
        "1",
        "-1",
        "0.5",
        "2",
        "3",
        "7",
        "40",
        "100",
        "1e3",
        "1e6",
        "1e9",
        "1e12",
        "1e18",
        "1e300",
    ),
    *("1e-3", "1e-9", "1e-18", "1e-300", "5e-324", "1.7976931348623157e308", "1e999", "nan", "inf", "-inf"),
    *("9223372036854775807", "18446744073709551616", "1" + "0" * 400, "0x" + "f" * 5000, "9" * 5000, "1_000"),
)
_WORDS = (
    *(
        "true",
        "false",
        '""',
        '"x"',
        "'s'",
        "[]",
        "{}",
        "[[]]",
        "[1, 2, 1]",
        "{ a = 1 }",
        "null",
        "2026-02-30",
    ),
    *("1979-05-27T07:32:00Z", '"\\u0000"', '"\\n"', '"é"', "[nan]", '["s", "s"]', "[" * 300 + "]" * 300),
)
_PIECES = (
    "\n",
    "=",
    "[",
    "]",
    "{",
    "}",
    '"',
    "'",
    ".",
    ",",
    "#",
    " ",
    "\t",
    "\0",
    "\ufeff",
    "é",
    "\\",
    "-",
    "1",
)
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e-?\d+)?(?![\w.])")
_NAME = re.compile(r"[A-Za-z_]\w*")


def mutate(text: str, chance: random.Random) -> str:
    """The text after one to four changes of values, keys, structure or characters."""
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 4))):
        text = chance.choice(_MUTATIONS)(text, chance)
    return text


def _at(pattern: re.Pattern[str], text: str, chance: random.Random, new: Callable[[str], str]) -> str:
    found = list(pattern.finditer(text))
    if not found:
        return text
    match = chance.choice(found)
    return text[: match.start()] + new(match[0]) + text[match.end() :]


def _other_number(text: str, chance: random.Random) -> str:
    return _at(_NUMBER, text, chance, lambda _: chance.choice(_NUMBERS))


def _near_number(text: str, chance: random.Random) -> str:
    """A number that is likely to be accepted, so that the work behind the border is reached."""

    def near(number: str) -> str:
        value = min(float(number), 1e100) * 10 ** chance.uniform(-3, 3)
        return chance.choice((f"{value:.3g}", str(round(value)), str(chance.randrange(5))))

    return _at(_NUMBER, text, chance, near)


def _other_value(text: str, chance: random.Random) -> str:
    return _at(re.compile(r"(?<=[=:] )[^\n,}]+"), text, chance, lambda _: chance.choice(_WORDS + _NUMBERS))


def _misspelt(text: str, chance: random.Random) -> str:
    def changed(name: str) -> str:
        place = chance.randrange(len(name))
        return name[:place] + chance.choice(("", "x", name[place] * 2)) + name[place + 1 :]

    return _at(_NAME, text, chance, changed)


def _other_name(text: str, chance: random.Random) -> str:
    names = _NAME.findall(text)
    return _at(_NAME, text, chance, lambda _: chance.choice(names)) if names else text


def _lines(text: str, chance: random.Random) -> str:
    """Lines dropped, doubled, exchanged, or many times as many."""
    lines = text.splitlines(keepends=True) or [""]
    first, second = chance.randrange(len(lines)), chance.randrange(len(lines))
    kind = chance.randrange(4)
    if kind == 0:
        del lines[first]
    elif kind == 1:
        lines.insert(second, lines[first])
    elif kind == 2:
        lines[first], lines[second] = lines[second], lines[first]
    else:
        lines[first : first + 1] = [lines[first]] * chance.choice((2, 50, 2000))
    return "".join(lines)


def _more_tables(text: str, chance: random.Random) -> str:
    """A table again under many other names."""
    tables = re.findall(r"^\[(\w+)\.(\w+)\]\n((?:[^\[].*\n)+)", text, re.MULTILINE)
    if not tables:
        return text
    kind, name, content = chance.choice(tables)
    count = chance.choice((1, 3, 30, 1500))
    return text + "\n" + "".join(f"[{kind}.{name}{i}]\n{content}" for i in range(count))


def _characters(text: str, chance: random.Random) -> str:
    begin = chance.randrange(len(text) + 1)
    end = min(len(text), begin + chance.choice((0, 1, 2, 10)))
    return text[:begin] + chance.choice(_PIECES) * chance.choice((0, 1, 1, 1, 3, 500)) + text[end:]


def _cut(text: str, chance: random.Random) -> str:
    return text[: chance.randrange(len(text) + 1)]


_MUTATIONS = (
    *(_near_number,) * 8,
    *(_other_number, _other_number, _other_number, _other_value, _misspelt, _other_name, _other_name),
    *(_lines, _more_tables, _characters, _cut),
)


class Accepted(Exception):
    """The border is passed, and the work that follows would take long."""


class TooLong(BaseException):
    """A case has used more processor time than any may."""


@dataclass
class Outcomes:
    """What became of the cases, and those that went wrong."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    slowest_s: float = 0.0

    def judge(self, name: str, given: str, run: Callable[[], None]) -> None:
        begin_s, problem, end = time.thread_time(), "", "accepted"
        signal.setitimer(signal.ITIMER_PROF, 5 * LONGEST_S)
        try:
            run()
        except Accepted:
            pass
        except TooLong:
            problem = f"takes over {5 * LONGEST_S:g} s"
        except InternalError as error:
            problem = f"InternalError: {error}"
        except HeadgateError as error:
            end, problem = "refused", _problem(str(error))
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        seconds = time.thread_time() - begin_s
        self.slowest_s = max(self.slowest_s, seconds)
        if seconds > LONGEST_S and not problem:
            problem = f"takes {seconds:.2f} s"
        self.counts[f"{name}: {'wrong' if problem else end}"] += 1
        if problem:
            self.failures.append(f"{name}: {problem}\n{given[:3000]}")


def _problem(message: str) -> str:
    is_good = message.strip() and "\n" not in message and len(message) < 3000
    return "" if is_good else f"not one line: {message[:500]!r}"


@contextlib.contextmanager
def borders_only() -> Iterator[None]:
    """Replace work that takes long, or needs Spark, by the exception that tells that it was accepted."""
    times_s, simulate, eddy = (
        workload_file._Stream.times_s,
        simulating.simulate,
        eddy_simulation.simulate_eddy,
    )

    def accept(*_: object, **__: object) -> NoReturn:
        raise Accepted

    def some_times_s(self: Any, seed: int, folder: Path) -> Any:
        return times_s(self, seed, folder) if self.arrivals.expected < _MOST_TUPLES else accept()

    def short(scenario: Scenario, *arguments: Any, **more: Any) -> Any:
        is_short = scenario.entries + scenario.time_units < _MOST_ENTRIES
        return simulate(scenario, *arguments, **more) if is_short else accept()

    def short_eddy(run: EddyRun, *arguments: Any) -> Any:
        is_short = run.rate * run.seconds < _MOST_EVENTS and run.policy != "optimal"
        return eddy(run, *arguments) if is_short else accept()

    def too_long(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGPROF, too_long)
    replaced: tuple[tuple[Any, str, Any], ...] = (
        (workload_file._Stream, "times_s", some_times_s),
        (simulating, "simulate", short),
        (eddy_simulation, "simulate_eddy", short_eddy),
        *((studies, name, accept) for name in ("demonstrate", "reproduced", "measured")),
        *((execution, name, accept) for name in ("execute", "measure", "show_sql", "Session")),
    )
    with contextlib.ExitStack() as patches:
        for target, name, replacement in replaced:
            patches.enter_context(patch.object(target, name, replacement))
        for name, replacement in (
            ("headgate.cli.script.jvm.start_early", lambda master: None),
            ("headgate.cli.script._start_session", lambda script, master: None),
            ("headgate.spark.application.jvm.start_early", lambda master: None),
            ("headgate.session.Session", accept),
        ):
            patches.enter_context(patch(name, replacement))
        yield
    signal.signal(signal.SIGPROF, before)


def strict(text: str) -> Any:
    """The value of a JSON text without NaN and Infinity, which are none."""

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def printed(run: Callable[[], object]) -> None:
    """Run what prints one JSON document."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()):
        run()
    strict(output.getvalue())


class Documents:
    """Files of a kind, with what commands do with one."""

    def __init__(self, name: str, texts: Sequence[str], use: Callable[[Path, random.Random], None]) -> None:
        self.name = name
        self._texts = texts
        self._use = use

    def case(self, folder: Path, chance: random.Random) -> tuple[str, Callable[[], None]]:
        text = mutate(chance.choice(self._texts), chance)
        path = folder / f"document{'.json' if text.lstrip()[:1] == '{' else '.toml'}"
        broken = chance.choice((b"", b"", b"", b"", b"", b"", b"", b"\xff", b"\xc3", b"\x00"))
        path.write_bytes(text.encode("utf-8", "surrogatepass") + broken)

        def use() -> None:
            try:
                self._use(path, chance)
            except SetupError as error:
                # what is wrong with a document is said with its name, or with an option that mends it
                if path.name not in str(error) and "--" not in str(error):
                    raise AssertionError(f"the file is not named: {error}") from error
                raise

        return text, use


PROCESSES = """
[streams.a]
arrivals = { process = "phases", rates = [3, 4], seconds = [5, 6] }
[streams.b]
arrivals = { process = "pareto-flows", until = 20, rate = 1, gap = 3, shape = 1.5, shortest = 1, longest = 9 }
[streams.c]
arrivals = { process = "on-off", rate = [5, 9], until = 6, flows = 8, on_shape = 1.4, off_shape = 1.2 }
[streams.d]
arrivals = { process = "list", times = [0, 1, 2] }
[streams.e]
arrivals = { process = "trace", file = "times.csv", column = "at", unit = "ms", begin = 1, until = 9, speed = 2 }
[operators.o]
inputs = ["a", "b", "c", "d", "e"]
seconds = 0.01
"""
NODES = """
[sources.s]
rate = 20
node = "n1"
[nodes]
n1 = { resource = 1 }
n2 = { resource = 1 }
[operators]
a = { node = "n2", per_tuple = 0.001, selectivity = 0.5 }
b = { node = "n1", per_tuple = 0.002, selectivity = 1.5 }
[plans.p]
source = "s"
any_order = ["a", "b"]
before = [["a", "b"]]
[weights.s]
a = 1
[simulation]
seconds = 10
warm_up = 1
service = "constant"
message_seconds = 3
message_tuples = 10
ticket_limit = 9
solve_every = 5
links = { bytes_per_second = [1e6, 1e7], page_tuples = 4, tuple_bytes = 9, page_timer = 2 }
sharing = { split_at = 50, accept_below = 90 }
"""
PROFILE = json.dumps(
    {
        "operators": test_advise.OPERATORS | test_advise.JOINED,
        "tuples_per_s": {"readings": 200, "alarms": 50},
        "tick": {"overhead_s": 0.2, "intake_s": 1e-4, "work_s": 0.5},
        "predicates": {"high.select_readings": {"value > 10": {"seconds_per_tuple": 1e-6}}},
    },
    indent=1,
)
ADVISED = (test_advise.CQL + test_advise.JOIN).replace("{latency}", "1 s").replace("{memory}", "1 MB")
NO_OPTIONS = MeasuredOptions(None, [], [], None, None)


def use_workload(path: Path, chance: random.Random) -> None:
    (path.parent / "times.csv").write_text("at,b_s\n0,1\n1000,2\n2500,3\n")
    strategy, seed = chance.choice(strategy_names()), chance.randrange(9)
    printed(lambda: simulate_strategies(path, strategy, NO_OPTIONS, seed, None, as_json=True))


def use_network(path: Path, chance: random.Random) -> None:
    if chance.random() < 0.3:
        policy = chance.choice(router_names())
        printed(lambda: simulate_policies(path, policy, [], 0, as_json=True))
    else:
        optimize = chance.choice((None, None, None, "mdr", "art"))
        rate = chance.choice((None, None, 1.0, 220.0))
        printed(lambda: solve(path, optimize, rate, as_json=True))


def use_profile(path: Path, chance: random.Random) -> None:
    script = path.parent / "advised.sql"
    script.write_text(ADVISED)
    kind = chance.randrange(3)
    if kind == 0:
        question = Question(script, [], path, [], None, None, "fifo", "pool", 0.99)
        printed(lambda: answer(question, as_json=True))
    elif kind == 1:
        options = MeasuredOptions(path, [], [], 1.0, None)
        printed(lambda: simulate_strategies(script, "chain", options, 0, None, as_json=True))
    else:
        printed(lambda: show_decision(script, path, 1.0, bushy=False, as_json=True))


def use_statistics(path: Path, chance: random.Random) -> None:
    script = path.parent / "joined.sql"
    script.write_text(test_explain_profile.CQL + test_explain_profile.JOIN)
    capacity, bushy = chance.choice((1.0, 0.01, 1e-6)), chance.random() < 0.5
    printed(lambda: show_decision(script, path, capacity, bushy, as_json=True))


OPTIONS = """
CREATE STREAM packets (ts TIMESTAMP, src STRING, bytes INT) FROM burst OPTIONS (
  rate '50, 2000 from 60 s', process 'onoff', flows '64', seed '7', onShape '1.4', offShape '1.2',
  start '2026-01-31T12:00:00Z', duration '60 s', speed 'max', partitions '2', keys '1000', skew '1.0',
  maxRowsPerTrigger '500', timestamp 'ts', watermark '2 s', idle_after '10 s', max_ahead '1 day');
CREATE RELATION hosts (src STRING, name STRING) FROM csv OPTIONS (path 'hosts/', header 'true');
CREATE POOL p WITH (slots = 3);
CREATE QUERY q WITH (latency = '1 s', memory = '64 MB', overload = 'shed', quality = true) AS
  SELECT src, COUNT(*) AS n FROM packets [RANGE 10 SECONDS SLIDE 2 SECONDS] WHERE bytes > 10 GROUP BY src;
CREATE QUERY r AS SELECT p.src, h.name FROM packets [ROWS 100] AS p, hosts AS h WHERE p.src = h.src;
"""


class Scripts:
    """CQL with options of streams and settings of queries."""

    name = "cql"

    def case(self, folder: Path, chance: random.Random) -> tuple[str, Callable[[], None]]:
        text = mutate(chance.choice([OPTIONS, *(p.read_text() for p in EXAMPLES.glob("*.sql"))]), chance)

        def use() -> None:
            catalog = Script.parse(text, "mutated.sql").catalog()
            for stream in catalog.streams.values():
                if stream.format == "burst":
                    BurstSettings.parse(dict(stream.options))
            Stages.of(catalog)

        return text, use


class Options:
    """Lists of options of all commands."""

    name = "options"

    def __init__(self) -> None:
        self._command = typer.main.get_command(app)

    def case(self, folder: Path, chance: random.Random) -> tuple[str, Callable[[], None]]:
        script = folder / "advised.sql"
        script.write_text(ADVISED)
        script.with_suffix(".profile.json").write_text(PROFILE)
        words = chance.choice(_OPTIONS).format(here=folder, examples=EXAMPLES).split(" ")
        for _ in range(chance.choice((1, 1, 2, 3))):
            words = _other_options(words, chance)
        return " ".join(words)[:3000], lambda: self._call(words)

    def _call(self, words: list[str]) -> None:
        output, errors, code = io.StringIO(), io.StringIO(), 0
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            try:
                self._command.main(words, prog_name="headgate")
            except SystemExit as end:
                code = int(end.code or 0)
        message = errors.getvalue()
        if "internal error: Accepted" in message:
            raise Accepted
        if code == 2:
            # the place in a query is underlined below the message
            raise SetupError(message.partition("\n")[0])
        if code != 0 and not (code == 1 and words[0] == "advise" and output.getvalue()):
            raise AssertionError(f"code {code}: {message}")
        if "--json" in words and "--help" not in words and output.getvalue()[:1] in ("{{", "["):
            strict(output.getvalue())


_OPTIONS = (
    "simulate {examples}/two_operators.toml --strategy mixed:least_slope=0.2 --seed 3 --json",
    "simulate {examples}/two_operators.toml --strategy chain+oldest --plot {here}/x.png",
    "simulate {examples}/three_selections.toml --policy q --rate 100 --seed 1 --json",
    "simulate {here}/advised.sql --rate readings=20 --rate alarms=3 --for 1s --processors 2 --json",
    "route {examples}/three_selections.toml --optimize mdr --rate 220 --json",
    "advise {here}/advised.sql --rate readings=100 --processors 2 --tick 100ms --percentile 0.9 --json",
    "advise {here}/advised.sql --strategy chain --servers pool --tick 0s --json",
    "explain {examples}/three_streams.sql --profile {examples}/three_streams.profile.toml --capacity 2 --bushy --json",
    "explain {examples}/network.sql --after lower --json",
    "run {examples}/network.sql --for 30s --strategy threshold:beta=0.8,interval_s=1 --memory 64MB --json",
    "run {examples}/sensors.sql --until-done --tick-budget 0.5s --routing wscq --checkpoint {here}/state",
    "profile {examples}/sensors.sql --for 20s --output {here}/p.json",
    "demo --seconds 15 --out {here}/out",
    "bench eddies --seed 7 --seconds 60 --policy q --out {here}/out",
    "reproduce chain --out {here}/out",
)
_ARGUMENTS = (
    *(number for number in _NUMBERS if len(number) < 500),
    *(
        "",
        "-",
        "--",
        "x",
        "=",
        "s=",
        "=3",
        "readings=nan",
        "readings=1e30",
        "readings=-1",
        "1 h",
        "1h",
        "0s",
        "-3s",
    ),
    *(
        "1e9s",
        "999999999999999999999 days",
        "64XB",
        "0MB",
        "\0",
        "é",
        "a" * 300,
        "/",
        ".",
        "nowhere.py:X",
        ":",
        "+",
    ),
    *(
        "chain+",
        "mixed:",
        "mixed:least_slope",
        "mixed:least_slope=inf",
        "mixed:x=1",
        "all",
        "--json",
        "--help",
    ),
)


def _other_options(words: list[str], chance: random.Random) -> list[str]:
    place = chance.randrange(1, len(words)) if len(words) > 1 else 0
    kind = chance.randrange(6)
    if kind == 0:
        return words[:place] + words[place + 1 :] or words
    if kind == 1:
        return [*words[:place], words[place], *words[place:]]
    if kind == 2:
        return [*words[:place], mutate(words[place], chance)[:500], *words[place + 1 :]]
    if kind == 3:
        return [*words, chance.choice(("--seed", "--rate", "--capacity", "--for", "--x", "--processors"))]
    return [*words[:place], chance.choice(_ARGUMENTS), *words[place + 1 :]]


def targets() -> list[tuple[Any, int]]:
    """What is mutated, and how often of a hundred times."""
    workloads = [test_workload_file.GOOD, PROCESSES, (EXAMPLES / "two_operators.toml").read_text()]
    networks = [test_route.S3, test_route.J3, test_route.SHORT, NODES]
    by_hand = [test_explain_profile.profile(3), (EXAMPLES / "three_streams.profile.toml").read_text()]
    return [
        (Documents("workload", workloads, use_workload), 26),
        (Documents("network", networks, use_network), 22),
        (Documents("profile", [PROFILE], use_profile), 12),
        (Documents("statistics", by_hand, use_statistics), 12),
        (Scripts(), 10),
        (Options(), 18),
    ]


def run_cases(cases: int, seed: int, report: Callable[[int, Outcomes], None] | None = None) -> Outcomes:
    outcomes, (kinds, weights) = Outcomes(), zip(*targets(), strict=True)
    with tempfile.TemporaryDirectory() as folder, borders_only():
        for number in range(cases):
            # each case has a generator of its own, so that one can be repeated without the others
            chance = random.Random(f"{seed} {number}")
            target = chance.choices(kinds, weights)[0]
            given, use = target.case(Path(folder), chance)
            outcomes.judge(target.name, f"(case {number})\n{given}", use)
            if report is not None and number % 1000 == 999:
                report(number + 1, outcomes)
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    arguments = parser.parse_args()
    print(f"--seed {arguments.seed} repeats these cases", flush=True)
    begin_s = time.monotonic()

    def report(number: int, outcomes: Outcomes) -> None:
        wrong = f"{len(outcomes.failures)} wrong, slowest {outcomes.slowest_s:.2f} s"
        print(f"{number:,} cases in {time.monotonic() - begin_s:.0f} s: {wrong}", flush=True)

    outcomes = run_cases(arguments.cases, arguments.seed, report)
    for name, count in sorted(outcomes.counts.items()):
        print(f"{name:24} {count:8,}")
    print(f"slowest: {outcomes.slowest_s:.2f} s of processor time")
    for failure in outcomes.failures[:20]:
        print(f"\n== {failure}")
    sys.exit(bool(outcomes.failures))


if __name__ == "__main__":
    main()

"""What is mutated: documents, scripts and options of commands, each with what is done with it."""

from __future__ import annotations

import contextlib
import io
import json
import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import typer.main
from tests.cli import test_advise, test_explain_profile, test_route
from tests.mutations.mutate import NUMBERS
from tests.simulator import test_workload_file

from headgate.cli.advising import Question, answer
from headgate.cli.app import app
from headgate.cli.decision import show_decision
from headgate.cli.script import Script
from headgate.cli.simulating import MeasuredOptions, simulate_policies, simulate_strategies, solve
from headgate.errors import SetupError
from headgate.planning.lower import Stages
from headgate.routing import router_names
from headgate.scheduling import strategy_names

EXAMPLES = Path(__file__).parents[2] / "examples"
Use = Callable[[], None]
Mutate = Callable[[str, random.Random], str]


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


class Kind(ABC):
    """Texts of one kind, and what is done with them."""

    def __init__(self, name: str, examples: list[str]) -> None:
        self.name = name
        self.examples = examples

    def mutated(self, example: str, chance: random.Random, mutate: Mutate) -> str:
        return mutate(example, chance)

    @abstractmethod
    def case(self, text: str, folder: Path, chance: random.Random) -> tuple[str, Use]:
        """What is given, for reports of failures, and the use of it."""


class Documents(Kind):
    """Files, which commands read."""

    def __init__(self, name: str, examples: list[str], use: Callable[[Path, random.Random], None]) -> None:
        super().__init__(name, examples)
        self._use = use

    def mutated(self, example: str, chance: random.Random, mutate: Mutate) -> str:
        # some bytes are no UTF-8
        ending = chance.choice(("", "", "", "", "", "", "", "\udcff", "\udcc3", "\0"))
        return mutate(example, chance) + ending

    def case(self, text: str, folder: Path, chance: random.Random) -> tuple[str, Use]:
        path = folder / f"document{'.json' if text.lstrip()[:1] == '{' else '.toml'}"
        path.write_bytes(text.encode("utf-8", "surrogateescape"))

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
arrivals = { process = "trace", file = "times.csv", column = "at", unit = "ms", begin = 1, until = 9 }
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
JOINED = test_explain_profile.CQL + test_explain_profile.JOIN


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
    script.write_text(JOINED)
    capacity, bushy = chance.choice((1.0, 0.01, 1e-6)), chance.random() < 0.5
    printed(lambda: show_decision(script, path, capacity, bushy, as_json=True))


SCRIPT = """
CREATE STREAM packets (ts TIMESTAMP, src STRING, bytes INT) FROM burst OPTIONS (
  rate '50, 2000 from 60 s', process 'onoff', flows '64', seed '7', onShape '1.4', offShape '1.2',
  start '2026-01-31T12:00:00Z', duration '60 s', speed 'max', partitions '2', keys '1000', skew '1.0',
  maxRowsPerTrigger '500', timestamp 'ts', watermark '2 s', idle_after '10 s', max_ahead '1 day');
CREATE STREAM bids (auction BIGINT, price BIGINT, dateTime TIMESTAMP) FROM nexmark OPTIONS (
  table 'bid', events '1000', rate '50', seed '1', start '2026-01-31T12:00:00Z', speed '2', partitions '2',
  timestamp 'dateTime');
CREATE RELATION hosts (src STRING, name STRING) FROM csv OPTIONS (path 'hosts/', header 'true');
CREATE POOL p SLOTS 3;
CREATE QUERY q WITH (latency = '1 s', memory = '64 MB', overload = 'shed', quality = true) AS
  SELECT src, COUNT(*) AS n FROM packets [RANGE 10 SECONDS SLIDE 2 SECONDS] WHERE bytes > 10 GROUP BY src;
CREATE QUERY r AS SELECT p.src, h.name FROM packets [ROWS 100] AS p, hosts AS h WHERE p.src = h.src;
CREATE QUERY s AS
  SELECT auction, MAX(price) AS best FROM bids [HOP 10 SECONDS EVERY 2 SECONDS] GROUP BY auction;
"""


_LONGEST_SCRIPT = 20_000


class Scripts(Kind):
    """CQL with options of streams and settings of queries."""

    def mutated(self, example: str, chance: random.Random, mutate: Mutate) -> str:
        # a statement takes a millisecond or two, however many there are
        return mutate(example, chance)[:_LONGEST_SCRIPT]

    def case(self, text: str, folder: Path, chance: random.Random) -> tuple[str, Use]:
        def use() -> None:
            Stages.of(Script.parse(text, "mutated.sql").catalog())

        return text, use


COMMANDS = (
    "simulate {examples}/two_operators.toml --strategy mixed:least_slope=0.2 --seed 3 --json",
    "simulate {examples}/two_operators.toml --strategy chain+oldest --plot {here}/x.png",
    "simulate {examples}/three_selections.toml --policy q --rate 100 --seed 1 --json",
    "simulate {here}/advised.sql --rate readings=20 --rate alarms=3 --for 1s --processors 2 --json",
    "route {examples}/three_selections.toml --optimize mdr --rate 220 --json",
    "advise {here}/advised.sql --rate readings=100 --processors 2 --tick 100ms --percentile 0.9 --json",
    "advise {here}/advised.sql --strategy chain --servers pool --tick 0s --json",
    "explain {examples}/three_streams.sql --profile {examples}/three_streams.profile.toml --bushy --json",
    "explain {examples}/three_streams.sql --profile {examples}/three_streams.profile.toml --capacity 2",
    "explain {examples}/network.sql --after lower --json",
    "run {examples}/network.sql --for 30s --strategy threshold:beta=0.8,interval_s=1 --memory 64MB --json",
    "run {examples}/sensors.sql --until-done --tick-budget 0.5s --routing wscq --checkpoint {here}/state",
    "profile {examples}/sensors.sql --for 20s --output {here}/p.json",
    "demo --seconds 15 --out {here}/out",
    "bench eddies --seconds 60 --policy q --executors 2 --out {here}/out",
    "bench burst --seed 7 --queries eight --out {here}/out",
    "bench nexmark --events 1000000 --query q0 --seed 7 --out {here}/out",
    "reproduce chain --out {here}/out",
    "nexmark {here}/data --events 1000 --rate 50 --seed 3 --start 2026-01-31 --files 2 --json",
)
_ARGUMENTS = (
    *(number for number in NUMBERS if len(number) < 500),
    *("", "-", "--", "x", "=", "s=", "=3", "é", "/", ".", ":", "+", "\0", "a" * 300, "--json", "--help"),
    *(
        "readings=nan",
        "readings=1e30",
        "readings=-1",
        "1h",
        "0s",
        "-3s",
        "1e9s",
        "64XB",
        "0MB",
        "9" * 21 + "days",
    ),
    *("all", "chain+", "mixed:", "mixed:least_slope", "mixed:least_slope=inf", "mixed:x=1", "nowhere.py:X"),
)
_MORE = ("--seed", "--rate", "--capacity", "--for", "--x", "--processors")


class Options(Kind):
    """Words of commands, one blank between two of them."""

    def __init__(self, name: str, examples: list[str]) -> None:
        super().__init__(name, examples)
        self._command = typer.main.get_command(app)

    def mutated(self, example: str, chance: random.Random, mutate: Mutate) -> str:
        words = example.split(" ")
        for _ in range(chance.choice((1, 1, 2, 3))):
            words = self._other_words(words, chance, mutate)
        return " ".join(words)

    def _other_words(self, words: list[str], chance: random.Random, mutate: Mutate) -> list[str]:
        place = chance.randrange(1, len(words)) if len(words) > 1 else 0
        kind = chance.randrange(6)
        if kind == 0:
            return words[:place] + words[place + 1 :] or words
        if kind == 1:
            return [*words[:place], words[place], *words[place:]]
        if kind == 2:
            return [*words[:place], mutate(words[place], chance)[:500], *words[place + 1 :]]
        if kind == 3:
            return [*words, chance.choice(_MORE)]
        return [*words[:place], chance.choice(_ARGUMENTS), *words[place + 1 :]]

    def case(self, text: str, folder: Path, chance: random.Random) -> tuple[str, Use]:
        script = folder / "advised.sql"
        script.write_text(ADVISED)
        script.with_suffix(".profile.json").write_text(PROFILE)
        places = {"{here}": str(folder), "{examples}": str(EXAMPLES)}
        for name, place in places.items():
            text = text.replace(name, place)
        return text, lambda: self._call(text.split(" "))

    def _call(self, words: list[str]) -> None:
        output, errors, code = io.StringIO(), io.StringIO(), 0
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            try:
                self._command.main(words, prog_name="headgate")
            except SystemExit as end:
                code = int(end.code or 0)
        message = errors.getvalue()
        if "internal error: Accepted" in message:
            # the work that follows would take long
            return
        if code == 2:
            # the place in a query is underlined below the message
            raise SetupError(message.partition("\n")[0])
        if code != 0 and not (code == 1 and words[0] == "advise" and output.getvalue()):
            raise AssertionError(f"code {code}: {message}")
        if output.getvalue()[:1] in ("{", "["):
            strict(output.getvalue())


def kinds() -> list[tuple[Kind, int]]:
    """What is mutated, and how often of a hundred times."""
    workloads = [test_workload_file.GOOD, PROCESSES, (EXAMPLES / "two_operators.toml").read_text()]
    networks = [test_route.S3, test_route.J3, test_route.SHORT, NODES]
    by_hand = [test_explain_profile.profile(3), (EXAMPLES / "three_streams.profile.toml").read_text()]
    scripts = [SCRIPT, *(path.read_text() for path in sorted(EXAMPLES.glob("*.sql")))]
    return [
        (Documents("workload", workloads, use_workload), 26),
        (Documents("network", networks, use_network), 22),
        (Documents("profile", [PROFILE], use_profile), 12),
        (Documents("statistics", by_hand, use_statistics), 12),
        (Scripts("cql", scripts), 10),
        (Options("options", list(COMMANDS)), 18),
    ]

"""What becomes of mutated cases: each is refused in one line within a second, or accepted and soon done."""

from __future__ import annotations

import contextlib
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

from tests.mutations.cases import Kind, kinds
from tests.mutations.mutate import mutate

from headgate.cli import execution, simulating, studies
from headgate.errors import HeadgateError, InternalError
from headgate.experiments.eddies import three_selections
from headgate.simulator import workload_file
from headgate.simulator.eddies import EddyRun, eddy_simulation
from headgate.simulator.eddies.eddy_simulation import simulate_eddy
from headgate.simulator.eddies.world import WorldBuilder
from headgate.simulator.scenario import Scenario
from headgate.workload.nexmark_files import DataSet

LONGEST_REFUSAL_S = 1.0
_ABORTED_AFTER_S = 5.0
_LONGEST_MESSAGE = 3000
# work that was accepted and takes longer is legitimate, and not done here
_MOST_TUPLES, _MOST_ENTRIES, _MOST_EVENTS = 20_000, 300, 5_000


class Accepted(Exception):
    """The border is passed, and the work that follows would take long."""


class TooLong(BaseException):
    """A case has used more processor time than any may."""


@dataclass
class Outcomes:
    """What became of the cases, and those that went wrong."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    slowest_s: dict[str, float] = field(default_factory=lambda: {"refused": 0.0, "accepted": 0.0})
    """Of processor time, which other programs hardly change."""

    def judge(self, kind: str, given: str, use: Callable[[], None]) -> None:
        begin_s, problem, end = time.thread_time(), "", "accepted"
        signal.setitimer(signal.ITIMER_PROF, _ABORTED_AFTER_S)
        try:
            use()
        except Accepted:
            pass
        except TooLong:
            problem = f"takes over {_ABORTED_AFTER_S:g} s"
        except InternalError as error:
            problem = f"InternalError: {error}"
        except HeadgateError as error:
            end, problem = "refused", _objection(str(error))
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        seconds = time.thread_time() - begin_s
        self.slowest_s[end] = max(self.slowest_s[end], seconds)
        if seconds > LONGEST_REFUSAL_S and end == "refused" and not problem:
            problem = f"takes {seconds:.2f} s"
        self.counts[f"{kind}: {'wrong' if problem else end}"] += 1
        if problem:
            self.failures.append(f"{kind}: {problem}\n{given[:_LONGEST_MESSAGE]}")


def _objection(message: str) -> str:
    is_good = message.strip() and "\n" not in message and len(message) < _LONGEST_MESSAGE
    return "" if is_good else f"not one line: {message[:500]!r}"


def run_unchanged(chance: random.Random) -> Outcomes:
    """Every document and list of options as it is; imports and compiles what the mutated ones need."""
    outcomes = Outcomes()
    with tempfile.TemporaryDirectory() as folder, borders_only():
        for kind, _ in kinds():
            for example in kind.examples:
                given, use = kind.case(example, Path(folder), chance)
                outcomes.judge(kind.name, given, use)
    return outcomes


def run_mutated(
    cases: Sequence[int],
    seed: int,
    report: Callable[[int, Outcomes], None] | None = None,
    with_eddies: bool = False,
) -> Outcomes:
    """The cases of these numbers. Each has a generator of its own, so that one can be repeated alone.

    Simulating eddies compiles for up to a minute, after every change of their code.
    """
    outcomes, (each, weights) = Outcomes(), zip(*kinds(), strict=True)
    if with_eddies:
        simulate_eddy(EddyRun(three_selections(), "q", 1.0, 1.0))
    with tempfile.TemporaryDirectory() as folder, borders_only(_MOST_EVENTS if with_eddies else 0):
        for done, number in enumerate(cases, start=1):
            chance = random.Random(f"{seed} {number}")
            kind: Kind = chance.choices(each, weights)[0]
            example = kind.mutated(chance.choice(kind.examples), chance, mutate)
            given, use = kind.case(example, Path(folder), chance)
            outcomes.judge(kind.name, f"(case {number})\n{given}", use)
            if report is not None and done % 1000 == 0:
                report(done, outcomes)
    return outcomes


@contextlib.contextmanager
def borders_only(most_events: float = 0) -> Iterator[None]:
    """Replace work that takes long, or needs Spark, by the exception that tells that it was accepted."""
    times_s, simulate = workload_file._Stream.times_s, simulating.simulate

    def accept(*_: object, **__: object) -> NoReturn:
        raise Accepted

    def some_times_s(self: Any, seed: int, folder: Path) -> Any:
        return times_s(self, seed, folder) if self.arrivals.expected < _MOST_TUPLES else accept()

    def short(scenario: Scenario, *arguments: Any, **more: Any) -> Any:
        is_short = scenario.entries + scenario.time_units < _MOST_ENTRIES
        return simulate(scenario, *arguments, **more) if is_short else accept()

    def short_eddy(run: EddyRun, *arguments: Any) -> Any:
        # raises if the network cannot be simulated
        WorldBuilder(run).world()
        is_short = run.rate * run.seconds < most_events and run.policy != "optimal"
        return simulate_eddy(run, *arguments) if is_short else accept()

    def too_long(*_: object) -> None:
        raise TooLong

    replaced: tuple[tuple[Any, str, Any], ...] = (
        (workload_file._Stream, "times_s", some_times_s),
        (simulating, "simulate", short),
        (eddy_simulation, "simulate_eddy", short_eddy),
        (DataSet, "write", accept),
        *((studies, name, accept) for name in ("demonstrate", "reproduced", "measured", "_application")),
        *((execution, name, accept) for name in ("execute", "measure", "show_sql", "Session")),
    )
    before = signal.signal(signal.SIGPROF, too_long)
    with contextlib.ExitStack() as patches:
        patches.callback(signal.signal, signal.SIGPROF, before)
        for target, name, replacement in replaced:
            patches.enter_context(patch.object(target, name, replacement))
        for name, replacement in (
            ("headgate.cli.script.jvm.start_early", lambda *given: None),
            ("headgate.cli.script._start_session", lambda *given: None),
            ("headgate.spark.application.jvm.start_early", lambda *given: None),
            ("headgate.session.session.Session", accept),
        ):
            patches.enter_context(patch(name, replacement))
        yield

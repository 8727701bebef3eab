"""``python -m tests.mutations --cases 100000``: as many mutated documents and lists of options."""

from __future__ import annotations

import argparse
import random
import secrets
import sys
import time
import warnings

from tests.mutations.judging import Outcomes, run_mutated, run_unchanged

_SHOWN = 20


def slowest(outcomes: Outcomes) -> str:
    return "slowest " + ", ".join(f"{end} {seconds:.2f} s" for end, seconds in outcomes.slowest_s.items())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    arguments = parser.parse_args()
    print(f"--seed {arguments.seed} repeats these cases", flush=True)
    # as in tests
    warnings.simplefilter("error")
    run_unchanged(random.Random(arguments.seed))
    begin_s = time.monotonic()
    shown = 0

    def show(outcomes: Outcomes) -> None:
        nonlocal shown
        for failure in outcomes.failures[shown:_SHOWN]:
            print(f"\n== {failure}", flush=True)
        shown = len(outcomes.failures)

    def report(number: int, outcomes: Outcomes) -> None:
        show(outcomes)
        wrong = f"{len(outcomes.failures)} wrong, {slowest(outcomes)}"
        print(f"{number:,} cases in {time.monotonic() - begin_s:.0f} s: {wrong}", flush=True)

    cases = range(arguments.first, arguments.first + arguments.cases)
    outcomes = run_mutated(cases, arguments.seed, report, with_eddies=True)
    for name, count in sorted(outcomes.counts.items()):
        print(f"{name:24} {count:8,}")
    print(f"{slowest(outcomes)} of processor time")
    show(outcomes)
    sys.exit(bool(outcomes.failures))


if __name__ == "__main__":
    main()

"""Random sequences of changes in processes that are killed: ``python -m tests.living 50 [seed]``.

Each sequence is run by a process that is killed with SIGKILL at a random moment, twice, and goes on in
another one; in the end, every query's results are compared with the oracle's from its start on.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

STEPS = 8
KILLS = 2
TIMEOUT_S = 600


def lives(folder: Path, seed: int) -> str:
    """Run one sequence, killed now and then; what is wrong in the end."""
    rng = Random(seed)
    for life in range(KILLS + 1):
        log = folder / f"life-{life}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.living", "child", str(folder), str(seed)],
                stdout=output,
                stderr=subprocess.STDOUT,
                # the JVM dies with it
                start_new_session=True,
            )
        if life < KILLS:
            while not (folder / "begun").exists() and process.poll() is None:
                time.sleep(0.1)
            if not ended(process, rng.uniform(2, 30)):
                continue
        elif not ended(process, TIMEOUT_S):
            return f"not done within {TIMEOUT_S} s; {log.read_text()[-4000:]}"
        return "" if process.returncode == 0 else log.read_text()[-4000:]
    raise AssertionError("the last life is not killed")


def ended(process: subprocess.Popen[bytes], within_s: float) -> bool:
    """Whether a life ends by itself in time; otherwise it is killed, with its JVM."""
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return False
    return True


def child(folder: Path, seed: int) -> int:
    """One life of a sequence."""
    from tests.interpretation import INTERPRETATION
    from tests.oracle.living import random_sequence

    from headgate.spark.application.cluster import own_session

    spark = own_session("local[2]", 0)
    for name, value in INTERPRETATION.items():
        spark.conf.set(name, value)
    found = random_sequence(spark, folder, seed, STEPS)
    print("\n".join(found))
    return len(found)


def main(sequences: int, seed: int) -> int:
    """Run so many sequences, and say what is wrong."""
    # child processes are over before Java's second compiler pays
    os.environ.setdefault("HEADGATE_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
    os.environ.setdefault("HEADGATE_CLASS_SHARING", "off")
    wrong = 0
    for number in range(seed, seed + sequences):
        with TemporaryDirectory() as folder:
            started_s = time.monotonic()
            found = lives(Path(folder), number)
        wrong += bool(found)
        print(f"seed {number}: {found or 'agrees with the oracle'} ({time.monotonic() - started_s:.0f} s)")
        sys.stdout.flush()
    print(f"{sequences - wrong} of {sequences} sequences agree with the oracle")
    return wrong


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        sys.exit(min(1, child(Path(sys.argv[2]), int(sys.argv[3]))))
    given = [int(argument) for argument in sys.argv[1:]]
    sys.exit(min(1, main(given[0] if given else 50, given[1] if len(given) > 1 else 0)))

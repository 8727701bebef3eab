"""A run with placed functions on two executors, in a process of its own: see ``main`` for its arguments."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from headgate import Session
from headgate.spark.application.cluster import own_session

ROWS = 800
CALL_S = 0.02
SLOTS = {"narrow": 1, "wide": 2, "cores": 4}
# executors with two tasks of jobs each, beside the one of ticks
POOL_TASKS = 4


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def noted(folder: Path, pool: str, worker: int, holds: bool) -> bool:
    """Note a call in a file: begin, end, the process, and Spark's daemon, which has started the worker."""
    begin_s = time.time()
    time.sleep(CALL_S)
    line = f"{pool} {begin_s} {time.time()} {os.getpid()} {parent_of(worker)}\n"
    with (folder / "calls.txt").open("a") as file:
        file.write(line)
    return holds


def statements(folder: Path) -> str:
    return f"""
    CREATE POOL narrow SLOTS {SLOTS["narrow"]}; CREATE POOL wide SLOTS {SLOTS["wide"]};
    CREATE POOL cores SLOTS {SLOTS["cores"]};
    PLACE odd ON narrow; PLACE small ON wide; PLACE crunched ON cores;
    CREATE STREAM s (ts BIGINT, v BIGINT)
      FROM parquet OPTIONS (path '{folder}/in', timestamp 'ts', idle_after '1 h');
    CREATE QUERY passed AS SELECT v FROM s WHERE odd(v) AND small(v) AND crunched(v)
      INTO parquet OPTIONS (path '{folder}/out');"""


def main(folder: Path, master: str) -> None:
    """Run to the end."""

    def odd(v: int) -> bool:
        return noted(folder, "narrow", os.getpid(), v % 2 == 1)

    def small(v: int) -> bool:
        return noted(folder, "wide", os.getpid(), v % 5 < 3)

    def crunched(v: int) -> bool:
        # in a process that the worker has started
        return noted(folder, "cores", os.getppid(), v % 7 > 0)

    session = Session(own_session(master, POOL_TASKS))
    session.function("odd", odd, "boolean").function("small", small, "boolean")
    session.function("crunched", crunched, "boolean", in_processes=True)
    session.execute(statements(folder))
    session.start(until_done=True, checkpoint=folder / "checkpoint", routing="wscq").wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

"""What the dashboard costs a run: ticks while nobody looks, and while pages are open.

    python benchmarks/dashboard.py --pages 20

A run of 3 or 48 selections with a server beside it. Phases without pages and with ``--pages`` pages, which
read every event as browsers do, follow each other in one run, so that other load meets both alike. Printed
are the length of ticks and the processor time of the threads that serve, as a share of the time of ticks.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from common import TickLog, markdown
from headgate import Session

WARM_S = 20.0
_THREADS = ("headgate-monitor", "headgate-dashboard")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pages", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=20.0, help="length of a phase")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--counts", default="3,48", help="numbers of queries")
    given = parser.parse_args()
    rows = [row for count in given.counts.split(",") for row in _measured(int(count), given)]
    header = ("queries", "pages", "ticks", "tick p50, s", "tick p90, s", "serving, ms per tick", "of ticks")
    print(markdown(header, rows))


def _measured(queries: int, given: Any) -> Iterator[tuple[object, ...]]:
    ticks, spent_s = dict[int, list[float]](), dict[int, float]()
    with Session(master="local[2]") as session:
        session.execute(_script(queries))
        log = TickLog()
        run = session.start(observers=[log])
        with run.dashboard(opens=False) as dashboard:
            run.wait(WARM_S)
            for pages in [0, given.pages] * given.rounds:
                with _opened(dashboard.link, pages):
                    first, before_s = len(log.ticks), _served_s()
                    run.wait(given.seconds)
                    ticks.setdefault(pages, []).extend(tick.seconds for tick in log.ticks[first:])
                    spent_s[pages] = spent_s.get(pages, 0.0) + _served_s() - before_s
    for pages, lengths in ticks.items():
        p90 = statistics.quantiles(lengths, n=10)[-1]
        each_ms, share = 1e3 * spent_s[pages] / len(lengths), spent_s[pages] / sum(lengths)
        p50 = statistics.median(lengths)
        yield queries, pages, len(lengths), f"{p50:.3f}", f"{p90:.3f}", f"{each_ms:.1f}", f"{share:.2%}"


def _script(queries: int) -> str:
    stream = "CREATE STREAM beats FROM rate OPTIONS (rowsPerSecond 1000);"
    selections = (
        f"CREATE QUERY q{n} AS SELECT value FROM beats WHERE value % 97 = {n};" for n in range(queries)
    )
    return stream + "".join(selections)


@contextmanager
def _opened(link: Any, pages: int) -> Iterator[None]:
    """So many pages: each gets the history, and then every event."""
    # in a process of their own, as browsers are
    process = get_context("spawn").Process(target=_look_at_all, args=(link(), pages))
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def _look_at_all(link: str, pages: int) -> None:
    """Pages of one browser, which share its cookie: a link opens the dashboard once."""
    at = urlsplit(link)
    connection = http.client.HTTPConnection(at.netloc, timeout=60)
    connection.request("GET", f"{at.path}?{at.query}")
    cookie = connection.getresponse().headers["set-cookie"].partition(";")[0]
    threads = [threading.Thread(target=_look, args=(at.netloc, cookie)) for _ in range(pages)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _look(address: str, cookie: str) -> None:
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request("GET", "/history", headers={"cookie": cookie})
    last = json.loads(connection.getresponse().read())["last"]
    connection.request("GET", f"/events?after={last}", headers={"cookie": cookie})
    events = connection.getresponse()
    while events.readline():
        pass


def _served_s() -> float:
    """Processor time so far of the threads that encode and send what pages see."""
    found = 0.0
    for thread in threading.enumerate():
        if thread.name in _THREADS:
            stat = Path(f"/proc/self/task/{thread.native_id}/stat").read_text()
            user, system = stat.rpartition(")")[2].split()[11:13]
            found += (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    return found


if __name__ == "__main__":
    began_s = time.monotonic()
    main()
    print(f"\nin {time.monotonic() - began_s:.0f} s")

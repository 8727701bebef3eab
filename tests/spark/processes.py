"""Processes that tests start beside themselves: masters, workers, file systems."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from headgate.spark.application.jvm import MODULE_OPTIONS, class_path, pyspark_folder


def java(*arguments: str, jars: Sequence[Path] = ()) -> list[str]:
    """A command that runs a class with Spark's jars and others."""
    spark_home = pyspark_folder()
    assert spark_home is not None
    path = os.pathsep.join(map(str, [*class_path(spark_home), *jars]))
    own = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    return [shutil.which("java") or "java", *own, *MODULE_OPTIONS, "-cp", path, *arguments]


@contextmanager
def started(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process until the end of a block, which kills it."""
    environ = {**os.environ, "SPARK_HOME": str(pyspark_folder()), "PYSPARK_PYTHON": sys.executable}
    # workers would look for a build of Spark to find it out
    environ["SPARK_SCALA_VERSION"] = "2.13"
    with log.open("ab") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environ)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def process_group(
    command: list[str], log: Path, environment: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A process at the head of a group of its own, all of which the end of the block kills."""
    environ = {**os.environ, **(environment or {})}
    with log.open("ab") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, env=environ, cwd=cwd, start_new_session=True
        )
    try:
        yield process
    finally:
        # the group outlives its leader while the JVM lives
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nothing listens to."""
    with ExitStack() as sockets:
        found = [sockets.enter_context(closing(socket.socket())) for _ in range(count)]
        for one in found:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in found]

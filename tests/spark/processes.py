"""Processes that tests start beside themselves: masters, workers, file systems."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
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


def free_port() -> int:
    with closing(socket.socket()) as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])

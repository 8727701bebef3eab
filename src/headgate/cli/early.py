"""Starting Spark while a script is read and planned, for commands that will need it."""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.spark import archive, jvm
from headgate.spark.java import find_java

if TYPE_CHECKING:
    from headgate.cli.script import Script


def read_script(file: Path, master: str) -> Script:
    """Read and check a script while Spark starts; a script that is wrong ends what was started."""
    with _started_early(master if file.is_file() else ""):
        # imported here: the JVM has a head start on the planner
        from headgate.cli.script import Script

        script = Script.read(file)
        _start_session(script, master)
        script.check()
    return script


@contextmanager
def _started_early(master: str) -> Iterator[None]:
    jvm.start_early(master)
    try:
        yield
    except BaseException:
        # a session half started loses its JVM now, and what py4j has to say about that is no news
        logging.disable(logging.CRITICAL)
        jvm.discard_early()
        raise
    if jvm.starts_directly(master, os.environ):
        atexit.register(_share_classes)


def _start_session(script: Script, master: str) -> None:
    # imported here: PySpark
    from headgate.session import POOL_TASKS
    from headgate.spark.cluster import start_in_background

    start_in_background(master, POOL_TASKS if script.has_pools else 0)


def _share_classes() -> None:
    """Let Spark start faster the next time."""
    spark_home = jvm.pyspark_folder()
    with suppress(Exception):
        assert spark_home is not None
        archive.make_in_background(find_java(os.environ), jvm.class_path(spark_home))

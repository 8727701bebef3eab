"""Folders that the driver and all executors must share: the checkpoint, and those of results.

On a cluster without a shared file system, every executor would write to its own disk, and the driver would
publish what it happens to see: results would be wrong without a word.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from headgate.errors import SetupError
from headgate.formats.outputs import check_folder
from headgate.spark.application.cluster import processors, task_slots
from headgate.spark.file_system import Files, local_path

# executors take tasks as they come: with more tasks than processors, each is likely to get one
_TASKS_PER_PROCESSOR = 2


def check_outputs(spark: SparkSession, files: Files, folders: Mapping[str, str]) -> None:
    """Raise if a folder cannot be written to, or executors do not share it with the driver."""
    for what, folder in folders.items():
        # Hadoop, too, reads a path without a scheme as one below the folder in which this process started
        located = folder if ":" in folder else str(Path(folder).absolute())
        if files.is_local(located):
            check_folder(what, local_path(located))
    check_shared(spark, files, folders)


def check_shared(spark: SparkSession, files: Files, folders: Mapping[str, str]) -> None:
    """Let executors write into folders, and raise if the driver does not see all that they wrote.

    ``folders`` are paths by what messages call them. On one machine there is nothing to check.
    """
    if task_slots(spark) is not None:
        return
    tasks = _TASKS_PER_PROCESSOR * processors(spark)
    for what, folder in folders.items():
        probe = f"{folder.rstrip('/')}/_headgate-probe-{uuid.uuid4().hex[:8]}"
        try:
            spark.range(0, tasks, 1, tasks).write.parquet(probe)
            seen = sum(name.startswith("part-") for name in files.names(probe))
        except Exception as error:
            reason = str(error).strip().splitlines()[0]
            raise SetupError(f"{what} {folder}: executors cannot write there: {reason}") from error
        finally:
            files.delete(probe)
        if seen != tasks:
            raise SetupError(
                f"{what} {folder}: of {tasks} files that executors have written, the driver sees {seen}; "
                "choose a folder that all machines share, such as one of HDFS or S3"
            )

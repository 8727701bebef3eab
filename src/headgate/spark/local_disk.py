"""Writes to a local disk without starting processes.

Hadoop's local file system starts a ``chmod`` process for every file and folder that it creates: nine for a
DataFrame written by Spark, some 5 ms of processor time each. ``hadoop/LocalFiles.java`` sets the same ones
by a system call. Its jar comes from the compiler that Spark brings: ``python -m headgate.spark.local_disk``.
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

_CLASS = "headgate.LocalFiles"
_FOLDER = Path(__file__).parent / "hadoop"
JAR = _FOLDER / "headgate-files.jar"
# the time in an archive would make every build another file
_BUILT_AT = (1980, 1, 1, 0, 0, 0)


def use_local_files(spark: SparkSession) -> None:
    """Let this session, and no other of the application, reach local disks through ``LocalFiles``."""
    if os.name != "posix":
        return
    _load(spark)
    spark.conf.set("fs.file.impl", _CLASS)
    # Hadoop remembers one file system for all sessions, by the scheme of its address alone
    spark.conf.set("fs.file.impl.disable.cache", "true")


def _load(spark: SparkSession) -> None:
    """Make the class known to the driver and, through Spark, to every executor."""
    jvm: Any = spark._jvm
    hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()
    if hadoop.getClassByNameOrNull(_CLASS) is not None:
        return
    spark.sparkContext._jsc.addJar(JAR.as_uri())
    gateway: Any = spark.sparkContext._gateway
    urls = gateway.new_array(jvm.java.net.URL, 1)
    urls[0] = jvm.java.net.URI(JAR.as_uri()).toURL()
    hadoop.setClassLoader(jvm.java.net.URLClassLoader(urls, hadoop.getClassLoader()))


def compiled(spark: SparkSession) -> dict[str, bytes]:
    """The classes of ``LocalFiles.java`` by their place in a jar."""
    jvm: Any = spark._jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook((_FOLDER / "LocalFiles.java").read_text(encoding="utf-8"))
    return {f"{n.replace('.', '/')}.class": bytes(code) for n, code in dict(compiler.getBytecodes()).items()}


def build(spark: SparkSession) -> None:
    """Write the jar."""
    with zipfile.ZipFile(JAR, "w") as archive:
        for name, code in sorted(compiled(spark).items()):
            archive.writestr(zipfile.ZipInfo(name, _BUILT_AT), code)


if __name__ == "__main__":
    from headgate.spark.cluster import own_session

    build(own_session("local[1]"))

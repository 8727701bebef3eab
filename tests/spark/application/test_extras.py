"""What Spark is started with: packages, jars and settings of the user's, and the driver's address."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest

from headgate.errors import SetupError
from headgate.spark.application import cluster, jvm
from headgate.spark.application.cluster import _driver_address
from headgate.spark.application.extras import IVY_VARIABLE, KAFKA_CONNECTOR, NO_EXTRAS, Extras


def test_the_connector_of_the_installed_spark_is_added_unless_one_is_named() -> None:
    connector = f"{KAFKA_CONNECTOR}:{version('pyspark')}"
    assert NO_EXTRAS.with_kafka().settings()["spark.jars.packages"] == connector
    other = Extras.of(f"a:b:1,{KAFKA_CONNECTOR}:4.2.0", None, [])
    assert other.with_kafka() is other
    configured = Extras.of(None, None, [f"spark.jars.packages={KAFKA_CONNECTOR}:4.2.0"])
    assert configured.with_kafka() is configured


def test_jars_need_no_spark_submit_and_packages_and_settings_do(tmp_path: Path) -> None:
    jar = tmp_path / "own.jar"
    jar.touch()
    assert jvm.starts_directly("local[2]", {}, Extras.of(None, str(jar), []))
    assert not jvm.starts_directly("local[2]", {}, Extras.of("a:b:1", None, []))
    assert not jvm.starts_directly("local[2]", {}, Extras.of(None, None, ["spark.executor.memory=1g"]))


def test_settings_of_ivy_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(IVY_VARIABLE, "/etc/ivy.xml")
    found = Extras.of("a:b:1", None, ["spark.x=1"]).settings()
    assert found == {"spark.jars.packages": "a:b:1", "spark.jars.ivySettings": "/etc/ivy.xml", "spark.x": "1"}


def test_what_cannot_be_fetched_is_named_with_what_to_do() -> None:
    advice = NO_EXTRAS.with_kafka().advice()
    assert KAFKA_CONNECTOR in advice and "--jars" in advice and IVY_VARIABLE in advice
    assert NO_EXTRAS.advice() == ""


@pytest.mark.parametrize(
    ("packages", "jars", "conf", "message"),
    [
        ("a:b", None, [], "packages: 'a:b' is not group:artifact:version"),
        (None, "none.jar", [], "jars: no such file: none.jar"),
        (None, None, ["x"], "--conf: 'x' is not name=value"),
        (None, None, ["x=1"], "conf: 'x' is no setting of Spark"),
    ],
)
def test_what_spark_would_stumble_over_later_is_refused(
    packages: str | None, jars: str | None, conf: list[str], message: str
) -> None:
    with pytest.raises(SetupError, match=message):
        Extras.of(packages, jars, conf)


@pytest.mark.parametrize(
    ("master", "host"),
    [("local[4]", "127.0.0.1"), ("spark://127.0.0.1:7077", "127.0.0.1"), ("yarn", None)],
)
def test_the_driver_announces_the_address_that_leads_to_the_master(master: str, host: str | None) -> None:
    assert _driver_address(master).get("spark.driver.host") == host


def test_a_setting_that_spark_refuses_is_reported_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        java = "java.lang.IllegalArgumentException: spark.network.timeoutInterval should be less"
        raise RuntimeError(
            f"An error occurred while calling None.JavaSparkContext.\n: {java}\n\tat a.b.C.d\n"
        )

    monkeypatch.setattr(cluster, "_start_gateway", refuse)
    reason = "IllegalArgumentException: spark.network.timeoutInterval should be less"
    with pytest.raises(SetupError, match=rf"^Spark does not start on local: {reason}$"):
        cluster.own_session("local")

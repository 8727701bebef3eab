"""What a Spark application of ours has beyond Spark itself: packages, jars and settings of the user's."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path

from headgate.errors import SetupError

IVY_VARIABLE = "HEADGATE_IVY_SETTINGS"
"""A file with the settings of Ivy, for networks in which packages come from elsewhere."""

KAFKA_CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"
_KAFKA_NAME = "spark-sql-kafka-0-10"
_PACKAGES, _JARS, _IVY = "spark.jars.packages", "spark.jars", "spark.jars.ivySettings"


@dataclass(frozen=True)
class Extras:
    """Packages by their coordinates, jars by their paths, and settings of Spark by name."""

    packages: tuple[str, ...] = ()
    jars: tuple[str, ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(packages: str | None, jars: str | None, conf: Iterable[str]) -> Extras:
        """From the options of the command line: lists with commas, and ``name=value``."""
        return Extras.checked(_listed(packages), _listed(jars), _pairs(conf))

    @staticmethod
    def checked(packages: Sequence[str], jars: Sequence[str], conf: Mapping[str, str]) -> Extras:
        """Raise for what Spark would ignore, or stumble over seconds later."""
        for package in packages:
            if package.count(":") != 2:
                raise SetupError(f"packages: '{package}' is not group:artifact:version")
        for jar in jars:
            if ":" not in jar and not Path(jar).is_file():
                raise SetupError(f"jars: no such file: {jar}")
        for name in conf:
            if not name.startswith("spark."):
                raise SetupError(f"conf: '{name}' is no setting of Spark; its name begins with spark.")
        located = (jar if ":" in jar else str(Path(jar).absolute()) for jar in jars)
        return Extras(tuple(packages), tuple(located), dict(conf))

    def with_kafka(self) -> Extras:
        """The same, with Spark's connector for Kafka unless it is there already."""
        if self.has_kafka:
            return self
        return replace(self, packages=(*self.packages, f"{KAFKA_CONNECTOR}:{version('pyspark')}"))

    @property
    def has_kafka(self) -> bool:
        given = (*self.packages, *self.jars, self.conf.get(_PACKAGES, ""), self.conf.get(_JARS, ""))
        return any(_KAFKA_NAME in one for one in given)

    @property
    def needs_submit(self) -> bool:
        """Whether ``spark-submit`` has to fetch something, or settings apply before Java starts."""
        return bool(self.packages or self.conf or any(":" in jar for jar in self.jars))

    def settings(self) -> dict[str, str]:
        """As settings of Spark."""
        found = {}
        if self.packages:
            found[_PACKAGES] = ",".join(self.packages)
        if self.jars:
            found[_JARS] = ",".join(self.jars)
        if os.environ.get(IVY_VARIABLE):
            found[_IVY] = os.environ[IVY_VARIABLE]
        return {**found, **self.conf}

    def advice(self) -> str:
        """What to do when Spark does not start with all this; empty if it is none of its fault."""
        if not self.packages:
            return ""
        return (
            f"{', '.join(self.packages)} may not be in the registry of Ivy: name another version with "
            f"--packages, pass files with --jars, or set {IVY_VARIABLE} to a file of Ivy settings"
        )


NO_EXTRAS = Extras()


def _listed(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def _pairs(conf: Iterable[str]) -> dict[str, str]:
    found = {}
    for one in conf:
        name, equals, value = one.partition("=")
        if not (name.strip() and equals):
            raise SetupError(f"--conf: '{one}' is not name=value, as in spark.executor.memory=2g")
        found[name.strip()] = value.strip()
    return found

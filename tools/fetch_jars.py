"""Fetches the jars that tests with Avro, a real Kafka broker, databases, HDFS or S3 need, and verifies them.

Arguments are the roles of jars, which go into a cache. ``tests/jars.txt`` lists each one with its checksum.
Maven fetches them from wherever its settings say; nothing is fetched if all are there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LIST = Path(__file__).parents[1] / "tests" / "jars.txt"
_TIMEOUT_S = 600


@dataclass(frozen=True)
class Jar:
    """A jar by its coordinates; ``role`` is avro, broker, connector, jdbc, hdfs or s3."""

    role: str
    coordinates: str
    sha256: str

    @property
    def path(self) -> Path:
        _, artifact, version = self.coordinates.split(":")
        return cache() / self.role / f"{artifact}-{version}.jar"

    @property
    def is_there(self) -> bool:
        return self.path.is_file() and hashlib.sha256(self.path.read_bytes()).hexdigest() == self.sha256


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "headgate" / "jars"


def listed(*roles: str) -> list[Jar]:
    """The jars of some roles."""
    lines = LIST.read_text(encoding="utf-8").splitlines()
    jars = [Jar(*line.split()) for line in lines if line and not line.startswith("#")]
    return [jar for jar in jars if jar.role in roles]


def missing(*roles: str) -> list[Jar]:
    return [jar for jar in listed(*roles) if not jar.is_there]


def fetch(jars: list[Jar]) -> None:
    """Fetch jars one role at a time; raises if one cannot be fetched or is another file."""
    maven = shutil.which("mvn")
    if maven is None:
        raise RuntimeError("Maven is not installed")
    for role in sorted({jar.role for jar in jars}):
        own = [jar for jar in jars if jar.role == role]
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "pom.xml").write_text("".join(_pom(own)), encoding="utf-8")
            command = [maven, "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={folder}/jars"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT_S)
            if done.returncode:
                lines = [line for line in done.stdout.splitlines() if "ERROR" in line]
                raise RuntimeError(f"Maven failed: {lines[0] if lines else done.returncode}")
            for jar in own:
                jar.path.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(Path(folder) / "jars" / jar.path.name, jar.path)
    if wrong := [jar.coordinates for jar in jars if not jar.is_there]:
        raise RuntimeError(f"the checksum of {wrong[0]} is not the one in {LIST.name}")


def _pom(jars: list[Jar]) -> Iterator[str]:
    """Each jar alone: what it depends on is in the list too."""
    yield '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
    yield "<groupId>headgate</groupId><artifactId>jars</artifactId><version>1</version>"
    yield "<packaging>pom</packaging><dependencies>"
    for jar in jars:
        group, artifact, version = jar.coordinates.split(":")
        yield f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        yield f"<version>{version}</version><exclusions><exclusion><groupId>*</groupId>"
        yield "<artifactId>*</artifactId></exclusion></exclusions></dependency>"
    yield "</dependencies></project>"


if __name__ == "__main__":
    try:
        fetch(wanted) if (wanted := missing(*sys.argv[1:])) else None
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        print(f"not all jars are cached, and tests that need them are skipped: {error}", file=sys.stderr)

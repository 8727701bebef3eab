"""File systems of other machines, for tests: an HDFS of one data node, and S3 as moto imitates it.

Tests read and write them by HTTP, without Hadoop.
"""

from __future__ import annotations

import getpass
import json
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest
from tests.cached_jars import cached_jars
from tests.spark.processes import free_ports, java, started

Eventually = Callable[[Callable[[], bool], float], None]
START_TIMEOUT_S = 300.0


class Store(Protocol):
    """A folder of a file system; names are relative to it."""

    address: str
    """As Hadoop knows it."""
    options: list[str]
    """Of commands that use it."""

    def names(self, folder: str) -> list[str]:
        """The files below a folder, and what is below its folders, sorted."""

    def read(self, name: str) -> bytes:
        """The content of a file."""

    def write(self, name: str, content: bytes) -> None:
        """Create a file."""


class Hdfs:
    """An HDFS, by the HTTP interface of its name node."""

    def __init__(self, port: int, http_port: int) -> None:
        self.address = f"hdfs://127.0.0.1:{port}/test"
        self.options: list[str] = []
        self._http = f"http://127.0.0.1:{http_port}/webhdfs/v1/test"

    def _url(self, name: str, operation: str) -> str:
        return f"{self._http}/{urllib.parse.quote(name)}?op={operation}&user.name={getpass.getuser()}"

    def names(self, folder: str) -> list[str]:
        """The files below a folder, and what is below its folders, sorted."""
        try:
            with urllib.request.urlopen(self._url(folder, "LISTSTATUS")) as answer:
                found = json.load(answer)["FileStatuses"]["FileStatus"]
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            return []
        names = []
        for entry in found:
            name = f"{folder}/{entry['pathSuffix']}"
            names += [name] if entry["type"] == "FILE" else self.names(name)
        return sorted(names)

    def read(self, name: str) -> bytes:
        """The content of a file."""
        with urllib.request.urlopen(self._url(name, "OPEN")) as answer:
            return bytes(answer.read())

    def write(self, name: str, content: bytes) -> None:
        """Create a file: the name node tells which data node takes the content."""
        # under another name first, so that no stream reads half of it
        draft = f"drafts/{name}"
        ask = urllib.request.Request(self._url(draft, "CREATE&noredirect=true"), method="PUT")
        with urllib.request.urlopen(ask) as answer:
            location = json.load(answer)["Location"]
        self._put(location, content)
        self._put(self._url(name.rpartition("/")[0], "MKDIRS"))
        self._put(self._url(draft, f"RENAME&destination={urllib.parse.quote(f'/test/{name}')}"))

    def _put(self, url: str, content: bytes = b"") -> None:
        header = {"Content-Type": "application/octet-stream"}
        request = urllib.request.Request(url, content, header, method="PUT")
        urllib.request.urlopen(request).close()


@contextmanager
def hdfs(folder: Path, eventually: Eventually) -> Iterator[Hdfs]:
    """An HDFS of one name node and one data node."""
    jars = cached_jars("hdfs")
    (port, http_port), log = free_ports(2), folder / "hdfs.log"
    settings = (f"-Dtest.build.data={folder}/hdfs", f"-Djava.io.tmpdir={folder}")
    ports = ("-format", "-nnport", str(port), "-httpport", str(http_port), "-datanodes", "1")
    # written once all nodes have started
    details = folder / "hdfs.json"
    places = ("-writeDetails", str(details), "-D", f"hdfs.minidfs.basedir={folder}/hdfs")
    command = java(*settings, "org.apache.hadoop.test.MiniDFSClusterManager", *ports, *places, jars=jars)
    with started(command, log) as process:
        eventually(lambda: process.poll() is not None or details.exists(), START_TIMEOUT_S)
        assert process.poll() is None, log.read_text()[-2000:]
        yield Hdfs(port, http_port)


class S3:
    """A bucket of S3, by the client of its vendor."""

    address = "s3a://test"

    def __init__(self, port: int, jars: list[Path]) -> None:
        # moto comes with this client
        import boto3

        endpoint = f"http://127.0.0.1:{port}"
        access = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
        self._client: Any = boto3.client("s3", endpoint_url=endpoint, **access)
        self._client.create_bucket(Bucket="test")
        settings = {
            "endpoint": endpoint,
            "endpoint.region": "us-east-1",
            "path.style.access": "true",
            "access.key": "test",
            "secret.key": "test",
        }
        self.options = ["--jars", ",".join(map(str, jars))]
        for name, value in settings.items():
            self.options += ["--conf", f"spark.hadoop.fs.s3a.{name}={value}"]

    def names(self, folder: str) -> list[str]:
        """The files below a folder, and what is below its folders, sorted."""
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket="test", Prefix=f"{folder}/")
        found = [entry["Key"] for page in pages for entry in page.get("Contents", [])]
        # Hadoop marks empty folders by objects whose names end so
        return [name for name in found if not name.endswith("/")]

    def read(self, name: str) -> bytes:
        """The content of a file."""
        return bytes(self._client.get_object(Bucket="test", Key=name)["Body"].read())

    def write(self, name: str, content: bytes) -> None:
        """Create a file, which appears whole."""
        self._client.put_object(Bucket="test", Key=name, Body=content)


@contextmanager
def s3(folder: Path, eventually: Eventually) -> Iterator[S3]:
    """An empty bucket on a server of its own."""
    pytest.importorskip("moto.server", reason="moto is not installed; make setup installs it")
    jars, [port], log = cached_jars("s3"), free_ports(1), folder / "s3.log"
    with started([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], log) as process:
        eventually(lambda: process.poll() is not None or f":{port}" in log.read_text(), START_TIMEOUT_S)
        assert process.poll() is None, log.read_text()[-2000:]
        yield S3(port, jars)

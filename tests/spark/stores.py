"""File systems of other machines, for tests: an HDFS of one data node.

Tests look at it by HTTP, without Hadoop.
"""

from __future__ import annotations

import getpass
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

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

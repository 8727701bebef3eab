"""Machines of a cluster, for tests: this one, or namespaces of its network joined by a bridge."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Machine:
    """Where commands run: the address of the machine, and what is put before a command to run it there."""

    address: str = "127.0.0.1"
    prefix: tuple[str, ...] = ()


HERE = Machine()


@dataclass(frozen=True)
class Network:
    """Machines with an address each; the bridge that joins them is on the first one."""

    name: str
    machines: tuple[Machine, ...]

    def _namespace(self, place: int) -> str:
        return f"{self.name}-{place}"

    def processes(self, place: int, text: str = "") -> list[int]:
        """Processes of one machine that have a text in their command."""
        found = map(int, _ip("netns", "pids", self._namespace(place)).split())
        return [process for process in found if text in _command(process)]

    def kill(self, place: int, text: str = "") -> list[int]:
        """Kill processes of one machine, and return them."""
        found = self.processes(place, text)
        for process in found:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        return found

    def unplug(self, place: int) -> None:
        """Cut the cable of one machine: its processes live on, and reach nothing."""
        _ip("-n", self._namespace(0), "link", "set", f"port{place}", "down")

    def set_up(self) -> None:
        """Create the namespaces, each with an interface, and the bridge."""
        hub = self._namespace(0)
        for place, machine in enumerate(self.machines):
            own = self._namespace(place)
            _ip("netns", "add", own)
            _ip("-n", own, "link", "set", "lo", "up")
            if place:
                _ip("link", "add", f"port{place}", "netns", hub, "type", "veth", "peer", "eth0", "netns", own)
                _ip("-n", hub, "link", "set", f"port{place}", "master", "eth0", "up")
            else:
                _ip("-n", hub, "link", "add", "eth0", "type", "bridge")
            _ip("-n", own, "addr", "add", f"{machine.address}/24", "dev", "eth0")
            _ip("-n", own, "link", "set", "eth0", "up")

    def tear_down(self) -> None:
        """Kill all processes, and remove the namespaces."""
        present = _ip("netns", "list").split()
        for place in range(len(self.machines)):
            if self._namespace(place) in present:
                self.kill(place)
                _ip("netns", "delete", self._namespace(place))


@contextmanager
def network(size: int) -> Iterator[Network]:
    """A network of machines that share this machine's disks; skips the test where there can be none."""
    name = f"headgate-{secrets.token_hex(4)}"
    machines = tuple(
        Machine(f"10.86.40.{place + 1}", ("ip", "netns", "exec", f"{name}-{place}")) for place in range(size)
    )
    found = Network(name, machines)
    try:
        found.set_up()
    except FileNotFoundError:
        pytest.skip("no network namespaces here: there is no command ip (iproute2)")
    except subprocess.CalledProcessError as error:
        found.tear_down()
        pytest.skip(f"no network namespaces here: {' '.join(error.cmd)} fails: {error.stderr.strip()}")
    try:
        yield found
    finally:
        found.tear_down()


def _ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=True).stdout


def _command(process: int) -> str:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{process}/cmdline").read_text()
    return ""

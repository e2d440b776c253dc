"""Hosts for tests: network namespaces of this machine, each with an address of its own, joined by a switch.

with Hosts(2) as (head, other):
    place = head.line.start("--node-ip-address", head.address)["address"]
    other.line.join(place, KERNEL_TOKEN=...)
    other.cut()  # as if its cable were pulled
    other.heal()

@on_hosts(2)
def test_mine(hosts):
    ...

This needs Linux, root, and the program `ip` (iproute2); `why_not()` says what is missing, and a test that is `on_hosts`
is then skipped with that reason. `Cluster(faulty_network=True)` needs none of it. Processes and files are those of the
machine: every host has a directory for sessions of its own, so that nobody finds another's.
"""

from __future__ import annotations

import functools
import inspect
import os
import subprocess
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import field
from types import TracebackType
from typing import Any

import pytest

from kernel_spec.dataclass import dataclass
from kernel_testing import programs
from kernel_testing.command_line import CommandLine
from kernel_testing.faults import PATIENCE_SECONDS
from kernel_testing.session import temporary_root

_NETWORK = "10.77.0"


@dataclass(slots=True, eq=False)
class Host:
    """One of them. `line` runs `kernel ...` there, and programs."""

    name: str
    address: str
    line: CommandLine
    port: str = field(repr=False)
    switch: str = field(repr=False)

    def cut(self) -> None:
        """Pull its cable: nothing arrives any more, and nobody is told."""
        _ip("-n", self.switch, "link", "set", self.port, "down")

    def heal(self) -> None:
        """Plug it in again."""
        _ip("-n", self.switch, "link", "set", self.port, "up")

    def reach_only(self, other: Host) -> None:
        """Leave this host no way to any address but that of `other`."""
        _ip("-n", self.name, "addr", "flush", "dev", "eth0")
        _ip("-n", self.name, "addr", "add", f"{self.address}/32", "dev", "eth0")
        _ip("-n", self.name, "route", "add", f"{other.address}/32", "dev", "eth0")

    def listens_at(self) -> list[str]:
        """Return "HOST:PORT" of everything that listens for TCP there (IPv4; IPv6 as it is in /proc)."""
        found = []
        for family in ("tcp", "tcp6"):
            rows = self.run("cat", f"/proc/net/{family}").splitlines()[1:]
            for _, local, _, state, *_ in (row.split() for row in rows):
                if state == "0A":
                    host, port = local.split(":")
                    numbers = [str(int(host[i : i + 2], 16)) for i in (6, 4, 2, 0)] if len(host) == 8 else [host]
                    found.append(f"{'.'.join(numbers)}:{int(port, 16)}")
        return sorted(found)

    def run(self, *command: str) -> str:
        """Run a command there, and return what it printed."""
        done = subprocess.run(
            ["ip", "netns", "exec", self.name, *command],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=True,
        )
        return done.stdout


class Hosts:
    """So many hosts, and the switch between them. A context manager; afterwards all is gone."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._exits = ExitStack()

    def __enter__(self) -> Sequence[Host]:
        with ExitStack() as exits:
            prefix = f"kt{os.getpid()}"
            switch = self._namespace(exits, f"{prefix}s")
            _ip("-n", switch, "link", "add", "bridge", "type", "bridge")
            _ip("-n", switch, "link", "set", "bridge", "up")
            hosts = [self._host(exits, prefix, switch, number) for number in range(1, self._count + 1)]
            self._exits = exits.pop_all()
        return hosts

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exits.close()

    def _host(self, exits: ExitStack, prefix: str, switch: str, number: int) -> Host:
        name = self._namespace(exits, f"{prefix}h{number}")
        port, address = f"port{number}", f"{_NETWORK}.{number}"
        _ip("link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", port, "netns", switch)
        _ip("-n", switch, "link", "set", port, "master", "bridge", "up")
        _ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
        _ip("-n", name, "link", "set", "eth0", "up")
        root = exits.enter_context(temporary_root())
        host = Host(name, address, CommandLine(root, ("ip", "netns", "exec", name)), port, switch)
        exits.callback(host.line.end)
        return host

    def _namespace(self, exits: ExitStack, name: str) -> str:
        _ip("netns", "add", name)
        exits.callback(_ip, "netns", "del", name)
        _ip("-n", name, "link", "set", "lo", "up")
        return name


def why_not() -> str:
    """Return why this machine can't have such hosts, or nothing where it can."""
    try:
        with Hosts(1):
            return ""
    except FileNotFoundError:
        return programs.advice(["ip"])
    except subprocess.SubprocessError as error:
        said = getattr(error, "stderr", "") or str(error)
        return f"namespaces of the network can't be made, which needs root: {' '.join(said.split())}"


def on_hosts(count: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a test so many hosts as its first argument; where there can be none, skip it and say why."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(*arguments: Any, **more: Any) -> None:
            if reason := why_not():
                pytest.skip(f"not tried on separate hosts: {reason}")
            with Hosts(count) as hosts:
                test(hosts, *arguments, **more)

        _, *others = inspect.signature(test).parameters.values()
        run.__signature__ = inspect.Signature(others)  # type: ignore[attr-defined]
        return run

    return decorate


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True)

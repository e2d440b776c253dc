"""Hosts that are reached over SSH at ports of this machine: OpenSSH's server.

A host is a server process with a host key of its own, which listens on 127.0.0.1. Its "machine" is this one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from kernel.testing.faults import wait_until
from kernel.testing.ports import free_port

SERVER = shutil.which("sshd") or "/usr/sbin/sshd"


class SshHost:
    """One host. `options` are those by which the node providers reach it, without its `kinds`."""

    def __init__(self, directory: Path, key: Path, known_hosts: Path) -> None:
        directory.mkdir()
        self._directory = directory
        self._key = key
        self.port = free_port()
        self.name = f"127.0.0.1:{self.port}"
        make_key(directory / "host_key")
        public = (directory / "host_key.pub").read_text().split()
        with open(known_hosts, "a") as known:
            known.write(f"[127.0.0.1]:{self.port} {public[0]} {public[1]}\n")
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start the server and wait until it answers."""
        log = open(self._directory / "log", "ab")  # noqa: SIM115 - the process has it
        self._process = subprocess.Popen(self._command(), stdout=log, stderr=log, start_new_session=True)
        log.close()
        wait_until(self._answers, 60.0, f"the SSH server at port {self.port}")

    def kill(self) -> None:
        """Kill the server and its connections, as when a host is cut off: what it has started lives on."""
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        for pid in [*map(int, children), self._process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def end(self) -> None:
        """End the server, unless it has been killed."""
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def _answers(self) -> bool:
        assert self._process is not None and self._process.poll() is None, (self._directory / "log").read_text()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=5) as connected:
            return connected.recv(4) == b"SSH-"
        return False

    def _command(self) -> list[str]:
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True, mode=0o755)
        configuration = self._directory / "sshd_config"
        configuration.write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self._directory / 'host_key'}\n"
            f"AuthorizedKeysFile {self._key}.pub\nUsePAM no\nStrictModes no\nPasswordAuthentication no\n"
            f"PermitRootLogin prohibit-password\nPidFile none\n"
        )
        return [SERVER, "-D", "-e", "-f", str(configuration)]


class SshHosts:
    """Makes hosts in `directory` that one key opens."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.key = directory / "key"
        self.known_hosts = directory / "known_hosts"
        self.control = directory / "control"
        self.control.mkdir(mode=0o700)
        make_key(self.key)
        self.hosts: list[SshHost] = []

    def add(self) -> SshHost:
        """Start a host more."""
        self.hosts.append(SshHost(self._directory / f"host{len(self.hosts)}", self.key, self.known_hosts))
        return self.hosts[-1]

    def new_control(self) -> str:
        """Return a directory for connections that no other client has opened."""
        return tempfile.mkdtemp(dir=self.control)

    def options(self, **more: Any) -> dict[str, Any]:
        """Return the options by which providers reach these hosts."""
        return {
            "key_file": str(self.key),
            "known_hosts": str(self.known_hosts),
            "control_directory": str(self.control),
            "command": f"{sys.executable} -m kernel.cli.main",
            "start_options": ["--object-store-memory", "64MB"],
            "connect_seconds": 5,
            **more,
        }

    def end(self) -> None:
        """End all servers: connections that the clients keep open end with them."""
        for host in self.hosts:
            host.end()


def make_key(file: Path) -> None:
    """Write a key for SSH into `file`, and its public part beside it."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(file)], check=True)

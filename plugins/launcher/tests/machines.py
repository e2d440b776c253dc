"""Machines for tests: real sshd processes on ports of loopback, each with a home directory of its own.

All are this machine, and the user is the one that runs the tests; so what they must not share is told apart by HOME.
"""

from __future__ import annotations

import getpass
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from kernel.testing import faults

SSHD = "/usr/sbin/sshd"


@dataclass
class SshdMachine:
    """One of them: its port, its home directory, its process, and its directory of programs."""

    port: int
    home: Path
    process: subprocess.Popen[bytes]

    @property
    def entry(self) -> str:
        return f"127.0.0.1:{self.port}"


class Machines:
    """Machines below a directory; `key` is the private key that they let in."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.key = directory / "key"
        self.user = getpass.getuser()
        self.started: list[SshdMachine] = []
        _keygen(self.key)
        Path("/run/sshd").mkdir(exist_ok=True)

    def start(self, name: str, port: int = 0) -> SshdMachine:
        """Start a machine, and return it once it answers."""
        root = self.directory / name
        home, programs = root / "home", root / "bin"
        for each in (home, programs):
            each.mkdir(parents=True, exist_ok=True)
        if not (root / "host_key").exists():
            _keygen(root / "host_key")
        shutil.copy(f"{self.key}.pub", root / "authorized_keys")
        port = port or _free_port()
        path = f"{programs}:{Path(sys.executable).parent}:/usr/bin:/bin"
        (home / ".bash_profile").write_text(f"export PATH={path}\n. ~/.bashrc\n")
        (home / ".bashrc").touch()
        (root / "sshd_config").write_text(
            f"Port {port}\nListenAddress 127.0.0.1\nHostKey {root}/host_key\nPidFile none\n"
            f"AuthorizedKeysFile {root}/authorized_keys\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"
            f"PermitRootLogin yes\nMaxSessions 40\nMaxStartups 40\nSetEnv HOME={home} PYTHONDONTWRITEBYTECODE=1\n"
        )
        with open(root / "log", "ab") as log:
            process = subprocess.Popen(
                [SSHD, "-D", "-e", "-f", str(root / "sshd_config")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        machine = SshdMachine(port, home, process)
        self.started.append(machine)
        faults.wait_until(lambda: _listens(port), faults.PATIENCE_SECONDS, f"{name} to listen at {port}")
        return machine

    def stop(self) -> None:
        """End all."""
        for machine in self.started:
            machine.process.terminate()
            machine.process.wait()


def _keygen(file: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(file)], check=True)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0

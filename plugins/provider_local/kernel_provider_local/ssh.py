"""Run commands on hosts with the system's `ssh`: one connection for each, no question, known host keys only."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kernel_spec.errors import NodeProviderError
from kernel_spec.providers import CREDENTIALS, UNKNOWN

UNREACHABLE = 255
"""The exit code by which `ssh` says that itself has failed, and not the command."""


@dataclass(frozen=True, slots=True)
class SshOutcome:
    """How a command ended. `problem` is the last line of its standard error; `reached` is False if ssh has failed."""

    output: str
    problem: str
    reached: bool
    code: int


@dataclass(frozen=True, slots=True)
class Ssh:
    """How hosts are reached. `connect_seconds` for a connection, `command_seconds` for a short command."""

    user: str = ""
    key_file: str = ""
    known_hosts: str = ""
    options: tuple[str, ...] = ()
    control_directory: str = ""
    connect_seconds: int = 10
    command_seconds: float = 30.0
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(self, host: str, script: str) -> SshOutcome:
        """Run a script of the POSIX shell on a host and return how it ended, within `command_seconds`."""
        # The connection that stays open holds what it was given as standard error: a pipe would never end.
        with tempfile.TemporaryFile() as problems:
            try:
                done = subprocess.run(
                    self.command(host, script), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=problems,
                    timeout=self.command_seconds, start_new_session=True,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                return SshOutcome("", f"no answer within {self.command_seconds:.0f} s", False, UNREACHABLE)
            except OSError as error:
                raise NodeProviderError(f"ssh can't be started: {error}; install an SSH client", code=UNKNOWN) from None
            problems.seek(0)
            lines = problems.read().decode(errors="replace").strip().splitlines()
        output = done.stdout.decode(errors="replace")
        return SshOutcome(output, lines[-1] if lines else "", done.returncode != UNREACHABLE, done.returncode)

    def begin(self, host: str, script: str, secret: str, log: Path, environment: Mapping[str, str]) -> int:
        """Begin to run a script that reads `secret` as its first line, in the background, and return ssh's pid.

        What it prints goes into `log`. `environment` is added to that of ssh here, by which it is known again.
        Raises NodeProviderError where no process can be started.
        """
        try:
            with open(log, "wb") as out:
                process = subprocess.Popen(
                    self.command(host, script), stdin=subprocess.PIPE, stdout=out, stderr=out,
                    env={**os.environ, **environment}, start_new_session=True,
                )  # fmt: skip
            assert process.stdin is not None
            try:
                process.stdin.write(f"{secret}\n".encode())
                process.stdin.close()
            except BrokenPipeError:
                pass  # It has ended already: its log says why.
        except OSError as error:
            raise NodeProviderError(f"ssh can't be started: {error}", code=UNKNOWN) from None
        return process.pid

    def close(self, host: str) -> None:
        """End the open connection to a host, if there is one."""
        command = self.command(host, "")
        subprocess.run(
            [*command[:1], "-O", "exit", *command[1:-1]], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, timeout=self.command_seconds,
        )  # fmt: skip

    def command(self, host: str, script: str) -> Sequence[str]:
        """Return the arguments that run a script on a host."""
        user, name, port = _parts(host)
        user = user or self.user
        options = {
            "BatchMode": "yes",
            "StrictHostKeyChecking": "yes",
            "ConnectTimeout": str(self.connect_seconds),
            "ServerAliveInterval": "5",
            "ServerAliveCountMax": "3",
            "ControlMaster": "auto",
            "ControlPersist": "60",
            "ControlPath": f"{self.control_directory or _control_directory()}/%C",
        }
        if self.known_hosts:
            options["UserKnownHostsFile"] = str(Path(self.known_hosts).expanduser())
        if self.key_file:
            options |= {"IdentityFile": str(Path(self.key_file).expanduser()), "IdentitiesOnly": "yes"}
        found = ["ssh", *self.options, *(part for item in options.items() for part in ("-o", "=".join(item)))]
        found += ["-p", port] if port else []
        return [*found, *(["-l", user] if user else []), "--", name, f"sh -c {shlex.quote(script)}"]


def _parts(host: str) -> tuple[str, str, str]:
    """Return the user, the name and the port of `[USER@]HOST[:PORT]`; "" for what is not there."""
    user, _, name = host.rpartition("@")
    if name.startswith("["):
        name, _, rest = name[1:].partition("]")
        return user, name, rest.removeprefix(":")
    name, _, port = name.partition(":") if name.count(":") == 1 else (name, "", "")
    return user, name, port


def _control_directory() -> str:
    """Return a directory of this user alone, with a short path: that of a socket may have 107 characters."""
    path = Path(f"/tmp/kernel-ssh-{os.getuid()}")
    path.mkdir(mode=0o700, exist_ok=True)
    status = path.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077 or path.is_symlink():
        raise NodeProviderError(f"{path} belongs to others, or others may use it; remove it", code=CREDENTIALS)
    return str(path)

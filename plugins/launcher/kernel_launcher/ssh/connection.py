"""One machine, logged in to once: commands, terminals and files share the connection."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from kernel_launcher.errors import MachineError
from kernel_launcher.plan import SshAccess
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import OptionError

_HOST = re.compile(
    r"\[(?P<six>[0-9A-Fa-f:.]+)\](:(?P<port6>\d+))?|(?P<host>[A-Za-z0-9_.-]+|[0-9A-Fa-f:]+:[0-9A-Fa-f:]+)(:(?P<port>\d+))?"
)
_UNREACHABLE = 255
"""The exit code of ssh itself."""
_AGAIN = (
    "Connection refused",
    "timed out",
    "No route to host",
    "Connection reset",
    "Connection closed",
    "kex_exchange",
)
"""What ssh says of a machine that may only be starting."""
_SECONDS_BETWEEN = 1.0
_IDLE_SECONDS = 600
"""Seconds after which an unused connection ends, should this process be killed before it ends it."""


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended: its exit code, and what it printed."""

    code: int
    output: str
    errors: str


def host_and_port(entry: str, port: int) -> tuple[str, int]:
    """Return the host and the port of "HOST" or "HOST:PORT". Raises OptionError for what is no host."""
    found = _HOST.fullmatch(entry)
    if found is None or entry.startswith("-") or set(entry) <= {"."}:
        raise OptionError(f"{entry!r} is no host: give its name or address, or HOST:PORT for another port of ssh")
    given = found["port6"] or found["port"]
    return found["six"] or found["host"], int(given) if given else port


class SshConnection:
    """A connection to one machine, opened by `open` and ended by `close`.

    `state` is the local directory of the cluster; host keys are pinned there when they are first seen, beside those
    that the user's own known_hosts has. A key that has changed is refused. `alias` is what the key is kept under,
    where an address may be another machine's tomorrow.
    """

    def __init__(self, entry: str, access: SshAccess, state: Path, alias: str = "") -> None:
        self.entry = entry
        self.host, self.port = host_and_port(entry, access.port)
        self._access = access
        self._known = state / "known_hosts"
        self._alias = alias
        digest = hashlib.sha256(f"{state}|{entry}|{access}|{alias}|{os.getpid()}|{id(self)}".encode()).hexdigest()
        self._socket = _sockets() / digest[:16]
        self._open = False

    @property
    def login(self) -> str:
        """Return the command by which a person logs in."""
        return " ".join(["ssh", *self._where()])

    def open(self, seconds: float = 10.0) -> None:
        """Log in; a machine that does not answer yet is tried again for so many seconds.

        Raises MachineError, with what ssh says and what may help.
        """
        if shutil.which("ssh") is None:
            raise MachineError("there is no program `ssh` here; install an SSH client (on Debian: openssh-client)")
        self._known.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        end = time.monotonic() + seconds
        while True:
            said = self._try_open()
            if said is None:
                self._open = True
                return
            if time.monotonic() >= end or not any(word in said for word in _AGAIN):
                raise MachineError(f"{self.entry} can't be logged in to: {_explained(said, self)}")
            time.sleep(_SECONDS_BETWEEN)

    def run(self, command: str, input: bytes | None = None, seconds: float | None = None) -> Finished:
        """Run a command of the shell, and return how it ended. Raises MachineError if the connection breaks."""
        try:
            done = subprocess.run(
                self._command(command), input=b"" if input is None else input, capture_output=True, timeout=seconds
            )
        except subprocess.TimeoutExpired:
            raise MachineError(f"{self.entry}: no answer within {seconds:g} s to: {command[:80]}") from None
        finished = Finished(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))
        if finished.code == _UNREACHABLE and not self._alive():
            raise MachineError(f"the connection to {self.entry} broke: {finished.errors.strip() or 'ssh says nothing'}")
        return finished

    @contextlib.contextmanager
    def pour(self, command: str, receive: bool = False) -> Iterator[subprocess.Popen[bytes]]:
        """Run a command with a pipe to its input (to `receive`: from its output), and wait for it.

        Raises MachineError if it fails.
        """
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(
                self._command(command),
                stdin=subprocess.DEVNULL if receive else subprocess.PIPE,
                stdout=subprocess.PIPE if receive else subprocess.DEVNULL,
                stderr=errors,
            )
            try:
                with contextlib.suppress(BrokenPipeError):
                    yield process
                    if process.stdin is not None:
                        process.stdin.close()
                code = process.wait()
            finally:
                process.kill()
                process.wait()
                for pipe in (process.stdin, process.stdout):
                    if pipe is not None:
                        with contextlib.suppress(BrokenPipeError):
                            pipe.close()
            errors.seek(0)
            if code:
                said = errors.read().decode(errors="replace").strip()
                raise MachineError(f"{self.entry}: copying ended with exit code {code}: {said or 'it says nothing'}")

    def attach(self, command: str, terminal: bool, forward: Sequence[int] = ()) -> int:
        """Run a command with this terminal's input and output, and return its exit code.

        Each port of `forward` leads from this machine to the same port there, for as long as the command runs.
        """
        opened = []
        try:
            for port in forward:
                spoken = ["ssh", "-S", str(self._socket), "-O", "forward", "-L", f"127.0.0.1:{port}:127.0.0.1:{port}"]
                done = subprocess.run([*spoken, self.host], capture_output=True, text=True)
                if done.returncode:
                    raise MachineError(f"port {port} can't be forwarded to {self.entry}: {done.stderr.strip()}")
                opened.append([*spoken[:4], "cancel", *spoken[5:]])
            return subprocess.call(self._command(command, terminal))
        finally:
            for words in opened:
                subprocess.run([*words, self.host], capture_output=True)

    def close(self) -> None:
        """End the connection. May be called more than once."""
        if self._open:
            subprocess.run(["ssh", "-S", str(self._socket), "-O", "exit", self.host], capture_output=True)
            self._open = False

    def _try_open(self) -> str | None:
        """Log in once, and return what ssh says if it fails."""
        with tempfile.TemporaryFile() as errors:
            words = ["ssh", "-fNM", "-o", f"ControlPersist={_IDLE_SECONDS}", *self._options(), *self._where()]
            # A file, not a pipe: the connection outlives this process's child and would hold the pipe open.
            code = subprocess.call(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors)
            errors.seek(0)
            return errors.read().decode(errors="replace").strip() or f"exit code {code}" if code else None

    def _alive(self) -> bool:
        return not subprocess.run(
            ["ssh", "-S", str(self._socket), "-O", "check", self.host], capture_output=True
        ).returncode

    def _command(self, command: str, terminal: bool = False) -> list[str]:
        """Return the words that run a command. Should the connection be gone, they log in anew, as carefully."""
        return ["ssh", "-tt" if terminal else "-T", "-o", "ControlMaster=no", *self._options(), *self._where(), command]

    def _options(self) -> list[str]:
        said = {
            "BatchMode": "yes",
            "ConnectTimeout": "10",
            "ControlPath": str(self._socket),
            "HashKnownHosts": "no",
            "LogLevel": "ERROR",
            "ServerAliveCountMax": "3",
            "ServerAliveInterval": "10",
            "StrictHostKeyChecking": "accept-new",
            "UserKnownHostsFile": f"{_quoted(self._known)} ~/.ssh/known_hosts",
        }
        if self._access.key:
            said["IdentitiesOnly"] = "yes"
        if self._alias:
            said["HostKeyAlias"] = self._alias
        if self._access.proxy_command:
            said["ProxyCommand"] = self._access.proxy_command
        return [word for name, value in said.items() for word in ("-o", f"{name}={value}")]

    def _where(self) -> list[str]:
        words = ["-i", self._access.key] if self._access.key else []
        if self.port != 22:
            words += ["-p", str(self.port)]
        return [*words, f"{self._access.user}@{self.host}" if self._access.user else self.host]


def _explained(said: str, connection: SshConnection) -> str:
    line = " ".join(said.split())
    if "HOST IDENTIFICATION HAS CHANGED" in said or "Host key verification failed" in said:
        return (
            "its host key is not the one that was pinned when it was first logged in to. If the machine was made anew: "
            f"ssh-keygen -R '{connection.host}' -f {connection._known}. Else somebody may be in between"
        )
    if "Permission denied" in said:
        return f"{line}; check the user and the private key that the cluster file names, by: {connection.login}"
    return line


def _quoted(path: Path) -> str:
    return f'"{path}"' if " " in str(path) else str(path)


def _sockets() -> Path:
    """Return the directory for sockets: the user's alone, and short, since paths of sockets are."""
    directory = Path(f"/tmp/kernel-ssh-{os.getuid()}")
    directory.mkdir(mode=0o700, exist_ok=True)
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise MachineError(f"{directory} must be a directory that belongs to you alone; remove it")
    return directory

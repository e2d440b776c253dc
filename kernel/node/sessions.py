"""Session directories: making them, finding the running ones, sweeping what dead ones left.

<temporary>/kernel-<user id>/session_<date>_<time>_<microseconds>_<pid>/
    token        0600, the session's secret
    session.json pid of the agent, whether it stays
    agent.sock   the agent
    sockets/     one per process
    logs/  spill/  packages/
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from kernel.node.processes import is_alive
from kernel.transport.authentication import read_token, write_token
from kernel_spec.errors import UsageError

_SOCKET_PATH_LIMIT = 107
_SOCKET_NAME_BYTES = 26  # "/sockets/" and a hexadecimal process id
_STARTING_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Session:
    """A session on this machine."""

    directory: str
    pid: int
    stays: bool

    @property
    def name(self) -> str:
        """The directory's name."""
        return os.path.basename(self.directory)

    def token(self) -> bytes:
        """Return the session's secret."""
        return read_token(Path(self.directory, "token"))


def root_directory(given: str | None = None) -> str:
    """Return (made if need be) where this user's sessions live; raises UsageError when it is not private."""
    root = _root_path(given)
    try:
        os.makedirs(root, mode=0o700, exist_ok=True)
        status = os.stat(root)
    except OSError as error:
        raise UsageError(f"the session directory {root} can't be used: {error.strerror}; set KERNEL_TMPDIR") from error
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise UsageError(f"{root} must belong to you alone (mode 0700); remove it or set KERNEL_TMPDIR")
    return root


def _root_path(given: str | None = None) -> str:
    base = given or os.environ.get("KERNEL_TMPDIR") or tempfile.gettempdir()
    return os.path.join(base, f"kernel-{os.getuid()}")


def make_session(token: bytes, stays: bool, given: str | None = None) -> str:
    """Make the directory of a new session and return its path; raises UsageError when it can't be made."""
    root = root_directory(given)
    sweep(root)
    name = f"session_{datetime.now():%Y-%m-%d_%H-%M-%S_%f}_{os.getpid()}"
    directory = os.path.join(root, name)
    if len(directory) + _SOCKET_NAME_BYTES > _SOCKET_PATH_LIMIT:
        raise UsageError(
            f"the session directory {directory} is too long for socket paths ({_SOCKET_PATH_LIMIT} characters); "
            "set KERNEL_TMPDIR to a shorter one"
        )
    try:
        _fill(directory, token, stays)
    except OSError as error:
        shutil.rmtree(directory, ignore_errors=True)
        raise UsageError(
            f"the session directory {directory} can't be made: {error.strerror}; "
            "make room there, or set KERNEL_TMPDIR to another place"
        ) from error
    if stays:
        _register(directory)
    return directory


def _fill(directory: str, token: bytes, stays: bool) -> None:
    os.mkdir(directory, 0o700)
    for sub in ("sockets", "logs", "spill", "packages"):
        os.mkdir(os.path.join(directory, sub), 0o700)
    write_token(Path(directory, "token"), token)
    describe(directory, os.getpid(), stays)


def describe(directory: str, pid: int, stays: bool) -> None:
    """Write down which process is the session's agent."""
    path = Path(directory, "session.json")
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps({"pid": pid, "stays": stays}))
    os.replace(temporary, path)


def running_sessions(given: str | None = None) -> list[Session]:
    """Return this user's sessions whose agent lives, newest last."""
    root = root_directory(given)
    found = []
    for name in sorted(os.listdir(root)):
        session = _read(_target(os.path.join(root, name)))
        if session is not None and is_alive(session.pid) and os.path.exists(f"{session.directory}/agent.sock"):
            found.append(session)
    return found


def sweep(root: str) -> None:
    """Remove the directories of sessions that nobody could clean up."""
    for name in os.listdir(root):
        link = os.path.join(root, name)
        directory = _target(link)
        session = _read(directory)
        try:
            young = time.time() - os.stat(directory).st_mtime < _STARTING_SECONDS
        except OSError:
            young = False
        if (session is None and not young) or (session is not None and not is_alive(session.pid)):
            remove(Session(link, 0, False))


def remove(session: Session) -> None:
    """Remove the directory of a session that has ended, and what points there."""
    shutil.rmtree(_target(session.directory), ignore_errors=True)
    for link in (session.directory, os.path.join(_root_path(), session.name)):
        if os.path.islink(link):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(link)


def _target(path: str) -> str:
    """Return where a session is: here, or where the link at `path` points."""
    return os.readlink(path) if os.path.islink(path) else path


def _register(directory: str) -> None:
    """Let a session that lives elsewhere be found where all are looked for, if that place can be used."""
    link = os.path.join(_root_path(), os.path.basename(directory))
    if link != directory:
        with contextlib.suppress(UsageError, OSError):
            root_directory()
            os.symlink(os.path.abspath(directory), link)


def _read(directory: str) -> Session | None:
    try:
        said = json.loads(Path(directory, "session.json").read_text())
        return Session(directory, int(said["pid"]), bool(said["stays"]))
    except (OSError, ValueError, KeyError):
        return None

"""Session directories: making them, finding the running ones, sweeping what dead ones left.

<temporary>/kernel-<user id>/session_<date>_<time>_<microseconds>_<pid>/
    token        0600, the session's secret
    session.json who the agent is, whether it stays, where it spills to
    agent.sock   the agent
    sockets/     one per process
    logs/  spill/  packages/  archives/
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import time
from collections.abc import Mapping, Sequence
from typing import Any

from kernel.node.processes import birth
from kernel.transport.authentication import read_token, write_token
from kernel.transport.credentials import TlsFiles
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import UsageError

_PREFIX = "session_"
_SOCKET_PATH_LIMIT = 107
_SOCKET_NAME_BYTES = 29  # "/sockets/", a hexadecimal process id, ".in"
_STARTING_SECONDS = 60.0
_DESCRIPTION = "session.json"
_KEPT = ("logs", _DESCRIPTION)
"""What is left of a session that stays when its agent has ended, until the next sweep."""


@dataclass(frozen=True, slots=True)
class Session:
    """A session on this machine.

    `pid` is its agent's, and `born` tells that from a later process of the same pid; `spill` is where objects are that
    were spilled, if that is known. `gateway` is where other machines reach it, `head` the gateway of the head that it
    has joined (both "HOST:PORT", or nothing). `ended` says why its agent has ended, if that could say so. `relay` is
    the port by which a remote driver reaches a cluster, nothing where there is a node.
    """

    directory: str
    pid: int
    stays: bool
    born: int = 0
    spill: str = ""
    gateway: str = ""
    head: str = ""
    ended: str = ""
    relay: str = ""

    @property
    def name(self) -> str:
        """The directory's name."""
        return os.path.basename(self.directory)

    def token(self) -> bytes:
        """Return the session's secret."""
        return read_token(os.path.join(self.directory, "token"))

    def is_running(self) -> bool:
        """Return whether its agent lives."""
        return birth(self.pid) == self.born


def root_directory(given: str | None = None) -> str:
    """Return (made if need be) where this user's sessions live; raises UsageError when it is not private."""
    root = _root_path(given)
    try:
        os.makedirs(root, mode=0o700, exist_ok=True)
        private = _is_private(root)
    except OSError as error:
        raise UsageError(f"the session directory {root} can't be used: {error.strerror}; set KERNEL_TMPDIR") from error
    if not private:
        raise UsageError(
            f"{root} must belong to you alone (mode 0700) and be a directory, not a link to one; "
            "remove it or set KERNEL_TMPDIR"
        )
    return root


def _is_private(path: str) -> bool:
    """Return whether `path` is a directory, not a link to one, that its user alone may enter; raises OSError."""
    status = os.lstat(path)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077


def _root_path(given: str | None = None) -> str:
    base = given or os.environ.get("KERNEL_TMPDIR")
    if not base:
        import tempfile  # not in agents, which are told their directory

        base = tempfile.gettempdir()
    return os.path.join(os.path.abspath(base), f"kernel-{os.getuid()}")


def make_session(token: bytes, stays: bool, given: str | None = None) -> str:
    """Make the directory of a new session and return its path; raises UsageError when it can't be made."""
    root = root_directory(given)
    sweep(root)
    seconds, microseconds = divmod(time.time_ns() // 1000, 1_000_000)
    moment = f"{time.strftime('%Y-%m-%d_%H-%M-%S', time.localtime(seconds))}_{microseconds:06d}"
    name = f"{_PREFIX}{moment}_{os.getpid()}"
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
    write_token(os.path.join(directory, "token"), token)
    describe(directory, os.getpid(), stays)


def describe(
    directory: str,
    pid: int,
    stays: bool,
    spill: str = "",
    gateway: str = "",
    tls: TlsFiles | None = None,
    head: str = "",
    relay: str = "",
) -> None:
    """Write down which process is the session's agent, where it keeps spilled objects, and how others reach it.

    `relay` is by what it reaches them, where it is the agent of a remote driver.
    """
    said = {"pid": pid, "stays": stays, "born": birth(pid) or 0, "spill": spill, "gateway": gateway, "head": head}
    said["relay"] = relay
    said["tls"] = tls.paths() if tls is not None else None
    _write_description(directory, said)


def _write_description(directory: str, said: Mapping[str, Any]) -> None:
    path = os.path.join(directory, _DESCRIPTION)
    temporary = path.removesuffix(".json") + ".tmp"
    with open(temporary, "w") as file:
        file.write(json.dumps(said))
    os.replace(temporary, path)


def end(directory: str, reason: str) -> None:
    """The agent of a session that stays ends by itself: keep the logs, and say why, until the next sweep."""
    with contextlib.suppress(OSError, ValueError):  # who asked it to end may have removed the session already
        _write_description(directory, {**_description(directory), "ended": reason})
    clean_up(directory)


def reason_of_end(directory: str) -> str:
    """Return why the agent of a session has ended; nothing if it could not say so, or if the session was removed."""
    session = _read(directory)
    return session.ended if session is not None else ""


def last_ended(given: str | None = None) -> Session | None:
    """Return the latest session whose agent has ended by itself, and said why, since somebody swept."""
    root = root_directory(given)
    sessions = [_read(_target(os.path.join(root, name))) for name in sorted(os.listdir(root), reverse=True)]
    return next((one for one in sessions if one is not None and one.ended and not one.is_running()), None)


def gateway_at(directory: str) -> str:
    """Return where other machines reach the node of a running session ("HOST:PORT"), "" if they can't."""
    return str(_description(directory).get("gateway", ""))


def relay_at(directory: str) -> str:
    """Return by what the agent of a running session reaches all others ("HOST:PORT"), "" if it does directly."""
    return str(_description(directory).get("relay", ""))


def tls_at(directory: str) -> TlsFiles | None:
    """Return what secures the connections between nodes of a running session, None where they are plain."""
    paths = _description(directory).get("tls")
    return TlsFiles(*paths) if paths else None


def _description(directory: str) -> dict[str, Any]:
    with open(os.path.join(directory, _DESCRIPTION)) as file:
        said: dict[str, Any] = json.loads(file.read())
    return said


def running_sessions(given: str | None = None) -> list[Session]:
    """Return this user's sessions whose agent lives, newest last. That of a remote driver is no one else's to join."""
    root = root_directory(given)
    found = []
    for name in sorted(os.listdir(root)):
        session = _read(_target(os.path.join(root, name)))
        if session is None or session.relay or not session.is_running():
            continue
        if os.path.exists(f"{session.directory}/agent.sock"):
            found.append(session)
    return found


def session_at(path: str) -> Session | None:
    """Return the running session whose directory is `path`, None when there is none.

    Raises UsageError for one that others may have put there.
    """
    session = _read(os.path.realpath(path))
    if session is None or not session.is_running():
        return None
    if not _is_private(session.directory):
        raise UsageError(f"the session directory {session.directory} must belong to you alone (mode 0700) to be joined")
    return session


def session_of_cluster(place: str, sessions: Sequence[Session]) -> Session | None:
    """Return the newest of `sessions` that is, or has joined, the head at `place` ("HOST:PORT")."""
    wanted = _number_of(place)
    for session in reversed(sessions):
        if _number_of(session.head or session.gateway) == wanted:
            return session
    return None


def _number_of(place: str) -> str:
    return place.replace("localhost:", "127.0.0.1:")


def sweep(root: str) -> list[str]:
    """Remove what sessions left that nobody could clean up, and return their names; all else in `root` stays."""
    swept = []
    for name in sorted(os.listdir(root)):
        if not name.startswith(_PREFIX):
            continue
        directory = os.path.join(root, name)
        session = _read(_target(directory))
        if not _is_young(directory) if session is None else not session.is_running():
            remove(directory)
            swept.append(name)
    return swept


def clean_up(directory: str) -> None:
    """Remove what a session left whose agent was killed.

    Of one that stays, its logs and what tells that it is dead are kept until the next sweep.
    """
    session = _read(directory)
    if session is None or not session.stays:
        remove(directory)
        return
    left = [name for name in os.listdir(directory) if name not in _KEPT]
    for path in (session.spill, *(os.path.join(directory, name) for name in left)):
        _remove_path(path)


def remove(directory: str) -> None:
    """Remove the directory of a session that has ended, what it spilled elsewhere, and what points there."""
    target = _target(directory)
    session = _read(target)
    if session is not None:
        _remove_path(session.spill)
    shutil.rmtree(target, ignore_errors=True)
    for link in (directory, os.path.join(_root_path(), os.path.basename(directory))):
        if os.path.islink(link):
            _remove_path(link)


def _remove_path(path: str) -> None:
    """Remove a file, a link or a whole directory, or nothing."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _is_young(directory: str) -> bool:
    """Return whether somebody may be about to make a session there."""
    try:
        return time.time() - os.stat(directory).st_mtime < _STARTING_SECONDS
    except OSError:
        return False


def _target(path: str) -> str:
    """Return where a session is: here, or where the link at `path` points."""
    return os.readlink(path) if os.path.islink(path) else path


def _register(directory: str) -> None:
    """Let a session that lives elsewhere be found where all are looked for, if that place can be used."""
    link = os.path.join(_root_path(), os.path.basename(directory))
    if link != directory:
        with contextlib.suppress(UsageError, OSError):
            root_directory()
            os.symlink(directory, link)


def _read(directory: str) -> Session | None:
    try:
        said = _description(directory)
        texts = [str(said.get(name, "")) for name in ("spill", "gateway", "head", "ended", "relay")]
        return Session(directory, int(said["pid"]), bool(said["stays"]), int(said["born"]), *texts)
    except (OSError, ValueError, KeyError, TypeError):
        return None

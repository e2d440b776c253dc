"""Session directories: make them, find running sessions, remove what dead sessions left.

<temporary>/kernel-<user id>/session_<date>_<time>_<microseconds>_<pid>/
    token        0600, the session's secret
    session.json the agent's process id and where that is valid, whether the session stays, where it spills to
    agent.sock   the agent
    sockets/     one per process
    logs/  spill/  packages/  archives/  environments/

A directory of sessions may be shared with other PID namespaces and other hosts. A lock (`session_lock`) shows whether
an agent lives, but only where its process id is valid: sessions of other hosts are never removed or signalled.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kernel_processes.node import session_lock
from kernel_processes.node.session_root import is_private, root_directory, root_path
from kernel_processes.system.pid_namespace import PidNamespace
from kernel_processes.system.processes import birth
from kernel_processes.transport.authentication import read_token, write_token
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import UsageError
from kernel_spec.tls_files import TlsFiles

_PREFIX = "session_"
_SOCKET_PATH_LIMIT = 107
_SOCKET_NAME_BYTES = 29  # "/sockets/", a hexadecimal process id, ".in"
_DESCRIPTION = "session.json"
_KEPT = ("logs", _DESCRIPTION)
"""Files that are kept until the next sweep when the agent of a session that stays has ended."""


@dataclass(frozen=True, slots=True)
class SessionDirectory:
    """Describes a session in a directory that this machine can read.

    `pid` is its agent's, and `born` distinguishes that from a later process of the same pid; `spill` is the directory
    of spilled objects, if it is known. `gateway` is where other machines reach it, `head` the gateway of the head that
    it has joined (both "HOST:PORT" or ""). `ended` is the reason for which its agent has ended, if it was recorded.
    `relay` is the port by which a remote driver reaches a cluster, "" for a node. `pid_namespace` is where `pid` is
    valid, None if that is unknown. `locked` says that a lock shows whether the agent lives, as it does on every file
    system with locks.
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
    pid_namespace: PidNamespace | None = None
    locked: bool = False

    @classmethod
    def started(cls, directory: str, pid: int) -> SessionDirectory:
        """Return the session that this process made in `directory`, and has just started the agent `pid` for."""
        made = _read(directory)
        assert made is not None
        return replace(made, pid=pid, born=birth(pid) or 0)

    @property
    def name(self) -> str:
        """The directory's name."""
        return os.path.basename(self.directory)

    def token(self) -> bytes:
        """Return the session's secret."""
        return read_token(os.path.join(self.directory, "token"))

    def is_running(self) -> bool:
        """Return whether its agent lives, in this PID namespace; one elsewhere is not running here."""
        if self.pid_namespace is not None and not self.pid_namespace.shares_processes_with(PidNamespace.own()):
            return False
        return session_lock.is_held(self.directory) if self.locked else self.has_process()

    def has_process(self) -> bool:
        """Return whether its agent's process is there, for whom is in the same PID namespace."""
        return birth(self.pid) == self.born

    def is_over(self) -> bool:
        """Return whether its agent has certainly ended. For a session elsewhere the answer is no."""
        own = PidNamespace.own()
        here = own.is_known() and self.pid_namespace == own
        return here and self.locked and not session_lock.is_held(self.directory)

    def whereabouts(self) -> str:
        """Return in words where it is if its state can't be known here, else ""."""
        if self.is_running() or self.is_over():
            return ""
        if self.pid_namespace is None:
            return "on a host that it does not name, of an older kernel"
        return self.pid_namespace.seen_from(PidNamespace.own()) or "where nothing shows whether it is over"


def make_session(token: bytes, stays: bool, given: str | None = None) -> str:
    """Make the directory of a new session and return its path; raises UsageError when it can't be made."""
    root = root_directory(given)
    sweep(root)
    directory = _make_directory(root)
    try:
        _fill(directory, token, stays)
    except OSError as error:
        remove(directory)
        raise _impossible(directory, error) from error
    if stays:
        _register(directory)
    return directory


def _make_directory(root: str) -> str:
    """Make a directory that was not there: another PID namespace may have this process id as well."""
    while True:
        seconds, microseconds = divmod(time.time_ns() // 1000, 1_000_000)
        moment = f"{time.strftime('%Y-%m-%d_%H-%M-%S', time.localtime(seconds))}_{microseconds:06d}"
        directory = os.path.join(root, f"{_PREFIX}{moment}_{os.getpid()}")
        if len(directory) + _SOCKET_NAME_BYTES > _SOCKET_PATH_LIMIT:
            raise UsageError(
                f"the session directory {directory} is too long for socket paths ({_SOCKET_PATH_LIMIT} characters); "
                "set KERNEL_TMPDIR to a shorter one"
            )
        try:
            os.mkdir(directory, 0o700)
        except FileExistsError:
            continue
        except OSError as error:
            raise _impossible(directory, error) from error
        return directory


def _impossible(directory: str, error: OSError) -> UsageError:
    return UsageError(
        f"the session directory {directory} can't be made: {error.strerror}; "
        "make room there, or set KERNEL_TMPDIR to another place"
    )


def _fill(directory: str, token: bytes, stays: bool) -> None:
    session_lock.hold(directory)  # Locked before it is described: an undescribed session counts as alive.
    describe(directory, os.getpid(), stays)
    for sub in ("sockets", "logs", "spill", "packages"):
        os.mkdir(os.path.join(directory, sub), 0o700)
    write_token(os.path.join(directory, "token"), token)


def describe(
    directory: str,
    pid: int,
    stays: bool,
    spill: str = "",
    gateway: str = "",
    tls: TlsFiles | None = None,
    head: str = "",
    relay: str = "",
    network: str = "",
) -> None:
    """Write down which process of this PID namespace is the agent, where it spills to, and how others reach it.

    `relay` is by what it reaches them, where it is the agent of a remote driver. `network` is the target of the network
    that leads to them.
    """
    own = PidNamespace.own()
    said = {
        "pid": pid,
        "born": birth(pid) or 0,
        "pid_namespace": [own.host, own.boot, own.number],
        "locked": session_lock.held_descriptor(directory) is not None,
        "stays": stays,
        "spill": spill,
        "gateway": gateway,
        "head": head,
        "relay": relay,
        "network": network,
        "tls": tls.paths() if tls is not None else None,
    }
    _write_description(directory, said)


def _write_description(directory: str, said: Mapping[str, Any]) -> None:
    path = os.path.join(directory, _DESCRIPTION)
    temporary = path.removesuffix(".json") + ".tmp"
    with open(temporary, "w") as file:
        file.write(json.dumps(said))
    os.replace(temporary, path)


def end(directory: str, reason: str) -> None:
    """The agent of a session that stays ends by itself: keep the logs, and say why, until the next sweep."""
    with contextlib.suppress(OSError, ValueError):  # The process that asked it to end may have removed the session.
        _write_description(directory, {**description_of(directory), "ended": reason})
    clean_up(directory)


def reason_of_end(directory: str) -> str:
    """Return why the agent of a session has ended; nothing if it could not say so, or if the session was removed."""
    session = _read(directory)
    return session.ended if session is not None else ""


def last_ended(given: str | None = None) -> SessionDirectory | None:
    """Return the latest session whose agent has ended by itself, and said why, since the last sweep."""
    root = root_directory(given)
    sessions = [_read(_target(os.path.join(root, name))) for name in sorted(os.listdir(root), reverse=True)]
    return next((one for one in sessions if one is not None and one.ended and one.is_over()), None)


def description_of(directory: str) -> dict[str, Any]:
    """Return what the agent of a session in `directory` has written down (see `describe`)."""
    with open(os.path.join(directory, _DESCRIPTION)) as file:
        said: dict[str, Any] = json.loads(file.read())
    return said


def running_sessions(given: str | None = None) -> list[SessionDirectory]:
    """Return this user's sessions whose agent lives here, newest last, except those of remote drivers."""
    root = root_directory(given)
    found = []
    for name in sorted(os.listdir(root)):
        session = _read(_target(os.path.join(root, name)))
        if session is None or session.relay or not session.is_running():
            continue
        if os.path.exists(f"{session.directory}/agent.sock"):
            found.append(session)
    return found


def sessions_elsewhere(given: str | None = None) -> dict[str, str]:
    """Return in words where those of this user's sessions are whose state can't be known here.

    They go by their names. Those that nothing describes are among them.
    """
    root = root_directory(given)
    found = {}
    for name in sorted(os.listdir(root)):
        if name.startswith(_PREFIX):
            session = _read(_target(os.path.join(root, name)))
            found[name] = session.whereabouts() if session is not None else "on a host that nothing names"
    return {name: where for name, where in found.items() if where}


def session_at(path: str) -> SessionDirectory | None:
    """Return the running session whose directory is `path`, None when there is none.

    Raises UsageError for one that others may have put there, and for one elsewhere.
    """
    session = _read(os.path.realpath(path))
    if session is None or session.is_over():
        return None
    if where := session.whereabouts():
        raise UsageError(
            f"session {session.name} can't be joined from here: it is {where}. Programs there can join it, and others "
            'from outside, if it has a head: kernel.init("kernel://HOST:PORT")'
        )
    if not is_private(session.directory):
        raise UsageError(f"the session directory {session.directory} must belong to you alone (mode 0700) to be joined")
    return session


def newest_session(sessions: Sequence[SessionDirectory]) -> SessionDirectory:
    """Return the newest of `sessions`, at least one; if it is a node whose head is among them, too, the head's.

    Other nodes of a cluster may leave it while the head stays.
    """
    newest = sessions[-1]
    return (session_of_cluster(newest.head, sessions) if newest.head else None) or newest


def session_of_cluster(place: str, sessions: Sequence[SessionDirectory]) -> SessionDirectory | None:
    """Return the head at `place` ("HOST:PORT") if it is one of `sessions`, else the newest that has joined it."""
    wanted = _number_of(place)
    of_cluster = [session for session in sessions if _number_of(session.head or session.gateway) == wanted]
    heads = [session for session in of_cluster if not session.head]
    return next(reversed(heads or of_cluster), None)


def _number_of(place: str) -> str:
    return place.replace("localhost:", "127.0.0.1:")


def sweep(root: str) -> list[str]:
    """Remove what dead sessions left, and return their names; all else in `root` stays.

    What may belong to a session that lives elsewhere (`sessions_elsewhere`) stays, too.
    """
    swept = []
    for name in sorted(os.listdir(root)):
        if not name.startswith(_PREFIX):
            continue
        directory = os.path.join(root, name)
        session = _read(_target(directory))
        if session is not None and session.is_over():
            remove(directory)
            swept.append(name)
    return swept


def clean_up(directory: str) -> None:
    """Remove what a session left whose agent was killed.

    The logs and the description of a session that stays are kept until the next sweep.
    """
    session = _read(directory)
    if session is None or not session.stays:
        remove(directory)
        return
    left = [name for name in os.listdir(directory) if name not in _KEPT]
    for path in (session.spill, *(os.path.join(directory, name) for name in left)):
        _remove_path(path)


def missing_files(directory: str) -> str:
    """Return in words that files were removed that a running session can't do without, "" if they were not."""
    try:
        os.stat(os.path.join(directory, "agent.sock"))
    except FileNotFoundError:
        return (
            f"its directory {directory} was removed or emptied while it ran, by a cleaner of temporary files perhaps; "
            "set KERNEL_TMPDIR to a directory that nothing cleans"
        )
    except OSError:
        return ""  # A disk or a network may come back.
    return ""


def make_again(directory: str) -> None:
    """Make the directory of a session that stays, which was removed, for `end` to say there why the session ended."""
    with contextlib.suppress(OSError):
        os.mkdir(directory, 0o700)
        describe(directory, os.getpid(), stays=True)


def remove(directory: str) -> None:
    """Remove the directory of a session that has ended, what it spilled elsewhere, and what points there."""
    target = _target(directory)
    session = _read(target)
    if session is not None:
        _remove_path(session.spill)
    with contextlib.suppress(OSError):
        for name in set(os.listdir(target)) - {_DESCRIPTION}:
            _remove_path(os.path.join(target, name))
    shutil.rmtree(target, ignore_errors=True)  # The description last: a sweep needs it to resume.
    session_lock.let_go(target)
    for link in (directory, os.path.join(root_path(), os.path.basename(directory))):
        if os.path.islink(link):
            _remove_path(link)


def _remove_path(path: str) -> None:
    """Remove a file, a link or a whole directory, or nothing."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _target(path: str) -> str:
    """Return where a session is: here, or where the link at `path` points."""
    return os.readlink(path) if os.path.islink(path) else path


def _register(directory: str) -> None:
    """Let a session that lives elsewhere be found where all are looked for, if that place can be used."""
    link = os.path.join(root_path(), os.path.basename(directory))
    if link != directory:
        with contextlib.suppress(UsageError, OSError):
            root_directory()
            os.symlink(directory, link)


def _read(directory: str) -> SessionDirectory | None:
    try:
        said = description_of(directory)
        texts = [str(said.get(name, "")) for name in ("spill", "gateway", "head", "ended", "relay")]
        where = PidNamespace(*said["pid_namespace"]) if "pid_namespace" in said else None
        locked = bool(said.get("locked"))
        return SessionDirectory(
            directory, int(said["pid"]), bool(said["stays"]), int(said["born"]), *texts, where, locked
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None

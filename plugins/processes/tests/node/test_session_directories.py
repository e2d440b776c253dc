"""Directories of sessions: whose they must be, and which of them are swept."""

from __future__ import annotations

import errno
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernel.commands import Refusal
from kernel.testing.session import temporary_root
from kernel_processes.cli.client import find_session, match_session
from kernel_processes.node import session_lock
from kernel_processes.node.session_root import root_directory
from kernel_processes.node.sessions import (
    SessionDirectory,
    clean_up,
    describe,
    last_ended,
    make_session,
    missing_files,
    remove,
    running_sessions,
    session_at,
    sessions_elsewhere,
    sweep,
)
from kernel_processes.session.engine import find_session as find_session_of_program
from kernel_processes.system.pid_namespace import PidNamespace
from kernel_spec.errors import SessionEndedError, UsageError

TOKEN = bytes(32)


@pytest.fixture
def base() -> Iterator[Path]:
    """A directory with a place for sessions, whose path is short enough for sockets."""
    with temporary_root() as root:
        yield Path(root)


def root_in(base: Path) -> Path:
    """Return where the sessions below `base` are."""
    return base / f"kernel-{os.getuid()}"


def grow_old(path: Path) -> None:
    """Make `path` look as if nobody had touched it for an hour."""
    os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 3600))


def test_a_root_that_is_a_link_is_refused_and_what_it_points_to_is_not_swept(base: Path) -> None:
    victim = base / "victim"
    (victim / "documents").mkdir(parents=True)
    victim.chmod(0o700)
    grow_old(victim / "documents")
    root_in(base).rmdir()
    root_in(base).symlink_to(victim)
    with pytest.raises(UsageError, match="must belong to you alone .* not a link to one; .*KERNEL_TMPDIR"):
        make_session(TOKEN, stays=False, given=str(base))
    assert (victim / "documents").is_dir()


def test_only_what_is_named_like_a_session_is_swept(base: Path) -> None:
    root = Path(root_directory(str(base)))
    over = make_over(base)
    (root / "documents").mkdir()
    (root / "documents" / "session.json").write_text((over / "session.json").read_text())
    assert sweep(str(root)) == [over.name]
    assert os.listdir(root) == ["documents"]


def make_running(base: Path) -> Path:
    """Make a session whose agent, this process, serves."""
    directory = Path(make_session(TOKEN, stays=False, given=str(base)))
    (directory / "agent.sock").touch()
    return directory


def make_over(base: Path) -> Path:
    """Make a session whose agent has died: its lock is free."""
    directory = make_running(base)
    session_lock.let_go(str(directory))
    return directory


def redescribe(directory: Path, **said: object) -> None:
    """Change what is written about a session; None takes an entry away."""
    description = {**json.loads((directory / "session.json").read_text()), **said}
    known = {name: value for name, value in description.items() if value is not None}
    (directory / "session.json").write_text(json.dumps(known))


def test_a_session_lives_as_long_as_its_lock_is_held_whoever_has_its_pid(base: Path) -> None:
    running, dead = make_running(base), make_over(base)
    redescribe(running, pid=dead_process(), born=1)
    assert [session.directory for session in running_sessions(str(base))] == [str(running)]
    assert sweep(str(root_in(base))) == [dead.name]
    assert running.is_dir() and not dead.exists()


OWN = PidNamespace.own()
OTHERS = {
    "another namespace": (
        PidNamespace(OWN.host, OWN.boot, "pid:[1]"),
        "in another PID namespace of this host, such as a container's",
    ),
    "another boot": (
        PidNamespace(OWN.host, "00000000-e0f8-450e-b0f1-864c7dcaf892", OWN.number),
        f"on host {OWN.host} before its last boot, or on another host of that name",
    ),
    "another host": (PidNamespace("far-away", OWN.boot, OWN.number), "on host far-away"),
    "nothing": (None, "on a host that it does not name, of an older kernel"),
}


@pytest.mark.parametrize("whose", OTHERS)
def test_what_is_of_elsewhere_is_neither_swept_nor_joined_nor_listed(base: Path, whose: str) -> None:
    other, where = OTHERS[whose]
    directory = make_over(base)
    ours = [other.host, other.boot, other.number] if other is not None else None
    redescribe(directory, pid_namespace=ours, locked=None if ours is None else True, pid=dead_process(), ended="enough")
    assert sweep(str(root_in(base))) == []
    assert running_sessions(str(base)) == [] and last_ended(str(base)) is None
    assert sessions_elsewhere(str(base)) == {directory.name: where}
    with pytest.raises(UsageError, match=f"{directory.name} can't be joined from here: it is {re.escape(where)}. Prog"):
        session_at(str(directory))
    assert (directory / "token").exists()


def test_a_running_session_of_an_older_kernel_is_told_by_its_pid(base: Path) -> None:
    directory = make_over(base)
    redescribe(directory, pid_namespace=None, locked=None)
    assert [session.directory for session in running_sessions(str(base))] == [str(directory)]
    assert sweep(str(root_in(base))) == [] and sessions_elsewhere(str(base)) == {}


def test_a_session_of_this_namespace_runs_on_when_the_host_gets_another_name(base: Path) -> None:
    directory = make_running(base)
    redescribe(directory, pid_namespace=["renamed", OWN.boot, OWN.number])
    assert [session.directory for session in running_sessions(str(base))] == [str(directory)]


@pytest.mark.parametrize("find", [find_session, find_session_of_program])
def test_a_program_joins_the_head_of_the_newest_session_as_its_other_nodes_may_leave(
    base: Path, monkeypatch: pytest.MonkeyPatch, find: Callable[[str], SessionDirectory]
) -> None:
    monkeypatch.setenv("KERNEL_TMPDIR", str(base))
    old, head, node = (make_running(base) for _ in range(3))
    redescribe(head, gateway="127.0.0.1:6380")
    redescribe(node, gateway="127.0.0.1:7000", head="127.0.0.1:6380")
    assert find("auto").directory == find("localhost:6380").directory == str(head)
    redescribe(node, head="10.0.0.1:6380")
    assert find("auto").directory == find("10.0.0.1:6380").directory == str(node)
    assert find(old.name).directory == str(old)


def test_without_locks_nothing_is_swept_and_a_pid_tells_what_runs(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", no_locks)
    running, dead = make_running(base), make_running(base)
    redescribe(dead, pid=dead_process())
    assert [session.directory for session in running_sessions(str(base))] == [str(running)]
    assert sweep(str(root_in(base))) == []
    assert sessions_elsewhere(str(base)) == {dead.name: "where nothing shows whether it is over"}


def test_a_session_that_is_being_made_is_left_alone(base: Path) -> None:
    root = Path(root_directory(str(base)))
    (root / "session_new").mkdir()
    grow_old(root / "session_new")
    assert sweep(str(root)) == []
    assert sessions_elsewhere(str(base)) == {"session_new": "on a host that nothing names"}


def test_what_points_to_a_place_that_only_others_can_see_is_left_alone(base: Path) -> None:
    root = Path(root_directory(str(base)))
    (root / "session_there").symlink_to(base / "only-in-a-container" / "session_there")
    assert sweep(str(root)) == []
    assert sessions_elsewhere(str(base)) == {"session_there": "on a host that nothing names"}


def test_two_namespaces_make_a_session_of_one_name_and_get_two(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([1_000_000, 1_000_000, 2_000_000])
    monkeypatch.setattr("time.time_ns", lambda: next(moments))
    first = Path(make_session(TOKEN, stays=False, given=str(base)))
    second = Path(make_session(TOKEN, stays=False, given=str(base)))
    assert first != second and (first / "token").exists() and (second / "token").exists()


def test_a_forked_child_holds_no_lock(base: Path) -> None:
    directory = make_running(base)
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        ours.close()
        theirs.send(b"here")
        theirs.recv(1)
        os._exit(0)
    theirs.close()
    assert ours.recv(4) == b"here"
    session_lock.let_go(str(directory))
    held = session_lock.is_held(str(directory))
    ours.close()
    os.waitpid(child, 0)
    assert not held


def test_a_removal_that_was_cut_short_is_finished_by_a_sweep(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = make_over(base)

    def cut_short(path: str, ignore_errors: bool) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("shutil.rmtree", cut_short)
        remove(str(directory))
    assert (directory / "session.json").exists()
    assert sweep(str(root_in(base))) == [directory.name]
    assert not directory.exists()


def test_what_was_removed_of_a_running_session_is_named(base: Path) -> None:
    directory = make_running(base)
    assert missing_files(str(directory)) == ""
    (directory / "agent.sock").unlink()
    assert missing_files(str(directory)) == (
        f"its directory {directory} was removed or emptied while it ran, by a cleaner of temporary files perhaps; "
        "set KERNEL_TMPDIR to a directory that nothing cleans"
    )


def test_a_session_that_lies_elsewhere_is_found_by_its_directory(base: Path) -> None:
    directory = str(make_running(base))
    for find in (find_session_of_program, lambda address: match_session(address, []), find_session):
        assert find(directory).directory == directory
    with pytest.raises(SessionEndedError, match=f"no session answers at '{base}'"):
        find_session_of_program(str(base))
    with pytest.raises(Refusal, match="there is no session"):
        match_session(str(base), [])


def test_a_directory_that_others_may_have_made_is_not_joined(base: Path) -> None:
    directory = make_running(base)
    directory.chmod(0o755)
    with pytest.raises(UsageError, match=r"must belong to you alone \(mode 0700\) to be joined"):
        session_at(str(directory))


def test_the_directory_of_a_session_is_absolute(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(base)
    assert make_session(TOKEN, stays=False, given=".").startswith(str(base))


def make_spilled(base: Path, stays: bool, pid: int) -> tuple[Path, Path]:
    """Make a session with everything in it, that spilled to a place of its own; return both directories."""
    spilled = base / "spilled" / "kernel-spill-1"
    spilled.mkdir(parents=True)
    (spilled / "object").touch()
    directory = make_running(base)
    describe(str(directory), pid, stays, str(spilled))
    return directory, spilled


def test_what_a_dead_session_spilled_elsewhere_is_swept_with_it(base: Path) -> None:
    directory, spilled = make_spilled(base, stays=False, pid=dead_process())
    session_lock.let_go(str(directory))
    assert sweep(str(root_in(base))) == [directory.name]
    assert not directory.exists()
    assert os.listdir(spilled.parent) == []


def dead_process() -> int:
    """Return the pid of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_of_a_session_that_stays_only_what_says_how_it_died_is_kept(base: Path) -> None:
    directory, spilled = make_spilled(base, stays=True, pid=os.getpid())
    clean_up(str(directory))
    assert sorted(os.listdir(directory)) == ["logs", "session.json"]
    assert os.listdir(spilled.parent) == []
    assert os.listdir(root_in(base)) == [directory.name]


def test_of_a_session_of_a_program_nothing_is_kept(base: Path) -> None:
    _, spilled = make_spilled(base, stays=False, pid=os.getpid())
    clean_up(str(next(root_in(base).iterdir())))
    assert os.listdir(root_in(base)) == os.listdir(spilled.parent) == []

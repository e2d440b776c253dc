"""Directories of sessions: whose they must be, and which of them are swept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernel.api.session import _find_session
from kernel.cli.client import find_session, match_session
from kernel.commands import Refusal
from kernel.node.sessions import clean_up, describe, make_session, root_directory, running_sessions, session_at, sweep
from kernel.testing.session import temporary_root
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
    for name in ("documents", "session_of_old"):
        (root / name).mkdir()
        grow_old(root / name)
    sweep(str(root))
    assert os.listdir(root) == ["documents"]


def make_running(base: Path) -> Path:
    """Make a session whose agent, this process, serves."""
    directory = Path(make_session(TOKEN, stays=False, given=str(base)))
    (directory / "agent.sock").touch()
    return directory


def test_a_session_of_a_dead_agent_whose_pid_is_anothers_now_is_not_running_and_is_swept(base: Path) -> None:
    running, dead = make_running(base), make_running(base)
    description = json.loads((dead / "session.json").read_text())
    (dead / "session.json").write_text(json.dumps({**description, "born": description["born"] - 1}))
    assert [session.directory for session in running_sessions(str(base))] == [str(running)]
    sweep(str(root_in(base)))
    assert running.is_dir() and not dead.exists()


def test_a_session_that_lies_elsewhere_is_found_by_its_directory(base: Path) -> None:
    directory = str(make_running(base))
    for find in (_find_session, lambda address: match_session(address, []), find_session):
        assert find(directory).directory == directory
    with pytest.raises(SessionEndedError, match=f"no session answers at '{base}'"):
        _find_session(str(base))
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

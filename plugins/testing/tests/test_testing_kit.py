"""The testing kit finds what it is there to find."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from kernel_testing.faults import kill, paused, slowed, template_of, title_of, wait_until
from kernel_testing.leaks import MARK, marked_processes, no_leaks
from kernel_testing.session import RunningSession, kernel_session, running_session, temporary_root

import kernel

__all__ = ["kernel_session"]  # the fixture


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


# -- leaks ---------------------------------------------------------------------------------------------------------


def test_nothing_left_is_no_leak(tmp_path: Path) -> None:
    with no_leaks(str(tmp_path)):
        (tmp_path / "file").touch()
        (tmp_path / "file").unlink()


def test_a_process_left_behind_is_named(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"1 things were left(.|\n)*processes: pid \d+: .*sleep 71"):
        with no_leaks(seconds=0.1) as mark:
            process = subprocess.Popen(["sleep", "71"], start_new_session=True)
            wait_until(lambda: marked_processes(mark) == [process.pid], 120, "the mark of what has just begun")
    kill(process.pid)
    process.wait()


def test_a_descriptor_left_open_is_named(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"descriptors: \d+ -> .*kept"):
        with no_leaks(seconds=0.1):
            file = open(tmp_path / "kept", "w")  # noqa: SIM115
    file.close()


def test_an_event_descriptor_may_have_another_number_afterwards_but_there_is_none_more() -> None:
    opened = [os.eventfd(0)]
    with no_leaks(seconds=0.1):
        opened.append(os.eventfd(0))
        os.close(opened.pop(0))
    with pytest.raises(AssertionError, match=r"descriptors: \d+\. -> anon_inode:\[eventfd\]"), no_leaks(seconds=0.1):
        opened.append(os.eventfd(0))
    for descriptor in opened:
        os.close(descriptor)


def test_a_thread_left_running_is_named() -> None:
    done = threading.Event()
    with pytest.raises(AssertionError, match="threads: lingers"):
        with no_leaks(seconds=0.1):
            thread = threading.Thread(target=done.wait, name="lingers")
            thread.start()
    done.set()
    thread.join()


def test_shared_memory_left_mapped_is_named() -> None:
    with pytest.raises(AssertionError, match="shared memory: .*kernel-test"):
        with no_leaks(seconds=0.1):
            descriptor = os.memfd_create("kernel-test")
            os.ftruncate(descriptor, 4096)
            memory = mmap.mmap(descriptor, 4096)
            os.close(descriptor)
    memory.close()


def test_a_file_left_in_the_root_is_named(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="files: .*forgotten"):
        with no_leaks(str(tmp_path), seconds=0.1):
            (tmp_path / "forgotten").touch()


def test_what_goes_away_in_time_is_no_leak(tmp_path: Path) -> None:
    with no_leaks(str(tmp_path), seconds=120):
        path = tmp_path / "late"
        path.touch()
        timer = threading.Timer(0.1, path.unlink)
        timer.start()


def test_the_error_of_the_block_comes_through() -> None:
    with pytest.raises(ZeroDivisionError):
        with no_leaks():
            raise ZeroDivisionError
    assert MARK not in os.environ


# -- faults --------------------------------------------------------------------------------------------------------


@pytest.fixture
def counting(tmp_path: Path) -> subprocess.Popen[bytes]:
    """A process that is busy all the time."""
    return subprocess.Popen([sys.executable, "-c", "while True: pass"])


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_paused_process_stands_still_and_goes_on(counting: subprocess.Popen[bytes]) -> None:
    with paused(counting.pid):
        wait_until(lambda: state_of(counting.pid) == "T", 120, "the stop")
    wait_until(lambda: state_of(counting.pid) == "R", 120, "the going on")
    kill(counting.pid)
    assert counting.wait() == -9


def test_a_slowed_process_gets_its_share(counting: subprocess.Popen[bytes]) -> None:
    wait_until(lambda: processor_seconds(counting.pid) > 0, 120, "its start")
    with slowed(counting.pid, 0.2):
        before, begun = processor_seconds(counting.pid), time.monotonic()
        wait_until(lambda: time.monotonic() - begun > 0.7, 120, "some time")
        share = (processor_seconds(counting.pid) - before) / (time.monotonic() - begun)
    assert share < 0.6
    assert state_of(counting.pid) != "T", "it goes on afterwards"
    kill(counting.pid)
    counting.wait()


def test_a_share_must_be_one() -> None:
    for share in (0, -1, 1.5):
        with pytest.raises(ValueError, match="a share of its time"):
            with slowed(os.getpid(), share):
                raise AssertionError("never gets here")


def test_waiting_says_what_did_not_happen() -> None:
    with pytest.raises(AssertionError, match=r"the end of time did not happen within 0\.05 s"):
        wait_until(lambda: False, 0.05, "the end of time")


def test_a_process_that_is_gone_has_no_title_and_no_template() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert title_of(process.pid) == ""
    with pytest.raises(AssertionError, match="has no template process"):
        template_of(process.pid)


# -- sessions ------------------------------------------------------------------------------------------------------


@kernel.remote
def pid() -> int:
    return os.getpid()


def test_the_fixture_is_a_running_session(kernel_session: RunningSession) -> None:
    worker = kernel.get(pid.remote())
    assert worker in kernel_session.workers()
    assert title_of(kernel_session.agent) == "kernel: agent"
    assert title_of(kernel_session.template) == "kernel: templat"
    assert kernel_session.directory.startswith(kernel_session.root)
    assert len(kernel_session.sockets()) >= 3
    assert kernel_session.log() == ""


def test_a_session_that_leaves_something_fails() -> None:
    with pytest.raises(AssertionError, match="left behind(.|\n)*forgotten"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("kernel_testing.leaks.no_leaks.__wrapped__.__defaults__", (None, 0.2))
            with running_session(num_cpus=1) as session:
                Path(session.root, "forgotten").touch()
    assert not kernel.is_initialized()


def test_options_reach_the_session() -> None:
    with running_session(num_cpus=3, resources={"spoon": 2}):
        assert kernel.cluster_resources()["CPU"] == 3
        assert kernel.cluster_resources()["spoon"] == 2


def test_a_root_is_private_and_goes_away() -> None:
    with temporary_root() as root:
        assert os.stat(root).st_mode & 0o777 == 0o700
        assert len(root) < 40
    assert not os.path.exists(root)

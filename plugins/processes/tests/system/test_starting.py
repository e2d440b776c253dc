"""Where the system has no room for one more thread, who wanted one does the work itself: nothing waits for ever."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernel_processes.system.daemon_pool import DaemonPool
from kernel_processes.system.log_writer import LogWriter
from kernel_processes.system.rotating_file import RotatingFile
from kernel_processes.system.starting import begin_thread, why_no_process
from kernel_processes.transport.background import Background
from kernel_processes.transport.reactor import Reactor


@pytest.fixture
def no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)


@pytest.fixture
def reactor() -> Iterator[Reactor]:
    reactor = Reactor()
    yield reactor
    reactor.close()


@pytest.mark.usefixtures("no_room")
def test_there_is_no_thread_where_there_is_no_room() -> None:
    assert begin_thread(lambda: None, "test") is None


def test_a_thread_does_its_work() -> None:
    done = threading.Event()
    thread = begin_thread(done.set, "test")
    assert thread is not None and thread.daemon and thread.name == "test"
    assert done.wait(120.0)
    thread.join()


@pytest.mark.usefixtures("no_room")
def test_work_beside_a_loop_is_done_at_once(reactor: Reactor) -> None:
    background, told = Background(reactor, "test"), []
    for number in (1, 2):
        background.do(lambda number=number: number * 10, told.append)  # type: ignore[misc]
        reactor.poll(0.0)
    background.close(1.0)
    assert told == [10, 20]


@pytest.mark.usefixtures("no_room")
def test_a_log_is_written_by_who_writes(tmp_path: Path) -> None:
    writer = LogWriter(RotatingFile(str(tmp_path / "log"), 1000, 2))
    writer.write("one\n")
    writer.write("two\n")
    assert (tmp_path / "log").read_text() == "one\ntwo\n"
    writer.close()


@pytest.mark.usefixtures("no_room")
def test_spilling_and_transfers_are_done_at_once(reactor: Reactor) -> None:
    done: list[object] = []
    spilling, transfers = DaemonPool(2, "spill", reactor.clock), Background(reactor, "test", 2)
    works: list[Callable[[], object]] = [
        lambda: spilling.begin(lambda: done.append("spilled")),
        lambda: spilling.begin(lambda: done.append("spilled again")),
        lambda: transfers.do(lambda: "sent", done.append),
        lambda: transfers.do(lambda: "sent again", done.append, urgent=True),
    ]
    for work in works:
        work()
        reactor.poll(0.0)
    assert done == ["spilled", "spilled again", "sent", "sent again"]
    spilling.close(1.0)
    transfers.close()


def test_a_process_that_there_is_no_room_for_is_explained() -> None:
    full = BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
    assert why_no_process(full).startswith("Resource temporarily unavailable: this user may have no more processes")
    assert why_no_process(FileNotFoundError(errno.ENOENT, "No such file")) == "No such file"

"""A log that nobody waits for: in order, within its room, and honest about what a slow disk did not take."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from kernel_processes.cli.log_files import parse
from kernel_processes.node.log_service import LogService
from kernel_processes.system import log_writer
from kernel_processes.system.log_writer import LogWriter
from kernel_processes.system.rotating_file import RotatingFile
from kernel_processes.transport.reactor import Reactor

SECONDS = 120.0


class SlowFile(RotatingFile):
    """A file on a disk that takes nothing before it is told to."""

    def __init__(self, path: str) -> None:
        super().__init__(path, 1 << 30, 1)
        self.asked, self.go = threading.Event(), threading.Event()

    def write(self, text: str) -> None:
        self.asked.set()
        assert self.go.wait(SECONDS)
        super().write(text)


def test_what_was_handed_over_is_written_in_order(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = LogWriter(RotatingFile(str(path), 1 << 20, 2))
    lines = [f"line {number}\n" for number in range(5000)]
    for line in lines:
        log.write(line)
    log.close()
    assert path.read_text() == "".join(lines)


def test_files_stay_within_their_room(tmp_path: Path) -> None:
    log = LogWriter(RotatingFile(str(tmp_path / "log"), 1000, 3))
    for number in range(500):
        log.write(f"a line of some length, number {number:06}\n")
    log.close()
    files = sorted(tmp_path.iterdir())
    assert len(files) <= 3
    assert all(file.stat().st_size <= 1000 for file in files)


def test_a_slow_disk_makes_nobody_wait_and_what_it_does_not_take_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_writer, "WAITING_CHARACTERS", 100)
    file = SlowFile(str(tmp_path / "log"))
    log = LogWriter(file)
    log.write("first\n")
    assert file.asked.wait(SECONDS)
    for number in range(30):
        log.write(f"line {number:02} x\n")
    file.go.set()
    log.close()
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines == [
        "first",
        *(f"line {number:02} x" for number in range(10)),
        "20 lines were left out: the disk did not take them in time",
    ]


def test_what_was_left_out_of_workers_output_can_be_read_as_a_line(tmp_path: Path) -> None:
    reactor = Reactor()
    service: Any = LogService(reactor, str(tmp_path), lambda worker: (1, "f"), lambda *lines: None)
    line = parse(service._file._note(7))
    assert line is not None
    assert line.text == "7 lines were left out: the disk did not take them in time"
    service.close()
    reactor.close()


def test_a_log_that_says_nothing_has_no_thread_and_no_file(tmp_path: Path) -> None:
    before = threading.active_count()
    log = LogWriter(RotatingFile(str(tmp_path / "log"), 1000, 2))
    assert threading.active_count() == before
    log.close()
    assert list(tmp_path.iterdir()) == []

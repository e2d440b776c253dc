"""What workers wrote last: known when one dies, and forgotten after."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernel_processes.node.log_service import LogService
from kernel_processes.transport.reactor import Reactor


@pytest.fixture
def service(tmp_path: Path) -> Iterator[LogService]:
    reactor = Reactor()
    service = LogService(reactor, str(tmp_path), lambda worker: (1, "f"), lambda worker, name, stream, lines: None)
    yield service
    service.close()
    reactor.close()


def write_last_words(ends: list[int], words: bytes) -> None:
    out, errors = ends
    os.write(errors, words + b"\n")
    os.close(out)
    os.close(errors)


def test_the_last_words_of_the_hundredth_worker_are_known(service: LogService) -> None:
    long_lived = service.open(b"long lived")
    for number in range(100):
        worker = b"worker%d" % number
        write_last_words(service.open(worker), worker)
        assert service.tail(worker) == [worker.decode()]
    for number in range(100):
        write_last_words(service.open(b"never asked %d" % number), b"nobody asks")
    service.drain()
    write_last_words(long_lived, b"the end of a long life")
    assert service.tail(b"long lived") == ["the end of a long life"]


def test_last_words_are_forgotten_when_they_were_told_and_when_others_came_after(service: LogService) -> None:
    write_last_words(service.open(b"told"), b"told")
    assert service.tail(b"told") == ["told"]
    assert service.tail(b"told") == []
    write_last_words(service.open(b"first"), b"first")
    write_last_words(service.open(b"second"), b"second")
    service.drain()
    for number in range(63):
        write_last_words(service.open(b"later%d" % number), b"later")
    service.drain()
    assert service.tail(b"first") == []
    assert service.tail(b"second") == ["second"]


def test_only_standard_error_counts_and_only_its_last_lines(service: LogService) -> None:
    out, errors = service.open(b"worker")
    os.write(out, b"to output\n")
    os.write(errors, b"".join(b"line %d\n" % number for number in range(70)))
    assert service.tail(b"worker") == [f"line {number}" for number in range(10, 70)]
    os.close(out)
    os.close(errors)

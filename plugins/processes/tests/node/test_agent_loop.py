"""The agent's loop: what fails in it is logged, and the session goes on."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernel.testing.leaks import count_descriptors
from kernel_processes.node.agent import Agent
from kernel_processes.node.log_service import LogService
from kernel_processes.system.descriptor_limit import check_room, describe_shortage
from kernel_processes.transport.reactor import Reactor


def out_of_descriptors() -> Any:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def test_a_timer_that_raises_is_logged_and_the_next_one_runs() -> None:
    reactor = Reactor()
    logged: list[str] = []
    agent: Any = SimpleNamespace(
        reactor=reactor,
        _finishing=[lambda: logged.append("delivered")],
        log=SimpleNamespace(exception=logged.append),
    )
    reactor.call_later(0.0, out_of_descriptors)
    reactor.call_later(0.0, lambda: logged.append("next"))
    while "next" not in logged:
        Agent.turn(agent, 1.0)
    assert logged == ["something failed in the node agent", "next", "delivered"]
    reactor.close()


def test_a_worker_has_room_as_long_as_others_can_still_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda which: (100, 4096))
    check_room(60)
    with pytest.raises(OSError, match="Too many open files") as caught:
        check_room(70)
    text = (
        "need file descriptors (Too many open files: the node agent may have 100); start the session where `ulimit -n`"
    )
    assert text in describe_shortage(caught.value)


def test_pipes_that_can_not_be_had_leave_nothing_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reactor = Reactor()
    service = LogService(reactor, str(tmp_path), lambda worker: None, lambda worker, name, stream, lines: None)
    before, watched = count_descriptors(), reactor.watched
    pipes = iter([os.pipe])
    monkeypatch.setattr(os, "pipe", lambda: next(pipes, out_of_descriptors)())
    with pytest.raises(OSError, match="Too many open files"):
        service.open(b"worker")
    assert (count_descriptors(), reactor.watched) == (before, watched)
    assert service.tail(b"worker") == []
    service.close()
    reactor.close()

"""The head as a child of an agent: which of its deaths are followed by another, and which end the session."""

from __future__ import annotations

import io
import os
import pickle
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernel_processes.node import head_child
from kernel_processes.node.failed_starts import FAILED_STARTS, KILLED_STARTS_SECONDS
from kernel_processes.node.head_child import LOOK_SECONDS, RETRY_SECONDS, HeadChild
from kernel_processes.transport.reactor import Reactor
from kernel_spec.errors import MetadataError, PluginError

AWAY_SECONDS = 30.0


class Head:
    """Stands in for a process: the test says what it reports, and how it ends."""

    pid = 7

    def __init__(self, writer: int) -> None:
        self.stdin = io.BytesIO()
        self.code: int | None = None
        self._writer = writer

    def poll(self) -> int | None:
        return self.code

    def serves(self, error: Exception | None = None) -> None:
        os.write(self._writer, pickle.dumps(error))
        os.close(self._writer)

    def dies(self, code: int = -signal.SIGKILL, reported: bool = True) -> None:
        if not reported:
            os.close(self._writer)
        self.code = code


class Agent:
    """The loop of an agent whose head this is, with a clock of the test's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, directory: Path, durable: bool = True) -> None:
        (directory / "logs").mkdir()
        self.now = 1000.0
        self.heads: list[Head] = []
        self.errors: list[int] = []
        """What each was to write its errors to."""
        self.ended: list[str] = []
        self.reactor = Reactor(lambda: self.now)
        monkeypatch.setattr(head_child, "start_child", self._start)
        config: Any = SimpleNamespace(directory=str(directory), head_away_seconds=AWAY_SECONDS)
        self.child = HeadChild(config, "a.head")
        self.child.supervise(self.reactor, durable, self.ended.append)

    @property
    def head(self) -> Head:
        return self.heads[-1]

    def _start(self, module: str, config: Any, errors: int) -> tuple[Any, int]:
        self.errors.append(errors)
        reader, writer = os.pipe()
        self.heads.append(Head(writer))
        if len(self.heads) == 1:
            self.head.serves()
        return self.head, reader

    def look(self, seconds: float = LOOK_SECONDS) -> int:
        """Let time go by, and return how many heads there were."""
        self.now += seconds
        for _ in range(3):  # what the head says, and what is due
            self.reactor.poll(0.0)
        return len(self.heads)

    def next_dies(self, code: int = -signal.SIGKILL) -> int:
        """Let the head that is starting die before it serves; return how many there were."""
        self.head.dies(code, reported=False)
        self.look()
        return self.look()


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Agent:
    return Agent(monkeypatch, tmp_path)


def test_heads_that_are_killed_before_they_serve_are_replaced_for_a_minute(agent: Agent) -> None:
    agent.head.dies()
    assert agent.look() == 2
    for number in range(3, 3 + 3 * FAILED_STARTS):
        assert agent.next_dies() == number
    assert agent.ended == []
    agent.look(KILLED_STARTS_SECONDS)
    agent.next_dies()
    [reason] = agent.ended
    assert reason.startswith("every head of the last 61 s was killed before it was up, the last one with signal 9")


def test_a_head_that_serves_ends_the_count(agent: Agent) -> None:
    agent.head.dies()
    agent.look()
    for _ in range(3):
        agent.next_dies()
        agent.look(KILLED_STARTS_SECONDS / 2)
        agent.head.serves()
        agent.look()
        agent.head.dies()
        agent.look()
    assert agent.ended == []


@pytest.mark.parametrize("code", [1, -signal.SIGSEGV])
def test_so_many_that_end_by_themselves_before_they_serve_end_the_session(agent: Agent, code: int) -> None:
    agent.head.dies(code)  # it had served: that does not count
    assert agent.look() == 2
    for number in range(3, 2 + FAILED_STARTS):
        assert agent.next_dies(code) == number
    assert agent.ended == []
    assert agent.next_dies(code) == 1 + FAILED_STARTS
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    [reason] = agent.ended
    assert reason.startswith(f"{FAILED_STARTS} heads in a row did not come up, the last one with {how}; look at")
    assert reason.endswith("/logs/head.err")


def test_one_that_says_why_it_can_not_start_counts_too(agent: Agent) -> None:
    agent.head.dies()
    agent.look()
    for _ in range(FAILED_STARTS):
        agent.head.serves(PluginError("no scheduler"))
        agent.look()
        agent.head.dies(1)
        agent.look()
    assert len(agent.ended) == 1


def test_those_without_their_store_are_replaced_as_long_as_nodes_look_for_a_head(agent: Agent) -> None:
    agent.head.dies()
    agent.look()
    begun = agent.now
    while agent.now - begun < AWAY_SECONDS - RETRY_SECONDS:
        before = len(agent.heads)
        agent.head.serves(MetadataError("the disk is full"))
        agent.look()
        agent.head.dies(1)
        assert agent.look() == before, "not at once"
        assert agent.look(RETRY_SECONDS) == before + 1
        assert agent.ended == []
    agent.head.serves(MetadataError("the disk is full"))
    agent.look()
    agent.head.dies(1)
    agent.look(AWAY_SECONDS)
    [reason] = agent.ended
    assert reason.endswith("no other could be started: the disk is full")


def test_its_standard_error_stays_open_for_the_next_one(agent: Agent) -> None:
    first, second = agent.errors[0], (agent.head.dies(), agent.look(), agent.errors[-1])[-1]
    assert isinstance(first, int) and first == second and len(agent.errors) == 2


def test_one_that_keeps_nothing_is_not_replaced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    agent = Agent(monkeypatch, tmp_path, durable=False)
    agent.head.dies()
    assert agent.look() == 1
    assert agent.ended == [
        "the head died (signal 9), and its metadata store is not durable, so no other head can take over"
    ]

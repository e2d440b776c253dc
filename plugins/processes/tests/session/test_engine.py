"""A session of many processes: what becomes of the agent that was started for it."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kernel_processes.session.engine import ProcessesSession


class Agent:
    """A node agent that ends when it is let go of, or only when it is killed."""

    def __init__(self, *, hangs: bool = False) -> None:
        self.stdin = io.BytesIO()
        self.hangs = hangs
        self.happened: list[str] = []

    def wait(self, timeout: float | None = None) -> int:
        if self.hangs and timeout is not None:
            raise subprocess.TimeoutExpired("agent", timeout)
        self.happened.append("waited")
        return 0

    def kill(self) -> None:
        self.happened.append("killed")


@pytest.fixture
def let_go(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The agents that were let go of."""
    gone: list[Any] = []
    monkeypatch.setattr("kernel_processes.system.children.let_go", gone.append)
    return gone


@pytest.mark.parametrize(("hangs", "happened"), [(False, ["waited"]), (True, ["killed", "waited"])])
def test_the_agent_of_a_session_ends_with_it(
    hangs: bool, happened: list[str], let_go: list[Any], tmp_path: Path
) -> None:
    agent, directory = Agent(hangs=hangs), tmp_path / "session"
    directory.mkdir()
    runtime: Any = None
    session = ProcessesSession(runtime, agent, str(directory))  # type: ignore[arg-type]
    session.end()
    assert let_go == [agent] and agent.happened == happened
    assert not directory.exists()


def test_a_session_that_was_joined_is_left_running(let_go: list[Any]) -> None:
    runtime: Any = None
    session = ProcessesSession(runtime)
    session.forget()
    session.end()
    assert let_go == []


def test_a_forked_child_closes_the_pipe_that_keeps_the_agent_alive(let_go: list[Any]) -> None:
    agent, runtime = Agent(), None
    session = ProcessesSession(runtime, agent, "/nowhere")  # type: ignore[arg-type]
    session.forget()
    assert agent.stdin.closed
    assert let_go == [] and agent.happened == []

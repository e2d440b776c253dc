"""The agent's end of the template: how much it asks for at once, and which losses speak against another try."""

from __future__ import annotations

import marshal
import os
import signal
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from kernel.testing.leaks import count_descriptors
from kernel_engine.messages.named_messages import number_of, packed
from kernel_processes.node import template_process
from kernel_processes.node.template_link import ASKED_AT_ONCE, TemplateLink
from kernel_processes.node.template_messages import (
    ForkFailed,
    ForkWorker,
    LoadSession,
    WorkerExited,
    WorkerForked,
    receive_message,
)
from kernel_processes.transport.reactor import Reactor


class Template:
    """Stands in for the process: the test reads what it is told and answers in its place."""

    pid = 7
    exit_code = 1
    started: list[Template] = []

    def __init__(self, command: list[str], pass_fds: list[int], stdin: int) -> None:
        self.link = socket.socket(fileno=os.dup(pass_fds[0]))
        self.link.setblocking(False)
        self.started.append(self)

    def wait(self, timeout: float = 0) -> int:
        self.link.close()
        return self.exit_code

    def told(self) -> list[Any]:
        """Return all that it was told and has not read yet."""
        found = []
        while True:
            try:
                received = receive_message(self.link)
            except BlockingIOError:
                return found
            assert received is not None
            found.append(received[0])
            for descriptor in received[1]:
                os.close(descriptor)

    def answer(self, said: tuple[Any, ...]) -> None:
        self.link.send(marshal.dumps(packed(said)))


class Agent:
    """The callbacks of a link, and what they were called with."""

    def __init__(self) -> None:
        self.reactor = Reactor()
        self.arrived: list[tuple[Any, ...]] = []
        self.link = TemplateLink(
            self.reactor,
            [],
            lambda *forked: self.arrived.append(forked),
            lambda *failed: self.arrived.append(failed),
            lambda *exited: self.arrived.append(exited),
            lambda: self.arrived.append(("lost",)),
        )
        self.link.load({})

    def fork(self, id: bytes) -> None:
        reader, writer = os.pipe()
        os.close(reader)
        self.link.fork({"id": id}, [writer])


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Agent]:
    monkeypatch.setattr(template_process.subprocess, "Popen", Template)
    monkeypatch.setattr(Template, "started", [])
    made = Agent()
    yield made
    made.link.close()
    made.reactor.close()


def test_only_so_much_is_asked_for_that_asking_never_blocks(agent: Agent) -> None:
    before = count_descriptors()
    (template,) = Template.started
    ids = [b"worker%d" % number for number in range(ASKED_AT_ONCE + 2)]
    for id in ids:
        agent.fork(id)
    assert [value["id"] for kind, value in template.told() if kind == number_of(ForkWorker)] == ids[:ASKED_AT_ONCE]
    for answer in (WorkerForked(ids[0], 1), WorkerExited(1, 0), ForkFailed(ids[1], "no room")):
        template.answer(answer)
        agent.reactor.poll(1.0)
    assert agent.arrived == [(ids[0], 1), (1, 0), (ids[1], "no room")]
    assert [value["id"] for _, value in template.told()] == ids[ASKED_AT_ONCE:]
    assert count_descriptors() == before


def test_what_was_not_asked_for_is_forgotten_with_its_template_and_the_next_is_told_of_the_session(
    agent: Agent,
) -> None:
    before = count_descriptors()
    for number in range(ASKED_AT_ONCE + 2):
        agent.fork(b"worker%d" % number)
    Template.started[0].link.close()
    agent.reactor.poll(1.0)
    assert agent.arrived == [("lost",)]
    agent.fork(b"another")
    assert [kind for kind, _ in Template.started[1].told()] == [number_of(LoadSession), number_of(ForkWorker)]
    assert count_descriptors() == before


def test_templates_that_end_by_themselves_are_counted_until_one_forks(agent: Agent) -> None:
    def lose(code: int) -> int:
        Template.started[-1].exit_code = code
        Template.started[-1].link.close()
        agent.reactor.poll(1.0)
        agent.link.start()
        return agent.link.failures

    assert [lose(1), lose(-signal.SIGSEGV), lose(-signal.SIGKILL)] == [1, 2, 2]
    Template.started[-1].answer(WorkerForked(b"worker", 8))
    agent.reactor.poll(1.0)
    assert lose(0) == 1


def test_a_template_that_can_not_be_started_fails_the_worker_and_says_why(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any, **named: Any) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    Template.started[0].link.close()
    agent.reactor.poll(1.0)
    monkeypatch.setattr(template_process.subprocess, "Popen", refuse)
    agent.fork(b"worker")
    assert agent.arrived[1:] == [
        (b"worker", "the template could not be asked for it: Resource temporarily unavailable"),
    ]

"""A worker that dies before it has joined, when its template is dead too: nobody but the agent can notice."""

from __future__ import annotations

import os
import signal
import time

import kernel
from kernel.testing.faults import kill, workers_of
from kernel.testing.session import RunningSession, kernel_session  # noqa: F401 - the fixture


def new_worker(agent: int, known: set[int]) -> int:
    """Stop a worker as soon as it is there, most likely before it has joined, and return it."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        for pid in set(workers_of(agent)) - known:
            os.kill(pid, signal.SIGSTOP)
            return pid
    raise AssertionError("no worker was started within 10 s")


def test_a_worker_that_dies_with_its_template_is_replaced(kernel_session: RunningSession) -> None:  # noqa: F811
    @kernel.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)
    class Answer:
        def give(self) -> int:
            return 42

    agent = kernel_session.agent
    for _ in range(6):
        known = set(workers_of(agent))
        actors = [Answer.remote() for _ in range(3)]
        worker = new_worker(agent, known)
        template = kernel_session.template
        kill(template)
        kill(worker)
        assert kernel.get([actor.give.remote() for actor in actors], timeout=20) == [42] * 3

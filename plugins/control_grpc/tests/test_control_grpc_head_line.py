"""What a coroutine asks of the head's loop, and gives up asking."""

from __future__ import annotations

import asyncio

import pytest
from kernel_control_grpc.head_line import HeadLine

from kernel_processes.head.deferred import Deferred


class Reactor:
    """Does at once what it is given."""

    def call_later(self, seconds, function):
        function()

    def wake(self):
        pass


def asked(steps):
    """Run `steps(later, task, turn)` on a question that is answered by `later`; return what was abandoned."""
    abandoned = []

    async def main():
        later = Deferred()
        line = HeadLine(Reactor(), asyncio.get_running_loop())
        task = asyncio.ensure_future(line.ask(lambda: later, abandoned.append))
        await asyncio.sleep(0)
        await steps(later, task)
        for _ in range(3):
            await asyncio.sleep(0)
        return task

    return asyncio.run(main()), abandoned


def test_an_answer_is_returned():
    async def steps(later, task):
        later.set("answer")
        assert await task == "answer"

    assert asked(steps)[1] == []


def test_who_gave_up_before_the_answer_leaves_it_unheard():
    async def steps(later, task):
        task.cancel()
        later.set("answer")

    task, abandoned = asked(steps)
    assert task.cancelled() and abandoned == ["answer"]


def test_who_gives_up_between_the_answer_and_hearing_it_leaves_it_unheard():
    async def steps(later, task):
        loop = asyncio.get_running_loop()
        later.set("answer")  # which the loop settles next
        loop.call_soon(task.cancel)  # and then this, before the task goes on
        with pytest.raises(asyncio.CancelledError):
            await task

    task, abandoned = asked(steps)
    assert task.cancelled() and abandoned == ["answer"]

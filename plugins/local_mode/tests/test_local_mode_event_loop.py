"""The event loop of an async actor, with an actor that does nothing but hand out calls."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from kernel_local_mode.concurrency import LocalConcurrencyGroup, Picked
from kernel_local_mode.event_loop import LocalLoop

SECONDS = 60.0


class Actor:
    """Hands out `calls`, and remembers what has ended."""

    def __init__(self, *calls: Callable[[], Any], failure: tuple[int, bytes] | None = None) -> None:
        self.calls = list(calls)
        self.failure = failure
        self.ended: list[str] = []
        self.changed = threading.Condition()

    def construct(self) -> tuple[int, bytes] | None:
        return self.failure

    def pick(self) -> Picked | None:
        if not self.calls:
            return None
        task: Any = SimpleNamespace(
            id=str(len(self.calls)), name="call", attempt=0, arguments=None, definition=SimpleNamespace(returns=1)
        )
        task.function = self.calls.pop(0)
        runner: Any = SimpleNamespace(
            arguments=lambda channel, arguments, slots: ((), {}, None),
            send_result=lambda channel, id, returns, value, name: self._note(f"result {value}"),
            send_cancelled=lambda channel, id, name: self._note("cancelled"),
        )
        place: Any = SimpleNamespace(settle=lambda execution: None)
        channel: Any = None
        return Picked(task, LocalConcurrencyGroup("", 2), runner, channel, place)

    def lookup(self, task: Any) -> tuple[Callable[..., Any], str]:
        return task.function, "Actor.call"

    def over(self, task: Any, channel: Any, error: BaseException | None, why: str) -> None:
        self._note("over")

    def _note(self, what: str) -> None:
        with self.changed:
            self.ended.append(what)
            self.changed.notify_all()

    def wait_for(self, *expected: str) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.ended == list(expected), SECONDS), self.ended


@contextmanager
def loop_of(actor: Actor) -> Iterator[tuple[LocalLoop, list[tuple[int, bytes] | None]]]:
    constructed: list[tuple[int, bytes] | None] = []
    calls: Any = SimpleNamespace(
        begin=lambda task, thread: True,
        traced=lambda name, begun, task, failed: None,
        report=lambda task, name, runner, channel, error: "",
    )
    arguments: Any = SimpleNamespace(message=lambda task: ())
    streaming: Any = None
    loop = LocalLoop(
        actor, constructed.append,
        threads=1, lock=threading.RLock(), calls=calls, arguments=arguments, streaming=streaming,
    )  # fmt: skip
    loop.start()
    try:
        yield loop, constructed
    finally:
        loop.stop()
        loop.thread.join(SECONDS)
        assert not loop.thread.is_alive()


def test_calls_run_once_the_actor_is_constructed() -> None:
    async def method() -> str:
        return "of a coroutine"

    actor = Actor(method, lambda: "of a function")
    with loop_of(actor) as (_, constructed):
        actor.wait_for("result of a coroutine", "over", "result of a function", "over")
    assert constructed == [None]


def test_a_constructor_that_fails_ends_the_loop() -> None:
    actor = Actor(lambda: "never", failure=(1, b"why"))
    with loop_of(actor) as (loop, constructed):
        loop.thread.join(SECONDS)
        assert not loop.thread.is_alive()
    assert (constructed, actor.ended) == ([(1, b"why")], [])


def test_a_loop_that_was_stopped_takes_no_call_of_the_actors_next_life() -> None:
    actor = Actor()
    with loop_of(actor) as (loop, _):
        loop.stop()
        actor.calls.append(lambda: "of the next life")
        loop.kick()
        loop.thread.join(SECONDS)
    assert len(actor.calls) == 1


def test_a_running_call_can_be_cancelled() -> None:
    began = threading.Event()

    async def method() -> None:
        import asyncio

        began.set()
        await asyncio.Event().wait()

    actor = Actor(method)
    with loop_of(actor) as (loop, _):
        assert began.wait(SECONDS)
        assert loop.cancel("1")  # type: ignore[arg-type]
        actor.wait_for("cancelled", "over")
        assert not loop.cancel("2")  # type: ignore[arg-type]

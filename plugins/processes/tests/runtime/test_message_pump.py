"""Who reads the messages: the background thread gives way to an event loop that does."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pytest

from kernel.runtime.waiter import Waiter
from kernel.testing.faults import wait_until
from kernel_processes.runtime import message_pump
from kernel_processes.runtime.message_pump import MessagePump
from kernel_processes.transport.reactor import Reactor
from kernel_spec.errors import SessionEndedError

SECONDS = 120.0
"""How long anything may take: the machine may be busy."""
NEVER = 600.0
"""Longer than a test may take: what waits for so long was not woken."""


class World:
    """A pump, and a pipe whose bytes are its messages; `readers`: threads that read them, `flushers`: that write."""

    def __init__(self) -> None:
        self.reactor = Reactor()
        self.flushers: list[int] = []
        self.pump = MessagePump(self.reactor, lambda: self.flushers.append(threading.get_ident()), "test")
        self.source, self.sink = os.pipe()
        self.readers: list[int] = []
        self.reactor.register(self.source, self._read)

    def _read(self, events: int) -> None:
        os.read(self.source, 1)
        self.readers.append(threading.get_ident())

    def send(self) -> None:
        os.write(self.sink, b"x")


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    made.pump.start()
    yield made
    made.pump.stop()
    made.reactor.close()
    os.close(made.source)
    os.close(made.sink)


def test_the_background_thread_leaves_the_messages_to_an_event_loop(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_pump, "_STUCK_SECONDS", NEVER)  # whoever runs the loop may stand still for a moment
    wait_until(lambda: world.pump._in_background, SECONDS, "the background thread to wait for messages")
    world.pump.yield_to_loop(True)
    wait_until(lambda: not world.pump._in_background, SECONDS, "the background thread to give way")
    for expected in range(1, 20):
        world.send()
        while len(world.readers) < expected:
            world.pump.poll_now()
    assert set(world.readers) == {threading.get_ident()}


def test_it_reads_them_when_the_loop_is_stuck_and_again_when_there_is_none(world: World) -> None:
    world.pump.yield_to_loop(True)
    world.send()
    wait_until(lambda: world.readers, SECONDS, "the background thread to help the loop")
    world.pump.yield_to_loop(False)
    world.send()
    wait_until(lambda: len(world.readers) == 2, SECONDS, "the background thread to be at it again")
    assert threading.get_ident() not in world.readers


def test_a_thread_sends_what_it_has_queued_before_it_waits_beside_another(world: World) -> None:
    long = Waiter()
    threads = [threading.Thread(target=world.pump.wait, args=(long,)) for _ in range(2)]
    for thread in threads:
        thread.start()
        wait_until(lambda ident=thread.ident: ident in world.flushers, SECONDS, "a thread to send")  # type: ignore[misc]
    long.complete()
    for thread in threads:
        world.send()  # so that the one who polls looks again
        long.poke()
        thread.join(SECONDS)
        assert not thread.is_alive()


def test_a_thread_that_waits_when_another_ends_the_session_is_told_so() -> None:
    world = World()
    world.pump.start()
    world.pump.stop()
    world.reactor.close()
    with pytest.raises(SessionEndedError, match="the session was shut down while this thread waited"):
        world.pump.wait(Waiter())
    os.close(world.source)
    os.close(world.sink)


def test_who_waits_without_polling_is_answered_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for round in range(1, 30):
        wait_until(lambda: world.pump._in_background, SECONDS, "the background thread to wait for messages")
        monkeypatch.setattr(message_pump, "BACK_OFF_SECONDS", NEVER)
        world.pump.flush_soon()  # something is queued, and the background thread lets more come together
        world.pump.answer_promptly()
        assert world.flushers[-1] == threading.get_ident(), "what is queued is sent before"
        world.send()
        wait_until(lambda round=round: len(world.readers) == round, SECONDS, "a message")  # type: ignore[misc]
    wait_until(lambda: world.pump._in_background, SECONDS, "the background thread to wait for messages")


def test_who_waits_without_polling_is_answered_also_when_others_have_just_polled(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for round in range(1, 30):
        wait_until(lambda: world.pump._in_background, SECONDS, "the background thread to wait for messages")
        monkeypatch.setattr(message_pump, "BACK_OFF_SECONDS", NEVER)
        waiter = Waiter()
        world.pump.wait(waiter, time.monotonic() + 0.001)  # others poll, and the background thread keeps out of the way
        world.pump.answer_promptly()
        world.send()
        wait_until(lambda round=round: len(world.readers) == round, SECONDS, "a message")  # type: ignore[misc]
    wait_until(lambda: world.pump._in_background, SECONDS, "the background thread to wait for messages")

"""The caller's side of an actor that dies: what it had answered counts, whoever brings the news first."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import number_of, packed
from kernel_processes.runtime.actor_calls import ALIVE, DEAD, RESTARTING, ActorCaller, Channel
from kernel_spec.ids import ActorId, ProcessId

ACTOR = ActorId(b"actor")
FIRST, SECOND = ProcessId(b"first"), ProcessId(b"second")


class Call:
    """A task, as far as `ActorCaller` looks at it."""

    def __init__(self, id: bytes, retries: int = 0) -> None:
        self.id = id
        self.retries = retries
        self.definition = SimpleNamespace(name=id.decode(), concurrency_group="", backpressure=0, returns=1)
        self.slots = self.arguments = self.place = None
        self.attempt = self.waiting = 0
        self.error: Any = None

    def all_entries(self) -> list[Any]:
        return []


class Table:
    """What becomes of calls."""

    def __init__(self) -> None:
        self.running: dict[bytes, Call] = {}
        self.arguments = SimpleNamespace(resolve=lambda call, ready: True)
        self.ownership = SimpleNamespace(clear_away=lambda results, place: None)

    def register(self, call: Call) -> None: ...

    def fail_with(self, call: Call, error: Any) -> None:
        call.error = error

    def retry_or_fail(self, call: Call, error: Any) -> bool:
        if call.retries == 0:
            call.error = error
        return call.retries > 0


class World:
    """A process with one actor, and the wires in the test's hands."""

    def __init__(self) -> None:
        self.handlers: dict[int, Callable[..., None]] = {}
        self.on_peer_lost: list[Callable[..., None]] = []
        self.lock = threading.RLock()
        self.timers: list[Callable[[], None]] = []
        self.reactor = SimpleNamespace(call_later=lambda seconds, function: self.timers.append(function))
        self.sent: list[tuple[bytes, bytes]] = []
        self.after_batch = lambda leftovers, function: None
        self.told: list[Any] = []
        self.tell_agent = self.told.append
        self.flush = lambda: None
        self.closing = False
        self.identity = SimpleNamespace(gateway="")
        self.caller = ActorCaller(self, Table())  # type: ignore[arg-type]
        self.channel: Channel = self.caller.channel(ACTOR, "Counter")
        self.state(ALIVE, FIRST)

    def peer(self, worker: bytes, address: str) -> Any:
        return SimpleNamespace(worker=worker)

    def send(self, connection: Any, message: Any) -> None:
        self.sent.append((connection.worker, message[1]))

    def state(self, state: str, worker: bytes = b"", cause: str = "") -> None:
        self.handlers[number_of(op.ActorState)](
            None,
            packed(
                op.ActorState(
                    actor=ACTOR,
                    state=state,
                    worker=worker,
                    address="",
                    attempt=0,
                    cause=cause,
                    failure=None,
                    crashed=False,
                )
            ),
        )
        self.caller.dispatch()

    def ring(self) -> None:
        """Let all timers ring."""
        timers, self.timers = self.timers, []
        for timer in timers:
            timer()

    def call(self, id: bytes, retries: int = 0) -> Call:
        call = Call(id, retries)
        self.caller.accept(self.channel, call)  # type: ignore[arg-type]
        return call

    def lose(self, worker: bytes) -> None:
        for function in self.on_peer_lost:
            function(SimpleNamespace(id=worker), "gone")
        self.caller.dispatch()


@pytest.fixture
def world() -> World:
    return World()


def test_a_result_that_comes_after_the_news_of_the_death_counts(world: World) -> None:
    answered, open_ = world.call(b"answered"), world.call(b"open")
    world.state(DEAD, cause="it was killed")
    assert answered.error is None and open_.error is None
    world.caller.finished(answered)  # type: ignore[arg-type]
    world.lose(FIRST)
    assert answered.error is None
    assert "Counter.open() failed because the actor" in str(open_.error)
    assert "it was killed" in str(open_.error)


def test_nothing_that_was_answered_is_made_again_after_a_restart(world: World) -> None:
    answered, open_ = world.call(b"answered", retries=1), world.call(b"open", retries=1)
    world.state(RESTARTING)
    world.state(ALIVE, SECOND)
    later = world.call(b"later")
    world.caller.finished(answered)  # type: ignore[arg-type]
    world.lose(FIRST)
    assert [id for worker, id in world.sent if worker == SECOND] == [open_.id, later.id]


def test_the_news_is_believed_though_the_connection_stays_open(world: World) -> None:
    call = world.call(b"open")
    world.state(DEAD)
    (stop_listening,) = world.timers
    stop_listening()
    assert call.error is not None
    assert world.channel.state == DEAD
    stop_listening()


def test_news_of_a_process_that_is_gone_already_is_taken_at_once(world: World) -> None:
    call = world.call(b"open")
    world.lose(FIRST)
    assert call.error is None
    world.state(DEAD)
    assert call.error is not None
    world.told.clear()
    world.ring()
    assert not world.told, "nothing is left to ask"


def test_an_actor_that_could_not_be_reached_and_lives_is_asked_for_and_called_again(world: World) -> None:
    call, again = world.call(b"open"), world.call(b"repeatable", retries=1)
    world.lose(FIRST)
    later = world.call(b"later")
    assert world.sent == [(FIRST, call.id), (FIRST, again.id)]
    world.state(ALIVE, FIRST)
    assert call.error is None, "that may be old news"
    world.told.clear()
    world.ring()
    assert world.told == [packed(op.SubscribeActor(actor=ACTOR))]
    world.state(ALIVE, FIRST)
    assert "open() may or may not have run: the actor" in str(call.error)
    assert "could not be reached for too long. Set max_task_retries" in str(call.error)
    assert world.sent[2:] == [(FIRST, again.id), (FIRST, later.id)]
    world.state(ALIVE, FIRST)
    assert len(world.sent) == 4, "news that comes twice is no news"

"""What agents say to each other arrives, also when the connection between them ends before it did."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kernel.node import neighbours as module
from kernel.node.neighbours import AGAIN_SECONDS, DELETE, PATIENCE_SECONDS, Neighbours
from kernel.transport.connection import pack_batch
from kernel.transport.tcp_connection import TcpConnection

PLACE = "10.0.0.2:6380"


def _nothing(*said: Any) -> None:
    pass


class World:
    """An agent with a clock and wires in the test's hands."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, Any]] = []
        self.reactor: Any = SimpleNamespace(
            clock=lambda: self.now,
            call_later=lambda seconds, function: self.timers.append((self.now + seconds, function)),
            unregister=lambda descriptor: None,
        )
        self.made: list[TcpConnection] = []
        monkeypatch.setattr(module, "connect", self._connect)
        self.neighbours = Neighbours(b"token", None, self.reactor, _nothing, _nothing, _nothing)

    def _connect(self, address: str, token: bytes, reactor: Any, on_messages: Any, on_close: Any, tls: Any) -> Any:
        self.made.append(TcpConnection(reactor, on_messages, on_close))
        return self.made[-1]

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        due = [function for at, function in self.timers if at <= self.now]
        self.timers = [timer for timer in self.timers if timer[0] > self.now]
        for function in due:
            function()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_what_did_not_arrive_is_said_again(world: World) -> None:
    world.neighbours.delete(PLACE, [b"a"])  # type: ignore[list-item]
    world.made[0].close("cut for too long")
    world.neighbours.delete(PLACE, [b"b"])  # type: ignore[list-item]
    world.pass_time(AGAIN_SECONDS)
    assert len(world.made) == 2
    assert sorted(message[1][0] for message in world.made[1].outbox) == [b"a", b"b"]
    assert {message[0] for message in world.made[1].outbox} == {DELETE}


def test_what_was_sent_and_not_acknowledged_is_said_again(world: World) -> None:
    world.neighbours.delete(PLACE, [b"a"])  # type: ignore[list-item]
    connection = world.made[0]
    connection._log.keep(pack_batch(connection.outbox))
    assert not connection.outbox and [message[1] for message in connection.unheard()] == [[b"a"]]
    connection.close("cut for too long")
    world.pass_time(AGAIN_SECONDS)
    assert [message[1] for message in world.made[1].outbox] == [[b"a"]]


@pytest.mark.parametrize("how", ["forget", "close"])
def test_nothing_is_said_to_a_node_that_is_gone_nor_by_one_that_ends(world: World, how: str) -> None:
    world.neighbours.delete(PLACE, [b"a"])  # type: ignore[list-item]
    world.made[0].close("its machine is off")
    world.neighbours.forget(PLACE) if how == "forget" else world.neighbours.close()
    world.pass_time(AGAIN_SECONDS)
    assert len(world.made) == 1


def test_a_place_where_nobody_ever_is_is_given_up(world: World) -> None:
    world.neighbours.delete(PLACE, [b"a"])  # type: ignore[list-item]
    for _ in range(int(2 * PATIENCE_SECONDS)):
        if not world.made[-1].closed:
            world.made[-1].close("nobody listens there")
        world.pass_time(AGAIN_SECONDS)
    assert PATIENCE_SECONDS <= len(world.made) <= PATIENCE_SECONDS + 3
    assert not world.timers

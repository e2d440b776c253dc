"""What agents say to each other arrives, also when the connection between them ends before it did."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kernel_network_tcp import agent_links as module
from kernel_network_tcp.agent_links import AGAIN_SECONDS, PATIENCE_SECONDS, AgentLinks
from kernel_network_tcp.agent_messages import DELETE, FORWARD, KEEP
from kernel_network_tcp.transport.tcp_connection import TcpConnection

from kernel_processes.transport.addresses import AGENT, SCHEME, through
from kernel_processes.transport.connection import pack_batch

PLACE = "10.0.0.2:6380"


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
        self.addresses: list[str] = []
        self.asked: list[Any] = []
        self.agent_links = self.make()

    def make(self, **more: Any) -> AgentLinks:
        return AgentLinks(
            b"token",
            None,
            self.reactor,
            lambda *said: self.asked.append(("forward", *said)),
            lambda *said: self.asked.append(("delete", *said)),
            lambda *said: self.asked.append(("keep", *said)),
            **more,
        )

    def _connect(self, address: str, token: bytes, reactor: Any, on_messages: Any, on_close: Any, tls: Any) -> Any:
        self.addresses.append(address)
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
    world.agent_links.delete(PLACE, [b"a"])  # type: ignore[list-item]
    world.made[0].close("cut for too long")
    world.agent_links.delete(PLACE, [b"b"])  # type: ignore[list-item]
    world.pass_time(AGAIN_SECONDS)
    assert len(world.made) == 2
    assert sorted(message[1][0] for message in world.made[1].outbox) == [b"a", b"b"]
    assert {message[0] for message in world.made[1].outbox} == {DELETE}


def test_what_was_sent_and_not_acknowledged_is_said_again(world: World) -> None:
    world.agent_links.delete(PLACE, [b"a"])  # type: ignore[list-item]
    connection = world.made[0]
    connection._resend.keep(pack_batch(connection.outbox))
    assert not connection.outbox and [message[1] for message in connection.unacknowledged()] == [[b"a"]]
    connection.close("cut for too long")
    world.pass_time(AGAIN_SECONDS)
    assert [message[1] for message in world.made[1].outbox] == [[b"a"]]


@pytest.mark.parametrize("how", ["forget", "close"])
def test_nothing_is_said_to_a_node_that_is_gone_nor_by_one_that_ends(world: World, how: str) -> None:
    world.agent_links.delete(PLACE, [b"a"])  # type: ignore[list-item]
    world.made[0].close("its machine is off")
    world.agent_links.forget(PLACE) if how == "forget" else world.agent_links.close()
    world.pass_time(AGAIN_SECONDS)
    assert len(world.made) == 1


def test_a_place_where_nobody_ever_is_is_given_up(world: World) -> None:
    world.agent_links.delete(PLACE, [b"a"])  # type: ignore[list-item]
    for _ in range(int(2 * PATIENCE_SECONDS)):
        if not world.made[-1].closed:
            world.made[-1].close("nobody listens there")
        world.pass_time(AGAIN_SECONDS)
    assert PATIENCE_SECONDS <= len(world.made) <= PATIENCE_SECONDS + 3
    assert not world.timers


class Peer:
    """The connection of another agent."""

    def __init__(self) -> None:
        self.closed: list[str] = []
        self.flushed = 0

    def close(self, reason: str) -> None:
        self.closed.append(reason)

    def send(self, message: Any) -> None:
        pass

    def flush(self) -> None:
        self.flushed += 1


def test_what_another_agent_asks_for_is_done_in_order(world: World) -> None:
    peer: Any = Peer()
    world.agent_links.on_messages(peer, [(FORWARD, b"p", (1, 2)), (DELETE, [b"a"]), (KEEP, b"b")])
    assert world.asked == [("forward", b"p", (1, 2)), ("delete", [b"a"]), ("keep", b"b")]
    assert peer.closed == []


def test_who_says_what_is_no_message_is_cut_off_and_heard_no_more(world: World) -> None:
    peer: Any = Peer()
    world.agent_links.on_messages(peer, [(77, b"a"), (KEEP, b"b")])
    assert peer.closed == ["the peer sent (77, b'a'), which is no message of an agent"]
    assert world.asked == []


def test_all_that_is_said_to_a_place_goes_over_one_connection(world: World) -> None:
    world.agent_links.forward(PLACE, b"p", (1,))  # type: ignore[arg-type]
    world.agent_links.delete(PLACE, (b"a", b"b"))  # type: ignore[arg-type]
    world.agent_links.keep(PLACE, b"c")  # type: ignore[arg-type]
    assert [list(connection.outbox) for connection in world.made] == [
        [(FORWARD, b"p", (1,)), (DELETE, [b"a", b"b"]), (KEEP, b"c")]
    ]
    world.agent_links.keep("10.0.0.3:6380", b"c")  # type: ignore[arg-type]
    assert len(world.made) == 2
    assert [PLACE in address for address in world.addresses] == [True, False]


def test_a_relay_leads_to_all_places(world: World) -> None:
    world.agent_links.keep(PLACE, b"c")  # type: ignore[arg-type]
    world.make(relay="tcp://relay:1").keep(PLACE, b"c")  # type: ignore[arg-type]
    direct, relayed = world.addresses
    assert direct == f"{SCHEME}{PLACE}/{AGENT}"
    assert relayed == through("tcp://relay:1", direct) != direct


def test_what_was_said_since_is_written_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    peers: list[Peer] = []

    def make(*arguments: Any) -> Any:
        peers.append(Peer())
        return peers[-1]

    monkeypatch.setattr(module, "connect", make)
    world.agent_links.keep(PLACE, b"c")  # type: ignore[arg-type]
    world.agent_links.keep(PLACE, b"d")  # type: ignore[arg-type]
    for _ in range(2):
        world.agent_links.flush()
    assert [peer.flushed for peer in peers] == [1]
    world.agent_links.keep(PLACE, b"e")  # type: ignore[arg-type]
    world.agent_links.on_close(peers[0], "cut")  # type: ignore[arg-type]
    world.agent_links.flush()
    assert peers[0].flushed == 1, "a connection that ended has nothing to write"
    world.agent_links.keep(PLACE, b"f")  # type: ignore[arg-type]
    assert len(peers) == 2


@pytest.mark.parametrize("how", ["forget", "close"])
def test_connections_to_a_node_that_is_gone_are_closed(world: World, how: str) -> None:
    world.agent_links.keep(PLACE, b"c")  # type: ignore[arg-type]
    world.agent_links.forget(PLACE) if how == "forget" else world.agent_links.close()
    assert [connection.closed for connection in world.made] == [True]
    world.agent_links.forget(PLACE)


def test_a_node_that_comes_back_at_a_place_is_tried_as_long_as_any_other(world: World) -> None:
    for _ in range(2):
        before = len(world.made)
        world.agent_links.delete(PLACE, [b"a"])  # type: ignore[list-item]
        for _ in range(int(PATIENCE_SECONDS / AGAIN_SECONDS) - 5):
            world.made[-1].close("nobody listens there")
            world.pass_time(AGAIN_SECONDS)
        assert len(world.made) - before >= PATIENCE_SECONDS - 5
        world.agent_links.forget(PLACE)
        world.pass_time(AGAIN_SECONDS)


def test_a_connection_that_had_nothing_to_say_is_not_made_again(world: World) -> None:
    world.agent_links.delete(PLACE, [b"a"])  # type: ignore[list-item]
    world.made[0].outbox.clear()
    world.made[0].close("it was idle")
    assert world.timers == []

"""The link between an agent and a head in another process: joining, losing it, and telling everything again."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from kernel_network_tcp.transport.tcp_connection import ENDED_SECONDS, TcpConnection

from kernel.testing.faults import wait_until
from kernel_engine.messages.named_messages import Message, number_of, packed
from kernel_processes.node import head_link as module
from kernel_processes.node.head_link import LocalHeadLink, RemoteHeadLink
from kernel_processes.protocol import head_messages
from kernel_processes.transport.connect import Connector
from kernel_processes.transport.connection import Connection
from kernel_processes.transport.reactor import Reactor
from kernel_processes.transport.unix_listener import UnixListener
from kernel_spec.errors import SessionEndedError
from kernel_spec.ids import NodeId

TOKEN = b"t" * 32
NODE = NodeId(b"the-node")


class ScriptedHead:
    """The other end, in the same loop: welcomes or refuses, notes what it hears, and dies when told to."""

    def __init__(self, path: str, reactor: Reactor) -> None:
        self.path, self.reactor = path, reactor
        self.received: list[Message] = []
        self.settings: dict[str, Any] = {"durable": True, "tell_all": False, "head_away_seconds": 600.0}
        self.refusal = ""
        self.connection: Connection | None = None
        self.open()

    def open(self) -> None:
        self.listener = UnixListener(
            self.path, TOKEN, self.reactor, self._on_messages, lambda connection, reason: None, lambda reason: None
        )

    def die(self) -> None:
        self.listener.close()
        assert self.connection is not None
        self.connection.close("killed")

    def say(self, *message: Any) -> None:
        assert self.connection is not None
        self.connection.send(message)
        self.connection.flush()

    def _on_messages(self, connection: Connection, messages: list[Message]) -> None:
        self.connection = connection
        for message in messages:
            if message[0] == number_of(head_messages.JoinCluster):
                answer = (
                    packed(head_messages.JoinRefused(reason=self.refusal))
                    if self.refusal
                    else packed(head_messages.Welcome(settings=pickle.dumps(self.settings)))
                )
                self.say(*answer)
            elif message[0] != number_of(head_messages.Heartbeat):
                self.received.append(message)


class Side:
    """A link to a head, and that head."""

    def __init__(self, path: str) -> None:
        self.reactor = Reactor()
        self.head = ScriptedHead(path, self.reactor)
        self.told: list[Message] = []
        self.lost: list[str] = []
        self.snapshot: list[Message] = []
        self.head_link = RemoteHeadLink(path, Connector(TOKEN, self.reactor), self.reactor, NODE)

    def join(self) -> None:
        self.head_link.join()
        self.head_link.begin({"host": "here"}, self.told.append, self._snapshot, self.lost.append)

    def _snapshot(self, unacknowledged: Sequence[Message]) -> list[Message]:
        return [*self.snapshot, *unacknowledged]

    def until(self, condition: Callable[[], object], what: str) -> None:
        def turn() -> object:
            self.reactor.poll(0.01)
            self.head_link.exchange()
            return condition()

        wait_until(turn, 120, what)

    def numbers(self) -> list[int]:
        return [message[1] for message in self.head.received if message[0] == head_messages.LEASE_BLOCKED]


@pytest.fixture
def side(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Side]:
    monkeypatch.setattr(module, "REDIAL_SECONDS", (0.01, 0.02))
    side = Side(str(tmp_path / "head"))
    yield side
    side.head_link.leave("the test is over")
    side.reactor.close()


def test_a_node_that_is_let_in_describes_itself_first(side: Side) -> None:
    side.head_link.send((head_messages.LEASE_BLOCKED, 1, True))
    side.join()
    side.until(side.numbers, "the message")
    assert [message[0] for message in side.head.received] == [
        number_of(head_messages.DescribeNode),
        head_messages.LEASE_BLOCKED,
    ]
    assert pickle.loads(side.head.received[0][1]) == {"host": "here"}


def test_a_node_that_is_refused_says_why(side: Side) -> None:
    side.head.refusal = "this node was declared dead: it was silent"
    with pytest.raises(SessionEndedError, match="can't join the head at .*/head: this node was declared dead"):
        side.head_link.join()


def test_what_a_dead_head_may_not_have_done_is_told_to_the_next_after_the_snapshot(side: Side) -> None:
    side.join()
    for number in (1, 2, 3):
        side.head_link.send((head_messages.LEASE_BLOCKED, number, True))
    side.until(lambda: len(side.numbers()) == 3, "three messages")
    side.head.say(number_of(head_messages.Heartbeat), 2)  # the description and the first of them are done
    side.until(lambda: side.head_link._done == 2, "the news of what is done")
    side.head.received.clear()
    side.head.settings = {"durable": True, "tell_all": True, "head_away_seconds": 600.0}
    side.snapshot = [packed(head_messages.GrantedBefore(held=b"held", worker=b"", blocked=False))]
    side.head.die()
    side.head_link.send((head_messages.LEASE_BLOCKED, 4, True))
    side.head.open()
    side.until(
        lambda: side.head.received and side.head.received[-1][0] == number_of(head_messages.AllTold),
        "everything told again",
    )
    kinds = [message[0] for message in side.head.received]
    assert kinds == [
        number_of(head_messages.DescribeNode),
        number_of(head_messages.GrantedBefore),
        *[head_messages.LEASE_BLOCKED] * 3,
        number_of(head_messages.AllTold),
    ]
    assert side.numbers() == [2, 3, 4]
    assert side.lost == []


def test_a_head_that_keeps_nothing_is_not_waited_for(side: Side) -> None:
    side.head.settings = {"durable": False, "tell_all": False}
    side.join()
    side.until(lambda: side.head.received, "the description")
    side.head.die()
    side.until(lambda: side.lost, "the loss of the link")
    assert side.lost == ["the peer closed the connection"]


def test_a_head_that_stays_away_is_given_up(side: Side) -> None:
    side.head.settings["head_away_seconds"] = 2.0
    side.join()
    side.until(lambda: side.head.received, "the description")
    side.head.die()
    side.until(lambda: side.lost, "the loss of the link")
    assert "no head answers at" in side.lost[0]
    assert side.lost[0].endswith(", for 2 s")


def test_a_node_that_is_refused_when_it_comes_back_tries_no_more(side: Side) -> None:
    side.join()
    side.until(lambda: side.head.received, "the description")
    side.head.die()
    side.head.refusal = "this node was declared dead: it was silent"
    side.head.open()
    side.until(lambda: side.lost, "the loss of the link")
    assert side.lost == ["this node was declared dead: it was silent"]


def test_the_link_within_a_process_handles_nothing_at_once_and_all_in_order() -> None:
    seen: list[Any] = []

    def at_head(message: Message) -> None:
        seen.append(("head", message[0]))
        if message[0] < 3:
            link.send_down((message[0],))

    def at_node(message: Message) -> None:
        seen.append(("node", message[0]))
        link.send((message[0] + 10,))

    link = LocalHeadLink(at_head, at_node)
    link.send((1,))
    link.send((2,))
    assert seen == []
    assert link.exchange()
    assert seen == [("head", 1), ("head", 2), ("node", 1), ("node", 2), ("head", 11), ("head", 12)]
    assert not link.exchange()


@pytest.mark.parametrize(
    ("client", "seconds", "ended"),
    [(False, 20.0, ENDED_SECONDS), (True, 60.0, 60.0)],
    ids=["node", "remote driver"],
)
def test_a_cut_link_is_mended_for_as_long_as_the_head_waits(
    side: Side, client: bool, seconds: float, ended: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = TcpConnection(side.reactor, lambda connection, messages: None, lambda connection, reason: None)
    side.head_link.join()
    side.head_link.leave("another link takes its place")
    monkeypatch.setattr(side.head_link, "_connection", link)
    side.head_link.settings["death_seconds"] = 20.0
    side.head_link.begin({"client": client}, side.told.append, side._snapshot, side.lost.append)
    assert (link.resume_seconds, link.ended_seconds) == (seconds, ended)

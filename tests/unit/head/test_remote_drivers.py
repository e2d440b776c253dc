"""What the head remembers of remote drivers, and what it tells the relay beside it of the nodes."""

from __future__ import annotations

from typing import Any

import pytest

from kernel.head import remote_drivers
from kernel.head.journal import Journal
from kernel.head.nodes import Node
from kernel.head.remote_drivers import RemoteDrivers
from kernel.local.metadata import LocalMetadataStore
from kernel.protocol import head_messages
from kernel.protocol.named_messages import packed
from kernel_spec.ids import NodeId

BESIDE, OTHER, CLIENT = NodeId(b"beside.."), NodeId(b"other..."), NodeId(b"client..")


class Durable(LocalMetadataStore):
    """Keeps what it knows for as long as the test."""

    durable = True


class Config:
    """Says which node is beside the head."""

    node = bytes(BESIDE)


class Head:
    """What `RemoteDrivers` needs of a head."""

    def __init__(self, store: Any) -> None:
        self.config = Config()
        self.nodes: dict[NodeId, Node] = {}
        self.journal = Journal(store)
        self.told: list[tuple[NodeId, Any]] = []
        self.remote_drivers = RemoteDrivers(self)  # type: ignore[arg-type]

    def working_nodes(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.alive and not node.client]

    def add(self, id: NodeId, client: bool = False) -> Node:
        address = f"10.0.0.1:1~{id.hex()}" if client else f"{id.decode()}:1"

        def send(message: Any) -> None:
            self.told.append((id, message))

        node = self.nodes[id] = Node(id, send, {}, {}, (), "host", address, "", 0, 0.0, client=client)
        self.remote_drivers.node_added(node)
        return node

    def lose(self, node: Node, cause: str = "it fell") -> None:
        node.alive, node.cause = False, cause
        self.remote_drivers.node_removed(node)


@pytest.fixture
def store(tmp_path: Any) -> Durable:
    return Durable(str(tmp_path))


def test_the_relay_hears_of_every_node_and_of_no_client(store: Durable) -> None:
    head = Head(store)
    head.add(BESIDE)
    other = head.add(OTHER)
    head.lose(head.add(CLIENT, client=True))
    head.lose(other)
    there, gone = (
        packed(head_messages.NodeReachable(place="other...:1", there=True)),
        packed(head_messages.NodeReachable(place="other...:1", there=False)),
    )
    assert head.told == [
        (BESIDE, packed(head_messages.NodeReachable(place="beside..:1", there=True))),
        (BESIDE, there),
        (BESIDE, gone),
    ]


def test_a_relay_that_comes_after_others_hears_of_them(store: Durable) -> None:
    head = Head(store)
    head.add(OTHER)
    head.add(CLIENT, client=True)
    assert head.told == []
    head.add(BESIDE)
    assert sorted(message[1] for _, message in head.told) == ["beside..:1", "other...:1"]


def test_the_next_head_waits_for_clients_that_were_there_and_knows_those_that_are_gone(store: Durable) -> None:
    head = Head(store)
    kept, lost = (head.add(NodeId(name), client=True) for name in (b"kept....", b"lost...."))
    head.lose(lost, "nothing was heard of it")
    assert list(head.nodes) == [kept.id]
    following = Head(store).remote_drivers
    assert following.restore() == {kept.id}
    assert following.fallen == {lost.id: "nothing was heard of it"}
    assert following.missing({kept.id, OTHER}) == {kept.id}, "the other is a node"
    assert following.fallen[kept.id] == "it did not come back when the head was started again"
    assert Head(store).remote_drivers.restore() == set()


def test_only_so_many_that_are_gone_are_remembered(store: Durable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_drivers, "KEPT_GONE", 3)
    head = Head(store)
    for number in range(10):
        head.lose(head.add(NodeId(b"client.%d" % number), client=True))
    assert list(head.remote_drivers.fallen) == [b"client.7", b"client.8", b"client.9"]
    assert head.journal.clients().keys() == head.remote_drivers.fallen.keys()
    assert head.nodes == {}

"""What the head remembers of remote drivers, and what it tells the relay beside it of the nodes."""

from __future__ import annotations

from typing import Any

import pytest

from kernel.defaults.metadata import LocalMetadataStore
from kernel_engine.messages.named_messages import packed
from kernel_processes.head import remote_drivers
from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.journal import Journal
from kernel_processes.head.nodes import NodeRecord
from kernel_processes.head.remote_drivers import RemoteDrivers
from kernel_processes.protocol import head_messages
from kernel_spec.ids import NodeId

BESIDE, OTHER, CLIENT = NodeId(b"beside.."), NodeId(b"other..."), NodeId(b"client..")


class Durable(LocalMetadataStore):
    """Keeps what it knows for as long as the test."""

    durable = True


class Drivers:
    """Remote drivers of a cluster, and what nodes are told."""

    def __init__(self, store: Any) -> None:
        self.cluster = ClusterTable(BESIDE)
        self.journal = Journal(store)
        self.told: list[tuple[NodeId, Any]] = []
        self.remote_drivers = RemoteDrivers(self.cluster, self.journal)

    def add(self, id: NodeId, client: bool = False) -> NodeRecord:
        address = f"10.0.0.1:1~{id.hex()}" if client else f"{id.decode()}:1"

        def send(message: Any) -> None:
            self.told.append((id, message))

        node = self.cluster.nodes[id] = NodeRecord(id, send, {}, {}, (), "host", address, "", 0, 0.0, client=client)
        self.remote_drivers.node_added(node)
        return node

    def lose(self, node: NodeRecord, cause: str = "it fell") -> None:
        node.alive, node.cause = False, cause
        self.remote_drivers.node_removed(node)


@pytest.fixture
def store(tmp_path: Any) -> Durable:
    return Durable(str(tmp_path))


def test_the_relay_hears_of_every_node_and_of_no_client(store: Durable) -> None:
    drivers = Drivers(store)
    drivers.add(BESIDE)
    other = drivers.add(OTHER)
    drivers.lose(drivers.add(CLIENT, client=True))
    drivers.lose(other)
    there, gone = (
        packed(head_messages.NodeReachable(place="other...:1", there=True)),
        packed(head_messages.NodeReachable(place="other...:1", there=False)),
    )
    assert drivers.told == [
        (BESIDE, packed(head_messages.NodeReachable(place="beside..:1", there=True))),
        (BESIDE, there),
        (BESIDE, gone),
    ]


def test_a_relay_that_comes_after_others_hears_of_them(store: Durable) -> None:
    drivers = Drivers(store)
    drivers.add(OTHER)
    drivers.add(CLIENT, client=True)
    assert drivers.told == []
    drivers.add(BESIDE)
    assert sorted(message[1] for _, message in drivers.told) == ["beside..:1", "other...:1"]


def test_the_next_head_waits_for_clients_that_were_there_and_knows_those_that_are_gone(store: Durable) -> None:
    drivers = Drivers(store)
    kept, lost = (drivers.add(NodeId(name), client=True) for name in (b"kept....", b"lost...."))
    drivers.lose(lost, "no heartbeat from it")
    assert list(drivers.cluster.nodes) == [kept.id]
    after = Drivers(store)
    following = after.remote_drivers
    assert following.restore() == {kept.id}
    assert after.cluster.fallen_clients == {lost.id: "no heartbeat from it"}
    assert following.missing({kept.id, OTHER}) == {kept.id}, "the other is a node"
    assert after.cluster.fallen_clients[kept.id] == "it did not come back when the head was started again"
    assert Drivers(store).remote_drivers.restore() == set()


def test_only_so_many_that_are_gone_are_remembered(store: Durable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_drivers, "KEPT_GONE", 3)
    drivers = Drivers(store)
    for number in range(10):
        drivers.lose(drivers.add(NodeId(b"client.%d" % number), client=True))
    assert list(drivers.cluster.fallen_clients) == [b"client.7", b"client.8", b"client.9"]
    assert drivers.journal.clients().keys() == drivers.cluster.fallen_clients.keys()
    assert drivers.cluster.nodes == {}

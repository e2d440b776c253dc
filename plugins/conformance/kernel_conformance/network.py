"""The conformance suite for networks.

    from kernel_conformance.network import NetworkConformance
    from kernel_processes.transport.reactor import Reactor

    class TestMine(NetworkConformance):
        network = network  # what the entry point names
        make_loop = staticmethod(Reactor)

It plays nodes on loopback, all in one loop: each has a network and a store, and notes what comes for its processes.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kernel_conformance.network_process import PlayedProcess
from kernel_spec import store as contract
from kernel_spec.errors import ObjectLostError, OptionError, OwnerDiedError, SessionEndedError
from kernel_spec.ids import NodeId, ObjectId, ProcessId
from kernel_spec.networks import Loop, Message, Network, NetworkSettings

SECONDS = 120.0
"""Seconds that any step may take: the machine may be busy."""
TOKEN, WRONG_TOKEN = b"t" * 32, b"w" * 32
LOOPBACK = "127.0.0.1:0"
OWNER, PROCESS = ProcessId(b"owner---"), ProcessId(b"process-")
OBJECT, OTHER = ObjectId(b"o" * 20), ObjectId(b"p" * 20)
DATA = bytes(range(256)) * 40_000
"""Ten megabytes: more than one piece of any network."""


class NetworkConformance:
    """Every network's tests."""

    network: Network
    make_loop: Callable[[], Loop]

    relays = True
    """It has a relay for programs outside."""

    @contextmanager
    def cluster(self, directory: Path) -> Iterator[PlayedCluster]:
        """Play a cluster without nodes."""
        with ExitStack() as stack:
            yield PlayedCluster(self.network, type(self).make_loop(), directory, stack)

    def test_each_node_has_a_place_of_its_own(self, tmp_path: Path) -> None:
        with self.cluster(tmp_path) as cluster:
            one, two = cluster.node(), cluster.node()
            assert one.network.place != two.network.place and one.network.place == one.network.place

    def test_an_object_comes_from_another_node(self, tmp_path: Path) -> None:
        with self.cluster(tmp_path) as cluster:
            one, two = cluster.node(), cluster.node()
            one.store.put(OBJECT, DATA)
            assert cluster.pull(two, OBJECT, len(DATA), [one]) is None
            assert two.store.read(OBJECT) == DATA and one.store.read(OBJECT) == DATA
            cluster.until(lambda: not one.store.pins and not two.store.pins)

    def test_an_object_comes_from_the_node_that_has_it(self, tmp_path: Path) -> None:
        with self.cluster(tmp_path) as cluster:
            one, two, three = cluster.node(), cluster.node(), cluster.node()
            two.store.put(OBJECT, DATA)
            assert cluster.pull(three, OBJECT, len(DATA), [one, two]) is None
            assert three.store.read(OBJECT) == DATA

    def test_an_object_that_no_node_has_is_lost(self, tmp_path: Path) -> None:
        with self.cluster(tmp_path) as cluster:
            one, two = cluster.node(), cluster.node()
            error = cluster.pull(two, OBJECT, len(DATA), [one])
            assert isinstance(error, ObjectLostError) and OBJECT.hex() in str(error)
            assert OBJECT not in two.store.objects

    def test_a_node_that_is_gone_is_noticed(self, tmp_path: Path) -> None:
        with self.cluster(tmp_path) as cluster:
            one, two = cluster.node(), cluster.node()
            one.store.put(OBJECT, DATA)
            one.close()
            assert isinstance(cluster.pull(two, OBJECT, len(DATA), [one]), ObjectLostError)

    def test_with_its_owner_the_pull_of_an_object_ends(self, tmp_path: Path) -> None:
        with self.cluster(tmp_path) as cluster, closing(socket.create_server(("127.0.0.1", 0))) as silent:
            node, place = cluster.node(), "{}:{}".format(*silent.getsockname())
            came: list[Exception | None] = []
            ticket = node.links.pull(OBJECT, len(DATA), OWNER, [place], came.append)
            assert ticket.waits and OBJECT.hex() in node.links.explain(OBJECT)
            assert node.links.explain(OTHER) == ""
            node.links.owner_left(OWNER)
            cluster.until(lambda: bool(came))
            assert isinstance(came[0], OwnerDiedError) and not ticket.waits

    def test_who_has_cancelled_is_not_called_back(self, tmp_path: Path) -> None:
        with self.cluster(tmp_path) as cluster:
            one, two = cluster.node(), cluster.node()
            one.store.put(OBJECT, DATA)
            came: list[Exception | None] = []
            ticket = two.links.pull(OBJECT, len(DATA), OWNER, [one.network.place], came.append)
            ticket.cancel()
            ticket.cancel()
            assert not ticket.waits
            assert cluster.pull(two, OBJECT, len(DATA), [one]) is None and came == []

    def test_messages_arrive_in_order(self, tmp_path: Path) -> None:
        with self.cluster(tmp_path) as cluster:
            one, two = cluster.node(), cluster.node()
            messages = [(number, b"x" * number) for number in range(200)]
            for message in messages:
                one.links.forward(two.network.place, PROCESS, message)
            cluster.until(lambda: len(two.delivered) >= len(messages))
            assert two.delivered == [(PROCESS, message) for message in messages]
            two.links.forward(one.network.place, PROCESS, (1,))
            cluster.until(lambda: bool(one.delivered))
            assert one.delivered == [(PROCESS, (1,))]

    def test_orders_about_objects_arrive(self, tmp_path: Path) -> None:
        with self.cluster(tmp_path) as cluster:
            one, two = cluster.node(), cluster.node()
            one.links.keep(two.network.place, OBJECT)
            one.links.delete(two.network.place, [OBJECT, OTHER])
            cluster.until(lambda: bool(two.store.deleted))
            assert (two.store.kept, two.store.deleted) == ([OBJECT], [OBJECT, OTHER])

    def test_nobody_without_the_token_is_heard(self, tmp_path: Path) -> None:
        with self.cluster(tmp_path) as cluster:
            node, stranger = cluster.node(), cluster.node(token=WRONG_TOKEN)
            node.store.put(OBJECT, DATA)
            stranger.links.forward(node.network.place, PROCESS, (1, "secret"))
            stranger.links.delete(node.network.place, [OBJECT])
            error = cluster.pull(stranger, OBJECT, len(DATA), [node])
            assert isinstance(error, ObjectLostError)
            cluster.until(lambda: bool(node.refused))
            assert node.delivered == [] and node.store.deleted == []

    def test_a_port_that_somebody_else_has_is_not_to_be_had(self, tmp_path: Path) -> None:
        with self.cluster(tmp_path) as cluster, closing(socket.create_server(("127.0.0.1", 0))) as taken:
            place = "{}:{}".format(*taken.getsockname())
            try:
                cluster.node(listen=place)
            except OptionError as error:
                assert place in str(error)
            else:
                raise AssertionError("a network has a port that somebody else has")
            assert cluster.node(listen=place, any_port=True).network.place != place

    def test_others_are_told_what_is_advertised(self, tmp_path: Path) -> None:
        with self.cluster(tmp_path) as cluster:
            place = cluster.node(advertised="node.example:0").network.place
            assert place.startswith("node.example:") and not place.endswith(":0")

    def test_a_process_is_reached_through_its_node(self) -> None:
        with TemporaryDirectory() as root, self.cluster(Path(root)) as cluster:  # pytest's may be too long for sockets
            node, elsewhere = cluster.node(), cluster.node()
            there, here = cluster.process(node), cluster.process(elsewhere)
            connection = here.connect(node.network.place, there.id.hex())
            messages = [(number, b"x" * 50_000 * number) for number in range(20)]
            for message in messages:
                connection.send(message)
            connection.flush()
            cluster.until(lambda: len(here.answers) >= len(messages))
            assert there.heard == here.answers == messages and node.refused == []

    def test_a_target_that_a_node_serves_is_reached(self) -> None:
        with TemporaryDirectory() as root, self.cluster(Path(root)) as cluster:
            node = cluster.node()
            process, heard = cluster.process(node), []
            node.network.serve("head", lambda connection, messages: heard.extend(messages), lambda *end: None)
            connection = process.connect(node.network.place, "head")
            connection.send((1, "hello"))
            connection.flush()
            cluster.until(lambda: bool(heard))
            assert heard == [(1, "hello")]

    def test_who_asks_for_nobody_is_told_so(self) -> None:
        with TemporaryDirectory() as root, self.cluster(Path(root)) as cluster:
            node = cluster.node()
            process = cluster.process(node)
            connection = process.connect(node.network.place, "f" * 16)
            connection.send((1, "hello"))
            cluster.until(lambda: bool(process.ends))
            assert "nobody of that name is there" in process.ends[0] and connection.outbox == [(1, "hello")]
            cluster.until(lambda: bool(node.refused))

    def test_a_process_hears_nobody_without_the_token(self) -> None:
        with TemporaryDirectory() as root, self.cluster(Path(root)) as cluster:
            node = cluster.node()
            there, stranger = cluster.process(node), cluster.process(node, WRONG_TOKEN)
            connection = stranger.connect(node.network.place, there.id.hex())
            connection.send((1, "hello"))
            connection.flush()
            cluster.until(lambda: bool(there.refused and stranger.ends))
            assert there.heard == []

    def test_a_program_outside_is_reached_by_way_of_the_relay(self, tmp_path: Path) -> None:
        if not self.relays:
            return
        with self.cluster(tmp_path) as cluster:
            head = cluster.node()
            relay = head.network.open_relay()
            cluster.stack.callback(relay.close)
            outside = cluster.outside(head)
            relay.member(head.network.place, True)
            relay.member(outside.network.place, True)
            outside.links.forward(head.network.place, PROCESS, (1,))
            head.links.forward(outside.network.place, PROCESS, (2,))
            cluster.until(lambda: bool(head.delivered and outside.delivered))
            assert (head.delivered, outside.delivered) == ([(PROCESS, (1,))], [(PROCESS, (2,))])
            outside.store.put(OBJECT, DATA)
            assert cluster.pull(head, OBJECT, len(DATA), [outside]) is None
            assert head.store.read(OBJECT) == DATA

    def test_without_a_relay_a_program_outside_is_told_so(self, tmp_path: Path) -> None:
        if not self.relays:
            return
        with self.cluster(tmp_path) as cluster:
            gone = cluster.node()
            gone.close()
            try:
                cluster.node(relay=gone.network.place)
            except SessionEndedError as error:
                assert gone.network.place in str(error)
            else:
                raise AssertionError("a network was opened whose relay is not there")


class PlayedStore:
    """A store that has all that was put, and room for more."""

    def __init__(self) -> None:
        self.server = self
        self.objects: dict[ObjectId, bytearray] = {}
        self.sealed: set[ObjectId] = set()
        self.pins: list[ObjectId] = []
        self.kept: list[ObjectId] = []
        self.deleted: list[ObjectId] = []
        self._answers: dict[ProcessId, Callable[[int, Any, Exception | None], None]] = {}

    def put(self, object: ObjectId, data: bytes) -> None:
        """Store an object."""
        self.objects[object] = bytearray(data)
        self.sealed.add(object)

    def read(self, object: ObjectId) -> bytes:
        """Return an object, which is complete."""
        assert object in self.sealed, "the object is not sealed"
        return bytes(self.objects[object])

    def view(self, location: contract.Location, size: int) -> memoryview:
        """Return the memory of an object."""
        return memoryview(self.objects[location])[:size]

    def serve_locally(self, client: ProcessId, answer: Callable[[int, Any, Exception | None], None]) -> None:
        """Take a client."""
        self._answers[client] = answer

    def create(self, event: contract.Create) -> None:
        """Make room at once."""
        self.objects[event.object] = bytearray(event.size)
        self._answers[event.client](event.request, event.object, None)

    def seal(self, event: contract.Seal) -> None:
        """An object is complete."""
        self.sealed.add(event.object)
        if event.pin:
            self.pins.append(event.object)

    def handle(self, event: contract.StoreEvent) -> None:
        """Pin what there is, and forget what is given up."""
        if isinstance(event, contract.Pin):
            if event.object in self.sealed:
                self.pins.append(event.object)
                self._answers[event.client](event.request, (event.object, len(self.objects[event.object])), None)
            else:
                self._answers[event.client](event.request, None, ObjectLostError("it is not in the store"))
        elif isinstance(event, contract.Unpin):
            self.pins.remove(event.object)
        elif isinstance(event, contract.Abort):
            self.objects.pop(event.object, None)

    def keep(self, object: ObjectId) -> None:
        """Note it."""
        self.kept.append(object)

    def delete(self, objects: Sequence[ObjectId]) -> None:
        """Note them."""
        self.deleted += objects


class PlayedNode:
    """A node: its network and its store. `delivered` is what came for its processes, `refused` who was turned away."""

    def __init__(self, network: Network, loop: Loop, settings: NetworkSettings) -> None:
        self.delivered: list[tuple[ProcessId, Message]] = []
        self.refused: list[str] = []
        self.directory = Path(settings.directory)
        self.store = PlayedStore()
        self.network = network.open_node(settings, loop, self.refused.append)
        self.links = self.network.link(self.store, lambda process, message: self.delivered.append((process, message)))
        self.network.begin()
        self.closed = False

    def close(self) -> None:
        """End it. Calling it again does nothing."""
        if not self.closed:
            self.closed = True
            self.links.close()
            self.network.close()


class PlayedCluster:
    """Nodes that share one loop."""

    def __init__(self, network: Network, loop: Loop, directory: Path, stack: ExitStack) -> None:
        self.stack = stack
        self._network = network
        self._loop = loop
        self._directory = directory
        self._nodes: list[PlayedNode] = []
        self._processes: list[PlayedProcess] = []
        stack.callback(loop.close)

    def node(self, token: bytes = TOKEN, listen: str = LOOPBACK, relay: str = "", **settings: Any) -> PlayedNode:
        """Add a node, until the end."""
        number = len(self._nodes) + 1
        directory = self._directory / str(number)
        for name in ("sockets", "logs"):
            (directory / name).mkdir(parents=True, exist_ok=True)
        listen = "" if relay else listen
        told = NetworkSettings(NodeId(bytes([number] * 8)), str(directory), token, listen, relay=relay, **settings)
        node = PlayedNode(self._network, self._loop, told)
        self._nodes.append(node)
        self.stack.callback(node.close)
        return node

    def process(self, node: PlayedNode, token: bytes = TOKEN) -> PlayedProcess:
        """Add a process of a node, until the end."""
        process = PlayedProcess(self._network, self._loop, node.directory, token)
        self._processes.append(process)
        self.stack.callback(process.close)
        return process

    def outside(self, head: PlayedNode) -> PlayedNode:
        """Add a program outside, whose relay is beside the head."""
        return self.node(relay=head.network.place)

    def pull(self, node: PlayedNode, object: ObjectId, size: int, sources: Sequence[PlayedNode]) -> Exception | None:
        """Have a node pull an object, and return how that ended."""
        came: list[Exception | None] = []
        node.links.pull(object, size, OWNER, [source.network.place for source in sources], came.append)
        self.until(lambda: bool(came))
        assert len(came) == 1, "called back more than once"
        return came[0]

    def until(self, condition: Callable[[], bool]) -> None:
        """Run the loop until something has happened."""
        deadline = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"it never came; refused: {[node.refused for node in self._nodes]}"
            for node in self._nodes:
                if not node.closed:
                    node.links.flush()
            for process in self._processes:
                process.take()
            self._loop.poll(0.01)

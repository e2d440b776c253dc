"""Objects between nodes: real stores, real sockets, and what can go wrong with them."""

from __future__ import annotations

import os
import random
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernel_network_tcp.transfer import fetching, protocol
from kernel_network_tcp.transfer.limits import TransferLimits
from kernel_network_tcp.transfer.sockets import shut
from kernel_store_plasma.store import PlasmaStore

from kernel.defaults.object_store import LocalObjectStore
from kernel.testing.faults import wait_until
from kernel.testing.transfer_node import CLIENT, OWNER, WORKER, TransferNode
from kernel_processes.node import store_patience
from kernel_spec.errors import ObjectLostError, ObjectStoreFullError, OwnerDiedError
from kernel_spec.ids import ObjectId, ProcessId
from kernel_spec.store import ClientLeft, Create, Delete, Pin, Seal, Unpin

CHUNK = 1 << 16
LIMITS = TransferLimits(
    chunk_bytes=CHUNK, wait_seconds=0.5, stall_seconds=600.0, longest_retry_seconds=0.3, patience_seconds=600.0
)
ROOM = 1 << 26
SECONDS = 120.0
"""How long anything may take: the machine may be busy."""
Nodes = Callable[..., TransferNode]


def name(index: int = 0) -> ObjectId:
    return ObjectId(b"object" + index.to_bytes(14, "big"))


@pytest.fixture(params=[PlasmaStore, LocalObjectStore], ids=["plasma", "local"])
def make_store(request: pytest.FixtureRequest) -> Callable[[], Any]:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def nodes(tmp_path: Any, make_store: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    """Make nodes; at the end their invariants hold, and nothing is held for transfers."""
    monkeypatch.setattr(store_patience, "PATIENCE_SECONDS", SECONDS)
    made: list[TransferNode] = []

    def make(room: int = ROOM, limits: TransferLimits = LIMITS) -> TransferNode:
        made.append(TransferNode(make_store(), room, str(tmp_path), limits))
        return made[-1]

    yield make
    try:
        for node in (node for node in made if not node.closed):
            node.validate()
            wait_until(lambda node=node: not held_for_transfers(node), SECONDS, "the end of all pins")  # type: ignore[misc]
    finally:
        for node in made:
            node.close()


def held_for_transfers(node: TransferNode) -> list[str]:
    rows = node.call(node.server.objects)
    return [row.object.hex() for row in rows if CLIENT in row.pins or row.state == "writing"]


def sent_in_all(count: int, *by: TransferNode) -> None:
    """Check how many bytes were sent; they are counted a moment after they have come."""
    wait_until(
        lambda: sum(node.transfer.uploads.sent_bytes for node in by) >= count, SECONDS, f"the sending of {count} bytes"
    )
    assert sum(node.transfer.uploads.sent_bytes for node in by) == count


class Impostor:
    """A source that answers every request with what `answer(want)` returns, and then goes on or ends (None).

    With `ends` it ends after its next answer.
    """

    def __init__(self, answer: Callable[[protocol.Want], bytes | None]) -> None:
        self._answer = answer
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._accepted: list[socket.socket] = []
        self.address = "{}:{}".format(*self._listening.getsockname())
        self.asked = 0
        self.ends = False
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)  # wakes its thread, which closing does not
        self._listening.close()
        for sock in self._accepted:
            sock.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listening.accept()
            except OSError:
                return
            self._accepted.append(sock)
            threading.Thread(target=self._serve, args=[sock], daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        received = b""
        try:
            while data := sock.recv(1000):
                received += data
                while (found := protocol.decode_request(received)) is not None:
                    request, length = found
                    received = received[length:]
                    if isinstance(request, protocol.Want):
                        self.asked += 1
                        answer = self._answer(request)
                        if answer is None:
                            sock.close()
                            return
                        sock.sendall(answer)
                        if self.ends:
                            sock.close()
                            return
        except OSError:
            return


@pytest.fixture
def impostor() -> Iterator[Callable[..., Impostor]]:
    made: list[Impostor] = []

    def make(answer: Callable[[protocol.Want], bytes | None]) -> Impostor:
        made.append(Impostor(answer))
        return made[-1]

    yield make
    for each in made:
        each.close()


# -- two nodes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 1000, CHUNK, CHUNK + 1, 20 * CHUNK + 7])
def test_an_object_is_copied_from_store_to_store(nodes: Nodes, size: int) -> None:
    a, b = nodes(), nodes()
    data = os.urandom(size)
    a.put(name(), data)
    b.pull(name(), size, [a.address]).result(SECONDS)
    assert b.read(name()) == data == a.read(name())
    (row,) = b.call(b.server.objects)
    assert (row.owner, row.state, dict(row.pins)) == (OWNER, "sealed", {})
    sent_in_all(size, a)


def test_several_pulls_of_one_object_are_one(nodes: Nodes) -> None:
    a, b = nodes(), nodes()
    data = os.urandom(30 * CHUNK)
    a.put(name(), data)
    pulls = [b.pull(name(), len(data), [a.address]) for _ in range(5)]
    for pull in pulls:
        pull.result(SECONDS)
    sent_in_all(len(data), a)


def test_what_is_here_is_not_pulled(nodes: Nodes) -> None:
    a = nodes()
    a.put(name(), b"here")
    assert a.pull(name(), 4, ["127.0.0.1:1"]).result(SECONDS) is None
    assert a.read(name()) == b"here" and a.sockets == []


def test_many_objects_share_few_connections(nodes: Nodes) -> None:
    a, b = nodes(), nodes()
    for index in range(300):
        a.put(name(index), b"%d" % index * 100)
    pulls = [b.pull(name(i), len(b"%d" % i * 100), [a.address], urgent=i % 2 == 0) for i in range(300)]
    for pull in pulls:
        pull.result(SECONDS)
    assert all(b.read(name(index)) == b"%d" % index * 100 for index in range(300))
    assert len(b.sockets) <= LIMITS.threads


def test_two_sources_are_one_object(nodes: Nodes) -> None:
    a, b, c = nodes(), nodes(), nodes()
    data = os.urandom(100 * CHUNK)
    a.put(name(), data)
    b.put(name(), data)
    c.pull(name(), len(data), [a.address, b.address]).result(SECONDS)
    assert c.read(name()) == data
    sent_in_all(len(data), a, b)


def test_two_sources_both_give(nodes: Nodes, impostor: Callable[..., Impostor]) -> None:
    """None gives its next chunk before the other was asked for as many, up to a tenth of all."""
    data = os.urandom(100 * CHUNK)
    asked, turn = [0, 0], threading.Condition()

    def source(mine: int) -> Impostor:
        def answer(want: protocol.Want) -> bytes:
            with turn:
                asked[mine] += 1
                number = asked[mine]
                turn.notify_all()
                assert turn.wait_for(lambda: asked[1 - mine] >= min(number, 11), SECONDS)
            return protocol.encode_bytes_head(want.length) + data[want.offset : want.offset + want.length]

        return impostor(answer)

    node = nodes()
    node.pull(name(), len(data), [source(0).address, source(1).address]).result(SECONDS)
    assert node.read(name()) == data
    assert sum(asked) == 100 and min(asked) > 10


def test_a_spilled_object_is_restored_first(nodes: Nodes, make_store: Callable[[], Any]) -> None:
    a, b = nodes(room=3 * CHUNK), nodes()
    if a.server.name == "local":
        a = nodes()  # it never spills
    data = [os.urandom(2 * CHUNK) for _ in range(3)]
    for index in range(3):
        a.put(name(index), data[index])
    for index in range(3):
        b.pull(name(index), 2 * CHUNK, [a.address]).result(SECONDS)
        assert b.read(name(index)) == data[index]


def test_what_is_being_written_at_the_source_is_waited_for(nodes: Nodes) -> None:
    a, b = nodes(), nodes()
    locations: list[int] = []
    a.store.serve_locally(ProcessId(b"writer--"), lambda request, location, error: locations.append(location))
    a.call(lambda: a.store.create(Create(ProcessId(b"writer--"), 1, name(), 5, OWNER)))
    pull = b.pull(name(), 5, [a.address])
    wait_until(lambda: a.transfer.uploads.table.shares, SECONDS, "the request")
    a.server.view(locations[0], 5)[:] = b"there"
    a.call(lambda: a.store.seal(Seal(ProcessId(b"writer--"), name())))
    pull.result(SECONDS)
    assert b.read(name()) == b"there"


# -- what can go wrong ---------------------------------------------------------------------------------------------


def test_no_source_can_give_it(nodes: Nodes) -> None:
    a, b, c = nodes(), nodes(), nodes()
    c.put(name(), b"other size")
    with pytest.raises(ObjectLostError) as caught:
        b.pull(name(), 2 * CHUNK, [a.address, c.address, "127.0.0.1:1"]).result(SECONDS)
    text = str(caught.value)
    for part in (
        f"object {name().hex()} of {2 * CHUNK} bytes can't be fetched from another node",
        f"{a.address} has not got it",
        f"{c.address} has 10 bytes under that name, where {2 * CHUNK} were asked for",
        "127.0.0.1:1 failed: [Errno 111] Connection refused",
        "see whether these nodes live",
    ):
        assert part in text, f"the message lacks {part!r}: {text}"
    assert b.usage().used == 0


def test_connections_that_are_cut_again_and_again_lose_nothing(nodes: Nodes) -> None:
    limits = replace(LIMITS, failures_per_source=1000, retry_seconds=0.01, longest_retry_seconds=0.02)
    a, b = nodes(), nodes(limits=limits)
    data = os.urandom(200 * CHUNK)
    a.put(name(), data)
    chance, cuts = random.Random(3), 0
    while cuts <= 5 or len(b.sockets) <= 5:  # a pull may be over before it is cut
        pull = b.pull(name(), len(data), [a.address])
        while not pull.done():
            if b.sockets:
                sock = chance.choice(b.sockets)
                if sock.fileno() >= 0:
                    shut(sock)
                    cuts += 1
            threading.Event().wait(0.001)
        pull.result(0)
        assert b.read(name()) == data
        b.say(Delete([name()]))


def test_after_a_cut_what_is_there_is_not_sent_again(nodes: Nodes, impostor: Callable[..., Impostor]) -> None:
    data = os.urandom(CHUNK)
    added = threading.Event()

    def half(want: protocol.Want) -> bytes | None:
        if fake.asked == 1:
            fake.ends = True
            return protocol.encode_bytes_head(want.length) + data[: CHUNK // 2]
        assert added.wait(SECONDS)
        return None

    fake = impostor(half)
    # The source learns of no end when a part of one chunk was fetched: it waits for more, for as long as a stall is.
    a, b = nodes(limits=replace(LIMITS, stall_seconds=1.0)), nodes()
    a.put(name(), data)
    pull = b.pull(name(), CHUNK, [fake.address])
    wait_until(lambda: fake.asked, SECONDS, "the request")
    b.call(lambda: b.transfer.add_sources(name(), [a.address]))
    added.set()
    pull.result(SECONDS)
    assert b.read(name()) == data
    sent_in_all(CHUNK - CHUNK // 2, a)


def test_a_source_that_stalls_is_left_for_another(nodes: Nodes, impostor: Callable[..., Impostor]) -> None:
    data = os.urandom(10 * CHUNK)
    fake = impostor(lambda want: protocol.encode_bytes_head(want.length) + data[want.offset : want.offset + 4])
    a, b = nodes(), nodes(limits=replace(LIMITS, stall_seconds=1.0))
    a.put(name(), data)
    b.pull(name(), len(data), [fake.address, a.address]).result(SECONDS)
    assert b.read(name()) == data


def test_a_source_that_only_stalls_is_named(nodes: Nodes, impostor: Callable[..., Impostor]) -> None:
    fake = impostor(lambda want: protocol.encode_bytes_head(want.length))
    b = nodes(limits=replace(LIMITS, stall_seconds=1.0, failures_per_source=1))
    with pytest.raises(ObjectLostError, match=f"{fake.address} stalled after 0 of 100 bytes"):
        b.pull(name(), 100, [fake.address]).result(SECONDS)
    assert b.usage().used == 0


@pytest.mark.parametrize("always", [True, False])
def test_wrong_bytes_are_fetched_again(
    nodes: Nodes,
    impostor: Callable[..., Impostor],
    always: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Where checksums are always wanted, and where bytes cross a network without TLS."""
    if not always:
        monkeypatch.setattr(fetching, "crosses_a_network", lambda sock: True)
    fake = impostor(lambda want: protocol.encode_bytes_head(want.length, 12345) + bytes(want.length))
    limits = replace(LIMITS, checksums=always)
    a, b, c = nodes(limits=limits), nodes(limits=limits), nodes(limits=replace(limits, failures_per_source=1))
    data = os.urandom(10 * CHUNK)
    a.put(name(), data)
    b.pull(name(), len(data), [fake.address, a.address]).result(SECONDS)
    assert b.read(name()) == data
    assert "arrived damaged and are fetched again" in capsys.readouterr().out
    with pytest.raises(ObjectLostError, match="sent wrong bytes: the checksum of 100 from 0 on differs"):
        c.pull(name(), 100, [fake.address]).result(SECONDS)


@pytest.mark.parametrize("kind", [protocol.DAMAGED, protocol.ABSENT])
def test_a_copy_is_kept_when_another_was_lost(nodes: Nodes, impostor: Callable[..., Impostor], kind: int) -> None:
    """The one that was lost may be the one that counted; those that are left could all be dropped."""
    fake = impostor(lambda want: protocol.encode_text(kind, "has none to give"))
    a, b = nodes(), nodes()
    a.put(name(), bytes(100))
    b.pull(name(), 100, [fake.address, a.address]).result(SECONDS)
    assert fake.asked
    (row,) = b.call(b.server.objects)
    assert row.weak is (kind == protocol.ABSENT)


class Ends:
    """A socket, as far as where its ends are."""

    family = socket.AF_INET

    def __init__(self, own: str, peer: str) -> None:
        self.getsockname = lambda: (own, 1)
        self.getpeername = lambda: (peer, 2)


def test_which_connections_need_checksums() -> None:
    crosses: Callable[[Any], bool] = fetching.crosses_a_network
    assert crosses(Ends("10.0.0.1", "10.0.0.2")) and crosses(Ends("fe80::1%eth0", "fe80::2%eth0"))
    assert not crosses(Ends("10.0.0.1", "10.0.0.1")) and not crosses(Ends("127.0.0.1", "127.0.0.2"))
    assert not crosses(Ends("::1", "::1"))
    secured: Any = Ends("10.0.0.1", "10.0.0.2")
    secured.getpeercert = None
    assert not crosses(secured)
    for one in socket.socketpair():
        with one:
            assert not crosses(one)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "failed: it answered in version 72 of object transfer"),
        (protocol.encode_bytes_head(7) + bytes(7), "failed: it answered with 7 bytes where 100 were asked for"),
        (protocol.encode_text(protocol.DAMAGED, "can't read its copy: no disk"), "can't read its copy: no disk"),
        (None, "failed: closed the connection after 0 of 10 bytes"),
    ],
)
def test_nonsense_from_a_source_is_named(
    nodes: Nodes, impostor: Callable[..., Impostor], answer: bytes | None, text: str
) -> None:
    fake = impostor(lambda want: answer)
    b = nodes(limits=replace(LIMITS, failures_per_source=1))
    with pytest.raises(ObjectLostError) as caught:
        b.pull(name(), 100, [fake.address]).result(SECONDS)
    assert f"{fake.address} {text}" in str(caught.value)


def test_strangers_cost_nothing(nodes: Nodes) -> None:
    a, b = nodes(), nodes()
    data = os.urandom(10 * CHUNK)
    a.put(name(), data)
    want = protocol.encode_request(protocol.Want(name(), len(data), 0, CHUNK, 0.1, "nobody:1"))
    for noise in (os.urandom(100), b"\x01" + os.urandom(1 << 20), want[:30], want + want, b"\x01" * 48):
        with a.connect(a.address) as sock, suppress(ConnectionError):  # it may be refused before all of it is sent
            sock.sendall(noise)
    silent = [a.connect(a.address) for _ in range(20)]
    b.pull(name(), len(data), [a.address]).result(SECONDS)
    assert b.read(name()) == data
    for sock in silent:
        sock.close()
    wait_until(
        lambda: len(a.transfer.uploads._peers) <= LIMITS.asks_per_source,
        SECONDS,
        "the end of the strangers' connections",
    )


# -- room ----------------------------------------------------------------------------------------------------------


def test_what_can_never_fit_goes_into_a_file_and_from_there_to_others(nodes: Nodes) -> None:
    a, b, c = nodes(), nodes(room=CHUNK), nodes(room=CHUNK)
    data = os.urandom(2 * CHUNK + 7)
    a.put(name(), data)
    for node, source in ((b, a), (c, b)):
        node.pull(name(), len(data), [source.address]).result(SECONDS)
        assert node.read(name()) == data
        usage = node.usage()
        assert (usage.used, usage.overflow, usage.overflow_objects, usage.objects) == (0, len(data), 1, 1)
        node.say(Delete([name()])) if node is c else None
    assert c.usage().overflow == 0
    wait_until(lambda: not os.listdir(os.path.join(c.spill.directory, "overflow")), SECONDS, "the end of the file")


def test_what_can_go_nowhere_fails_as_the_store_and_the_disk_say(nodes: Nodes) -> None:
    a, b = nodes(), nodes(room=CHUNK)
    a.put(name(), bytes(2 * CHUNK))
    Path(b.spill.directory, "overflow").touch()  # no directory can be made there
    with pytest.raises(ObjectStoreFullError, match=r"can't be kept in a file either.* spill_directory"):
        b.pull(name(), 2 * CHUNK, [a.address]).result(SECONDS)


def test_a_pull_waits_for_room(nodes: Nodes) -> None:
    a, b = nodes(), nodes(room=3 * CHUNK)
    a.put(name(0), bytes(2 * CHUNK))
    b.put(name(1), bytes(2 * CHUNK))
    b.pin(name(1))
    pull = b.pull(name(0), 2 * CHUNK, [a.address])
    wait_until(lambda: b.usage().waiting, SECONDS, "waiting for room")
    assert "waits for room" in b.call(lambda: b.transfer.explain(name(0)))
    b.say(Delete([name(1)]))
    assert not pull.done()
    b.say(Unpin(WORKER, name(1)))
    pull.result(SECONDS)
    assert b.read(name(0)) == bytes(2 * CHUNK)


def test_a_copy_makes_room_before_anything_is_spilled_and_may_be_pulled_again(nodes: Nodes) -> None:
    a, b = nodes(), nodes(room=3 * CHUNK)
    data = os.urandom(2 * CHUNK)
    a.put(name(0), data)
    b.pull(name(0), len(data), [a.address]).result(SECONDS)
    b.put(name(1), bytes(2 * CHUNK))
    assert b.usage().spilled == 0
    with pytest.raises(ObjectLostError, match="dropped"):
        b.read(name(0))
    b.say(Delete([name(1)]))
    b.pull(name(0), len(data), [a.address]).result(SECONDS)
    assert b.read(name(0)) == data


def test_a_copy_to_keep_is_an_object_like_any_other(nodes: Nodes) -> None:
    a, b = nodes(), nodes()
    for index in range(2):
        a.put(name(index), bytes(CHUNK))
    b.pull(name(0), CHUNK, [a.address]).result(SECONDS)
    b.pull(name(1), CHUNK, [a.address], keep=True).result(SECONDS)
    assert {row.object: row.weak for row in b.call(b.server.objects)} == {name(0): True, name(1): False}
    b.pull(name(0), CHUNK, [a.address], keep=True).result(SECONDS)
    assert not any(row.weak for row in b.call(b.server.objects))


def test_who_waited_for_a_copy_pins_it_before_others_who_wait_for_room_have_it_dropped(nodes: Nodes) -> None:
    a, b = nodes(), nodes(room=3 * CHUNK)
    data = os.urandom(2 * CHUNK)
    a.put(name(0), data)
    b.put(name(1), bytes(CHUNK))
    b.pin(name(1))

    def pull(copied: Any) -> None:
        def then(error: Exception | None) -> None:
            assert error is None
            b.store.handle(Pin(WORKER, b._expect(copied), name(0)))

        b.transfer.pull(name(0), len(data), OWNER, [a.address], then)
        b.store.handle(Create(WORKER, b._expect(waiting), name(2), len(data), OWNER))

    waiting: Any = Future()
    b.begin(pull).result(SECONDS)
    assert not waiting.done() and b.read(name(0)) == data
    b.say(Unpin(WORKER, name(0)))
    waiting.result(SECONDS)
    b.say(Seal(WORKER, name(2)))
    b.say(Unpin(WORKER, name(1)))


def test_who_waits_for_room_no_more_leaves_nothing(nodes: Nodes) -> None:
    a, b = nodes(), nodes(room=3 * CHUNK)
    a.put(name(0), bytes(2 * CHUNK))
    b.put(name(1), bytes(2 * CHUNK))
    b.pin(name(1))
    pull = b.pull(name(0), 2 * CHUNK, [a.address])
    wait_until(lambda: b.usage().waiting, SECONDS, "waiting for room")
    b.cancel(pull)
    assert b.usage().waiting == 0 and not b.transfer.pulls
    b.say(Unpin(WORKER, name(1)))


def test_the_last_who_waits_ends_the_pull_and_frees_its_room(nodes: Nodes, impostor: Callable[..., Impostor]) -> None:
    fake = impostor(lambda want: protocol.encode_bytes_head(want.length) + b"some")
    b = nodes(limits=replace(LIMITS, stall_seconds=600.0))
    first, second = (b.pull(name(), 10 * CHUNK, [fake.address]) for _ in range(2))
    wait_until(lambda: fake.asked, SECONDS, "the request")
    b.cancel(first)
    assert b.usage().used == 10 * CHUNK
    b.cancel(second)
    wait_until(lambda: b.usage().used == 0, SECONDS, "the room")
    assert not first.done() and not second.done()


def test_who_wants_it_again_while_it_is_being_given_up_gets_it(nodes: Nodes, impostor: Callable[..., Impostor]) -> None:
    fake = impostor(lambda want: protocol.encode_bytes_head(want.length) + b"some")
    a, b = nodes(), nodes(limits=replace(LIMITS, stall_seconds=600.0))
    data = os.urandom(10 * CHUNK)
    a.put(name(), data)
    pull = b.pull(name(), len(data), [fake.address])
    wait_until(lambda: fake.asked, SECONDS, "the request")
    results: list[Exception | None] = []

    def again() -> None:
        b.transfer._tickets[name()][0].cancel()
        b.transfer.pull(name(), len(data), OWNER, [a.address], results.append).cancel()
        b.transfer.pull(name(), len(data), OWNER, [a.address], results.append)

    b.call(again)
    wait_until(lambda: results, SECONDS, "the second pull")
    assert results == [None] and not pull.done()
    assert b.read(name()) == data


def test_the_end_of_its_owner_ends_a_pull(nodes: Nodes, impostor: Callable[..., Impostor]) -> None:
    fake = impostor(lambda want: protocol.encode_bytes_head(want.length) + b"some")
    b = nodes(limits=replace(LIMITS, stall_seconds=600.0))
    pull = b.pull(name(), 10 * CHUNK, [fake.address])
    wait_until(lambda: fake.asked, SECONDS, "the request")
    b.ended.add(OWNER)
    b.call(lambda: (b.store.client_left(OWNER), b.transfer.owner_left(OWNER)))
    with pytest.raises(OwnerDiedError, match=f"object {name().hex()} is not fetched to this node: process"):
        pull.result(SECONDS)
    assert b.usage().used == 0
    with pytest.raises(OwnerDiedError, match="is not stored"):
        b.pull(name(), 10, [fake.address]).result(SECONDS)


def test_the_end_of_its_owner_deletes_the_copy(nodes: Nodes) -> None:
    a, b = nodes(), nodes()
    a.put(name(), bytes(CHUNK))
    b.pull(name(), CHUNK, [a.address]).result(SECONDS)
    assert b.usage().used == CHUNK
    b.say(ClientLeft(OWNER))
    assert b.usage().used == 0


def test_no_more_bytes_are_in_flight_than_allowed(nodes: Nodes) -> None:
    limits = replace(LIMITS, bytes_in_flight=5 * CHUNK)
    a, b = nodes(), nodes(limits=limits)
    for index in range(20):
        a.put(name(index), bytes(2 * CHUNK))
    seen: list[int] = []

    def look() -> None:
        seen.append(sum(b.transfer.queue.running.values()))
        if b.transfer.pulls:
            b.reactor.call_later(0.0, look)

    pulls = [b.pull(name(index), 2 * CHUNK, [a.address]) for index in range(20)]
    b.call(look)
    for pull in pulls:
        pull.result(SECONDS)
    assert max(seen) <= 5 * CHUNK


def test_closing_in_the_middle_waits_for_nobody(nodes: Nodes, impostor: Callable[..., Impostor]) -> None:
    fake = impostor(lambda want: protocol.encode_bytes_head(want.length) + b"some")
    a, b, c = nodes(), nodes(limits=replace(LIMITS, stall_seconds=600.0)), nodes()
    a.put(name(1), os.urandom(100 * CHUNK))
    b.pull(name(0), 10 * CHUNK, [fake.address])
    b.pull(name(1), 100 * CHUNK, [a.address])
    c.pull(name(1), 100 * CHUNK, [b.address])
    wait_until(lambda: fake.asked, SECONDS, "the request")
    b.close()


# -- broadcast -----------------------------------------------------------------------------------------------------


def test_a_broadcast_is_a_tree(nodes: Nodes) -> None:
    source, others = nodes(), [nodes() for _ in range(8)]
    data = os.urandom(100 * CHUNK)
    source.put(name(), data)
    pulls = [node.pull(name(), len(data), [source.address]) for node in others]
    for pull in pulls:
        pull.result(SECONDS)
    assert all(node.read(name()) == data for node in others)
    sent_in_all(8 * len(data), source, *others)
    sent = [node.transfer.uploads.sent_bytes / len(data) for node in (source, *others)]
    assert sent[0] <= 3.0, f"the source sent {sent[0]:.1f} times the object: {sent}"


def test_what_is_still_arriving_is_passed_on(nodes: Nodes, impostor: Callable[..., Impostor]) -> None:
    """The second half comes only after the first was passed on."""
    data = os.urandom(4 * CHUNK)
    go = threading.Event()

    def slowly(want: protocol.Want) -> bytes:
        if want.offset >= 2 * CHUNK:
            assert go.wait(SECONDS)
        return protocol.encode_bytes_head(want.length) + data[want.offset : want.offset + want.length]

    fake = impostor(slowly)
    b, c = nodes(limits=replace(LIMITS, stall_seconds=600.0)), nodes()
    first = b.pull(name(), len(data), [fake.address])
    wait_until(
        lambda: fake.asked > 0, SECONDS, "the first node's beginning"
    )  # one that knows of nothing is not waited for
    second = c.pull(name(), len(data), [b.address])
    wait_until(lambda: b.transfer.uploads.sent_bytes >= 2 * CHUNK, SECONDS, "the first half at the second node")
    assert not first.done()
    go.set()
    second.result(SECONDS)
    first.result(SECONDS)
    assert c.read(name()) == data == b.read(name())


def test_the_death_of_a_node_inside_the_tree_hurts_nobody_else(nodes: Nodes) -> None:
    source, others = nodes(), [nodes() for _ in range(8)]
    data = os.urandom(400 * CHUNK)
    source.put(name(), data)
    pulls = [node.pull(name(), len(data), [source.address]) for node in others]
    wait_until(lambda: any(inner(node) for node in others), SECONDS, "somebody who passes it on")
    dead = next(index for index, node in enumerate(others) if inner(node))
    others[dead].kill()
    for index, pull in enumerate(pulls):
        if index != dead:
            pull.result(SECONDS)
            assert others[index].read(name()) == data
    others[dead].call(lambda: others[dead].transfer.owner_left(OWNER))


def inner(node: TransferNode) -> bool:
    return node.transfer.uploads.sent_bytes > 0 and bool(node.transfer.pulls)

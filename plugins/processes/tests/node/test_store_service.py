"""What the agent adds to the store: patience, and answers to those who wait."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kernel.testing.faults import wait_until
from kernel_engine.messages import process_messages as op
from kernel_processes.node.overflow_server import OverflowServer
from kernel_processes.node.store_clients import StoreClients
from kernel_processes.node.store_disk import StoreDisk, overflow_text
from kernel_processes.node.store_patience import OVERFLOW_SECONDS, PATIENCE_SECONDS
from kernel_processes.node.store_service import NEWS_SECONDS, StoreService
from kernel_processes.transport.reactor import Reactor
from kernel_spec import store as contract
from kernel_spec.errors import ObjectLostError, ObjectStoreFullError, OutOfDiskError, OwnerDiedError

READER, WRITER = b"reader--", b"writer--"
SPILLED, OTHER = b"spilled-object------", b"other-object--------"


class ScriptedStore:
    """Keeps every pin of `SPILLED` waiting and answers all else at once; a delete has `OTHER` written to disk."""

    name = "scripted"

    def __init__(self) -> None:
        self.waiting: list[contract.Pin] = []
        self.received: list[contract.StoreEvent] = []
        self.instructions: list[contract.StoreInstruction] = []
        """What a `Keep` leads to."""
        self.refused = False
        """Whether there is room for no object."""
        self.closed = False

    def handle(self, event: contract.StoreEvent) -> list[contract.StoreInstruction]:
        self.received.append(event)
        if isinstance(event, contract.Pin) and event.object == SPILLED:
            self.waiting.append(event)
            return []
        if isinstance(event, contract.Create) and self.refused:
            return [contract.Failed(event.client, event.request, ObjectStoreFullError("full"))]
        if isinstance(event, (contract.Create, contract.Pin)):
            return [contract.Reply(event.client, event.request, 0)]
        if isinstance(event, contract.Delete):
            return [contract.WriteSpill(OTHER, 0, 10)]
        if isinstance(event, contract.Keep):
            return self.instructions
        return []

    def close(self) -> None:
        self.closed = True

    def client_options(self) -> dict[str, Any]:
        return {"bytes": 1000}

    def descriptors(self) -> list[int]:
        return [3, 4]

    def view(self, location: int, size: int) -> memoryview:
        return memoryview(bytearray(size))

    def objects(self) -> list[contract.StoredObject]:
        return [contract.StoredObject(one, WRITER, 10, "sealed", {}, one == OTHER) for one in (SPILLED, OTHER)]

    def usage(self) -> contract.StoreUsage:
        return contract.StoreUsage(1000, 900, 900, 800, 100, 2, len(self.waiting))

    def give_up_waiting(self) -> list[contract.StoreInstruction]:
        pins, self.waiting = self.waiting, []
        return [contract.Failed(pin.client, pin.request, ObjectStoreFullError("full")) for pin in pins]


class SlowDisk:
    """Writes nothing before it is let go."""

    name = "slow"

    def __init__(self) -> None:
        self.go = threading.Event()
        self.deleted: list[str] = []
        self.closed = False

    def write(self, object: bytes, data: memoryview) -> str:
        assert self.go.wait(120)
        return "slow:1"

    def delete(self, uri: str) -> None:
        self.deleted.append(uri)

    def close(self) -> None:
        self.closed = True


class Node:
    """A store service over a scripted store, with a clock of its own."""

    def __init__(self, overflow: str = "/nowhere/overflow") -> None:
        self.now = 100.0
        self.answers: dict[int, Any] = {}
        self.observed: list[Any] = []
        self.store = ScriptedStore()
        self.disk = SlowDisk()
        self.reactor = Reactor(lambda: self.now)
        self.sent: list[Any] = []
        self.warned: list[str] = []
        server = OverflowServer(self.store, overflow)  # type: ignore[arg-type]
        disk = StoreDisk(server, self.disk, self.reactor, self.warned.append)  # type: ignore[arg-type]
        clients = StoreClients(self, {b"ended---"})  # type: ignore[arg-type]
        self.service = StoreService(
            server, disk, clients, lambda *observed: self.observed.append(observed), self.reactor
        )

    def send(self, process: bytes, message: Any) -> None:
        self.answers[message[1]] = pickle.loads(message[2])

    def broadcast(self, message: Any) -> None:
        self.sent.append(message)

    def say(self, client: bytes, operation: int, *rest: Any) -> None:
        connection: Any = SimpleNamespace(info=SimpleNamespace(id=client))
        self.service.handlers[operation](connection, (operation, *rest))

    def fill_disk(self) -> None:
        """Let there be no room for files either."""
        self.service.handle(contract.SpillFailed(OTHER, OutOfDiskError("the disk is full")))

    def later(self, seconds: float) -> None:
        self.now += seconds
        self.reactor.poll(0)


def test_what_may_go_into_a_file_is_given_up_sooner() -> None:
    node = Node()
    node.say(READER, op.STORE_PIN, 1, SPILLED)
    node.later(OVERFLOW_SECONDS - 0.1)
    assert 1 not in node.answers
    node.later(0.2)
    assert isinstance(node.answers[1], ObjectStoreFullError), "nobody knows where this one was spilled"


def test_what_may_go_into_a_file_does_not_wait_for_ever_for_others_to_stop() -> None:
    node = Node()
    node.say(READER, op.STORE_PIN, 1, SPILLED)
    for request in range(2, 100):
        if 1 not in node.answers:
            node.later(OVERFLOW_SECONDS / 2)
            node.say(WRITER, op.STORE_CREATE, request, OTHER, 10, WRITER, False)
    assert isinstance(node.answers[1], ObjectStoreFullError)
    assert PATIENCE_SECONDS <= node.now - 100.0 < PATIENCE_SECONDS + 2 * OVERFLOW_SECONDS


def test_a_pin_that_nothing_can_satisfy_fails_after_a_while() -> None:
    node = Node()
    node.fill_disk()
    node.say(READER, op.STORE_PIN, 1, SPILLED)
    node.later(PATIENCE_SECONDS - 0.1)
    assert 1 not in node.answers
    node.later(0.2)
    assert isinstance(node.answers[1], ObjectStoreFullError)


def test_patience_lasts_while_others_are_given_room() -> None:
    node = Node()
    node.fill_disk()
    node.say(READER, op.STORE_PIN, 1, SPILLED)
    node.later(PATIENCE_SECONDS - 1)
    node.say(WRITER, op.STORE_CREATE, 2, OTHER, 10, WRITER, False)
    node.later(PATIENCE_SECONDS - 1)
    assert 1 not in node.answers
    node.later(2)
    assert 1 in node.answers


def test_reading_what_is_in_memory_is_no_movement() -> None:
    node = Node()
    node.fill_disk()
    node.say(READER, op.STORE_PIN, 1, SPILLED)
    for request in range(2, 8):
        node.later(PATIENCE_SECONDS / 5)
        node.say(READER, op.STORE_PIN, request, OTHER)
    assert isinstance(node.answers[1], ObjectStoreFullError)


def test_nothing_is_stored_for_an_owner_that_has_ended() -> None:
    node = Node()
    node.say(WRITER, op.STORE_CREATE, 1, OTHER, 10, b"ended---", False)
    assert isinstance(node.answers[1], OwnerDiedError)
    for part in (OTHER.hex(), b"ended---".hex(), "has ended"):
        assert part in str(node.answers[1])
    node.say(WRITER, op.STORE_CREATE, 2, OTHER, 10, READER, False)
    node.say(WRITER, op.STORE_CREATE, 3, OTHER, 10, WRITER, False)
    assert node.answers[2] == node.answers[3] == 0


def test_a_part_of_the_agent_is_answered_by_a_call() -> None:
    node = Node()
    answers: list[tuple[int, Any, Exception | None]] = []
    node.service.serve_locally(b"inside--", lambda *answer: answers.append(answer))
    node.service.create(contract.Create(b"inside--", 1, OTHER, 10, READER))
    node.service.create(contract.Create(b"inside--", 2, OTHER, 10, b"ended---"))
    assert len(answers) == 2, "each is answered by the time that create() returns"
    assert answers[0] == (1, 0, None)
    assert answers[1][:2] == (2, None) and isinstance(answers[1][2], OwnerDiedError)
    assert not node.answers


def test_who_waits_is_told_for_what() -> None:
    node = Node()
    assert node.service.explain(SPILLED) == "another process is writing it"
    node.say(READER, op.STORE_PIN, 1, SPILLED)
    room = (
        "900 of the store's 1000 bytes are taken, 800 of them by what is in use (`kernel memory` says by whom), "
        "objects that wait for room: 1"
    )
    assert node.service.explain(SPILLED) == room


def test_a_spill_target_that_hangs_is_named() -> None:
    node = Node()
    node.say(WRITER, op.STORE_DELETE, [SPILLED])
    node.later(12)
    assert node.service.explain(SPILLED) == (
        f"object {OTHER.hex()} of 10 bytes is being written to the spill target 'slow' for 12 s now; "
        "see whether its place (spill_directory) answers"
    )
    node.disk.go.set()

    def done() -> bool:
        node.service.finish_disk_work()
        return "slow" not in node.service.explain(SPILLED)

    wait_until(done, 120, "the end of the disk work")


def limited(node: Node) -> None:
    """Let the writer hold one object, and make that."""
    node.service.quotas.limit(WRITER, 15, "its quota")  # type: ignore[arg-type]
    node.say(WRITER, op.STORE_CREATE, 1, SPILLED, 10, WRITER, False)
    assert node.answers.pop(1) == 0


def test_what_exceeds_a_quota_fails_when_nothing_has_become_free() -> None:
    node = Node()
    limited(node)
    node.say(WRITER, op.STORE_CREATE, 2, OTHER, 10, WRITER, False)
    assert 2 not in node.answers
    node.later(NEWS_SECONDS)
    assert isinstance(node.answers[2], ObjectStoreFullError)


def test_news_that_something_is_unneeded_makes_room_in_a_quota() -> None:
    node = Node()
    limited(node)
    node.say(WRITER, op.STORE_CREATE, 2, OTHER, 10, WRITER, False)
    node.service.quotas.gone([SPILLED])  # type: ignore[list-item]
    node.later(NEWS_SECONDS)
    assert node.answers[2] == 0


def test_who_stops_waiting_for_its_quota_makes_nothing() -> None:
    node = Node()
    limited(node)
    node.say(WRITER, op.STORE_CREATE, 2, OTHER, 10, WRITER, False)
    node.say(WRITER, op.STORE_ABORT, OTHER)
    node.service.quotas.gone([SPILLED])  # type: ignore[list-item]
    node.later(NEWS_SECONDS)
    assert 2 not in node.answers


def test_a_weak_object_that_made_room_is_lost_and_says_why() -> None:
    node = Node()
    node.disk.go.set()
    node.service.quotas.limit(WRITER, 15, "its quota")  # type: ignore[arg-type]
    node.say(WRITER, op.STORE_CREATE, 1, OTHER, 10, WRITER, True)
    node.say(WRITER, op.STORE_CREATE, 2, SPILLED, 10, WRITER, False)
    assert node.answers[2] == 0
    node.say(READER, op.STORE_PIN, 3, OTHER)
    assert isinstance(node.answers[3], ObjectLostError)
    assert "the process that made it may hold only so much in the object store" in str(node.answers[3])


def test_what_happens_to_objects_is_observed() -> None:
    node = Node()
    node.say(WRITER, op.STORE_SEAL, OTHER, False)
    assert node.observed == [("object", "STORED", OTHER, {"process": WRITER.hex()})]
    node.say(WRITER, op.STORE_DELETE, [SPILLED, OTHER])
    assert node.observed[1:] == [("object", "FREED", SPILLED, {}), ("object", "FREED", OTHER, {})]
    node.disk.go.set()
    wait_until(lambda: node.later(0.1) or len(node.observed) == 4, 120.0, "the writing of the object")
    assert node.observed[3] == ("object", "SPILLED", OTHER, {"uri": "slow:1"})
    assert contract.SpillDone(OTHER, "slow:1") in node.store.received


def test_what_clients_say_reaches_the_store() -> None:
    node = Node()
    node.say(WRITER, op.STORE_CREATE, 1, OTHER, 10, WRITER, True)
    node.say(WRITER, op.STORE_SEAL, OTHER, True)
    node.say(READER, op.STORE_PIN, 2, OTHER)
    node.say(READER, op.STORE_UNPIN, OTHER)
    node.say(WRITER, op.STORE_ABORT, SPILLED)
    node.service.keep(OTHER)
    node.service.client_left(READER)
    assert node.store.received == [
        contract.Create(WRITER, 1, OTHER, 10, WRITER, True),
        contract.Seal(WRITER, OTHER, True),
        contract.Pin(READER, 2, OTHER),
        contract.Unpin(READER, OTHER),
        contract.Abort(WRITER, SPILLED),
        contract.Keep(OTHER),
        contract.ClientLeft(READER),
    ]
    assert node.answers == {1: 0, 2: 0}


def test_a_client_is_passed_what_it_maps_and_how() -> None:
    passed: list[Any] = []
    connection: Any = SimpleNamespace(send_descriptors=lambda *arguments: passed.append(arguments))
    Node().service.attach(connection)
    ((descriptors, options),) = passed
    assert descriptors == [3, 4] and pickle.loads(options)["bytes"] == 1000


def test_users_are_warned_once_that_an_object_went_into_a_file(tmp_path: Path) -> None:
    node = Node(str(tmp_path / "overflow"))
    node.store.refused = True
    for request in (1, 2):
        node.say(WRITER, op.STORE_CREATE, request, OTHER if request == 1 else SPILLED, 10, WRITER, False)

    def made() -> bool:
        node.service.finish_disk_work()
        return len(node.answers) == 2

    wait_until(made, 120.0, "the files of both objects")
    node.service.close()
    (said,) = node.warned
    assert said == (
        f"an object of 10 bytes went into a file in {tmp_path / 'overflow'}, because the object store of 1000 bytes "
        "had no room for it: 900 bytes there are taken, 800 bytes of them by what is in use. Files may be slower than "
        "memory: drop references and views that are no longer needed, or raise object_store_memory. This is said once; "
        "`kernel memory` shows what lies in files"
    )
    assert not (tmp_path / "overflow").exists() and node.store.closed and node.disk.closed


def test_an_object_larger_than_the_store_is_called_so() -> None:
    usage = contract.StoreUsage(1000, 0, 0, 0, 0, 1, 0, overflow=2000)
    assert "went into a file in /x, because it is larger than the object store of 1000 bytes." in overflow_text(
        usage, "/x"
    )


def test_all_processes_are_asked_to_release_what_they_do_not_need() -> None:
    node = Node()
    node.store.instructions = [contract.ReleaseIdle()]
    node.service.keep(OTHER)
    assert node.sent == [(op.STORE_RELEASE_IDLE,)]


def test_an_unwanted_copy_is_deleted_from_the_spill_target() -> None:
    node = Node()
    node.store.instructions = [contract.DeleteSpill("slow:7")]
    node.service.keep(OTHER)
    wait_until(lambda: node.disk.deleted, 120.0, "the removal of the copy")
    assert node.disk.deleted == ["slow:7"]

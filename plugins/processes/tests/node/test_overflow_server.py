"""What the store has no room for goes into files: the same promises as the store's own, whatever happens."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from kernel_store_plasma.store import PlasmaStore

from kernel.conformance.object_store import ObjectStoreConformance
from kernel.conformance.object_store_objects import ObjectLives
from kernel.conformance.object_store_views import StoreViews
from kernel.defaults.object_store import LocalObjectStore
from kernel_processes.node.overflow_server import OverflowServer
from kernel_processes.node.overflow_table import FileFailed, FileMade, MakeFile, RemoveFile
from kernel_processes.protocol.overflow_files import OverflowFile, map_readable, map_writable
from kernel_spec import store as contract
from kernel_spec.errors import ObjectLostError, ObjectStoreError, ObjectStoreFullError, OutOfDiskError, SpillError
from kernel_spec.ids import ObjectId, ProcessId, TaskId, object_id
from kernel_spec.store import (
    Abort,
    ClientLeft,
    Create,
    Delete,
    DeleteSpill,
    Failed,
    Keep,
    ObjectStore,
    Pin,
    ReadSpill,
    ReleaseIdle,
    Reply,
    RestoreDone,
    RestoreFailed,
    RestoreLate,
    Seal,
    SpillDone,
    SpillFailed,
    StoreClient,
    StoreServer,
    StoreUsage,
    Unpin,
    WriteSpill,
)

OWNER, WRITER, READER = ProcessId(b"owner---"), ProcessId(b"writer--"), ProcessId(b"reader--")
FULL = ObjectStoreFullError("No space left on device")


def name(index: int) -> ObjectId:
    return object_id(TaskId(b"overflowing-task"), index)


# -- the stores' conformance suite, where files can't be made, and where there is nothing else -----------------------


class FilesAtOnce(OverflowServer):
    """Makes and removes files within the call that says so, or has no disk for them at all."""

    def __init__(self, store: StoreServer, disk: bool) -> None:
        self.folder = tempfile.TemporaryDirectory(dir="/tmp")
        super().__init__(store, self.folder.name)
        self.disk = disk

    def handle(self, event: Any) -> list[Any]:
        return self.carry_out(super().handle(event))

    def give_up_waiting(self) -> list[Any]:
        given_up = self.carry_out(super().give_up_waiting())
        # Without a disk, what had waited is asked for once more.
        return given_up + (self.carry_out(super().give_up_waiting()) if not self.disk else [])

    def carry_out(self, steps: list[Any]) -> list[Any]:
        out: list[Any] = []
        for step in steps:
            if isinstance(step, RemoveFile):
                os.unlink(step.path)
            elif not isinstance(step, MakeFile):
                out.append(step)
            elif self.disk:
                with open(step.path, "wb") as file:
                    file.truncate(step.size)
                out += self.handle(FileMade(step.path))
            else:
                out += self.handle(FileFailed(step.path, FULL))
        return out

    def close(self) -> None:
        super().close()
        self.folder.cleanup()


class OnlyFiles(FilesAtOnce):
    """Counts what is in files as if it were in memory."""

    def usage(self) -> StoreUsage:
        usage = super().usage()
        held = sum(row.size for row in self.objects() if row.pins or row.state == "writing")
        return replace(usage, capacity=1 << 20, used=usage.overflow, reserved=usage.overflow, pinned=held)

    def objects(self) -> list[contract.StoredObject]:
        return [replace(row, state="sealed" if row.state == "overflow" else row.state) for row in super().objects()]


class FileClient:
    """Maps files, and leaves the rest to the store's own."""

    def __init__(self, client: StoreClient) -> None:
        self.client = client
        self.close = client.close

    def writable(self, location: Any, size: int) -> memoryview:
        if isinstance(location, OverflowFile):
            return map_writable(location, size)
        return self.client.writable(location, size)

    def readable(self, location: Any, size: int, released: Callable[[], None]) -> memoryview:
        if isinstance(location, OverflowFile):
            return map_readable(location, size, released)
        return self.client.readable(location, size, released)


class WithoutDisk:
    """A store beside which there is no room for files."""

    name = "without disk"

    def __init__(self, store: ObjectStore) -> None:
        self.store = store

    def open_server(self, capacity: int, directory: str | None = None) -> StoreServer:
        return FilesAtOnce(self.store.open_server(capacity, directory), disk=False)  # type: ignore[return-value]

    def open_client(self, descriptors: Sequence[int], options: Mapping[str, Any]) -> StoreClient:
        return FileClient(self.store.open_client(descriptors, options))


class WithoutMemory(WithoutDisk):
    """A store of one byte, so that all else goes into files."""

    def open_server(self, capacity: int, directory: str | None = None) -> StoreServer:
        return OnlyFiles(self.store.open_server(1, directory), disk=True)  # type: ignore[return-value]


class TestPlasmaWithoutDisk(ObjectStoreConformance):
    make_store = staticmethod(lambda: WithoutDisk(PlasmaStore()))  # type: ignore[arg-type,return-value]


class TestLocalWithoutDisk(ObjectStoreConformance):
    make_store = staticmethod(lambda: WithoutDisk(LocalObjectStore()))
    spills = shares_memory = False


class TestOnlyFiles(ObjectLives, StoreViews):
    make_store = staticmethod(lambda: WithoutMemory(LocalObjectStore()))
    shares_memory = False

    def test_a_dead_client_is_owed_no_answer(self) -> None:
        """Nobody waits for room here: a request is answered at once, and what it made goes with its client."""
        with self.shell(1000) as shell:
            shell.put(name(0), b"x" * 1000, pin=True)
            request = shell.create(name(1), 1000, client=READER)
            assert request in shell.answers
            shell.handle(ClientLeft(READER))
            shell.handle(Unpin(WRITER, name(0)))
            shell.handle(Delete([name(0)]))
            self.is_empty(shell)


# -- one by one ------------------------------------------------------------------------------------------------------


class Node:
    """The server over a store of 1000 bytes, with every answer it gave, and what is still to be done."""

    def __init__(self, capacity: int = 1000, store: ObjectStore | None = None) -> None:
        self.server = OverflowServer((store or PlasmaStore()).open_server(capacity, None), "/files")
        self.answers: dict[int, Any] = {}
        self.work: list[Any] = []
        self.files: set[str] = set()
        self.copies: set[str] = set()
        self.requests = 0

    def handle(self, event: Any) -> None:
        self.carry_out(self.server.handle(event))

    def give_up(self) -> None:
        self.carry_out(self.server.give_up_waiting())

    def carry_out(self, steps: list[Any]) -> None:
        for step in steps:
            if isinstance(step, (Reply, Failed)):
                assert step.request not in self.answers, "a request was answered twice"
                self.answers[step.request] = step.value if isinstance(step, Reply) else step.error
            elif isinstance(step, RemoveFile):
                self.files.remove(step.path)
            elif isinstance(step, DeleteSpill):
                self.copies.remove(step.uri)
            elif not isinstance(step, ReleaseIdle):
                self.work.append(step)
        self.server.validate()

    def create(self, index: int, size: int, client: ProcessId = WRITER, weak: bool = False) -> int:
        self.requests += 1
        self.handle(Create(client, self.requests, name(index), size, OWNER, weak))
        return self.requests

    def pin(self, index: int, client: ProcessId = READER) -> int:
        self.requests += 1
        self.handle(Pin(client, self.requests, name(index)))
        return self.requests

    def step(self, error: Exception | None = None) -> Any:
        """Do the oldest piece of work, or have it fail; return what it was."""
        work = self.work.pop(0)
        if isinstance(work, MakeFile):
            if error is None:
                self.files.add(work.path)
            self.handle(FileMade(work.path) if error is None else FileFailed(work.path, error))  # type: ignore[arg-type]
        elif isinstance(work, WriteSpill):
            uri = f"copy:{len(self.copies)}:{self.requests}"
            if error is None:
                self.copies.add(uri)
            self.handle(SpillDone(work.object, uri) if error is None else SpillFailed(work.object, error))
        else:
            assert isinstance(work, ReadSpill)
            self.handle(RestoreDone(work.object) if error is None else RestoreFailed(work.object, error))
        return work

    def put(self, index: int, size: int, pin: bool = False, weak: bool = False) -> None:
        request = self.create(index, size, weak=weak)
        while request not in self.answers:
            if not self.work:
                self.give_up()
            self.step()
        assert not isinstance(self.answers[request], Exception), self.answers[request]
        self.handle(Seal(WRITER, name(index), pin))

    def counts(self) -> tuple[int, int, int]:
        usage = self.server.usage()
        return usage.used, usage.overflow, usage.overflow_objects

    def is_empty(self) -> bool:
        usage = self.server.usage()
        return (self.counts(), usage.objects, self.files, self.copies) == ((0, 0, 0), 0, set(), set())


def test_what_is_larger_than_the_store_gets_a_file_at_once() -> None:
    node = Node()
    request = node.create(0, 1500)
    assert request not in node.answers and [type(step) for step in node.work] == [MakeFile]
    pin = node.pin(0)
    node.step()
    location = node.answers[request]
    assert type(location) is OverflowFile and location.path.startswith(f"/files/{name(0).hex()}")
    assert pin not in node.answers, "it is being written"
    node.handle(Seal(WRITER, name(0)))
    assert node.answers[pin] == (location, 1500)
    assert node.counts() == (0, 1500, 1) and node.server.usage().objects == 1
    (row,) = node.server.objects()
    assert (row.object, row.owner, row.size, row.state, row.pins) == (name(0), OWNER, 1500, "overflow", {READER: 1})
    node.handle(Delete([name(0)]))
    assert node.files, "it is read"
    node.handle(Unpin(READER, name(0)))
    assert node.is_empty()


def test_what_waits_for_room_in_vain_gets_a_file_and_the_next_has_room_again() -> None:
    node = Node()
    node.put(0, 700, pin=True)
    request = node.create(1, 600)
    assert request not in node.answers and not node.work and node.server.usage().waiting == 1
    node.give_up()
    node.step()
    assert type(node.answers[request]) is OverflowFile and not node.server.waits
    assert node.server.usage().waiting == 0
    node.handle(Seal(WRITER, name(1)))
    node.handle(Unpin(WRITER, name(0)))
    node.handle(Delete([name(0)]))
    assert type(node.answers[node.create(2, 600)]) is int, "the store is the first choice"


def test_a_copy_of_what_was_spilled_is_mapped_where_there_is_no_room_to_bring_it_back() -> None:
    node = Node()
    node.put(0, 600)
    node.put(1, 600, pin=True)
    assert node.copies
    first, second = node.pin(0), node.pin(0, WRITER)
    node.give_up()
    assert isinstance(node.step(), MakeFile)
    read = node.step()
    assert isinstance(read, ReadSpill) and type(read.location) is OverflowFile
    assert node.answers[first] == node.answers[second] == (read.location, 600)
    usage = node.server.usage()
    assert (usage.objects, usage.spilled, usage.overflow, usage.overflow_objects) == (2, 600, 600, 1)
    third = node.pin(0)
    assert node.answers[third] == (read.location, 600), "there is a copy already"
    for client in (READER, READER, WRITER):
        assert node.files
        node.handle(Unpin(client, name(0)))
    assert not node.files and node.copies, "only the copy went"
    node.handle(Delete([name(0), name(1)]))
    node.handle(Unpin(WRITER, name(1)))
    assert node.is_empty()


def test_a_copy_that_can_not_be_read_is_lost_and_may_be_tried_again() -> None:
    node = Node()
    node.put(0, 600)
    node.put(1, 600, pin=True)
    request = node.pin(0)
    node.give_up()
    node.step()
    node.step(SpillError("the copy is damaged"))
    error = node.answers[request]
    assert isinstance(error, ObjectLostError) and "the copy is damaged" in str(error) and name(0).hex() in str(error)
    assert not node.files and node.counts() == (600, 0, 0)
    again = node.pin(0)
    node.give_up()
    node.step(), node.step()
    assert not isinstance(node.answers[again], Exception)


def test_a_copy_that_is_late_is_not_waited_for() -> None:
    node = Node()
    node.put(0, 600)
    node.put(1, 600, pin=True)
    late = SpillError("it hangs")
    first = node.pin(0)
    node.give_up()
    node.step()
    node.handle(RestoreLate(name(0), late))
    assert node.answers[first] is late and node.answers[node.pin(0)] is late
    node.step()
    assert not node.files, "nobody waits for it any more"


def test_a_full_disk_sends_a_request_back_to_the_store_once_and_then_says_both() -> None:
    node = Node()
    node.put(0, 700, pin=True)
    request = node.create(1, 600)
    reader = node.pin(1)
    node.give_up()
    assert not node.server.no_way_out
    node.step(FULL)
    assert node.server.no_way_out and node.server.usage().waiting == 1 and request not in node.answers
    node.give_up()
    node.step(FULL)
    for answer in (node.answers[request], node.answers[reader]):
        assert isinstance(answer, ObjectStoreFullError)
        for part in (name(1).hex(), name(0).hex(), "No space left on device", "can't be kept in a file either"):
            assert part in str(answer)
    assert node.server.usage().objects == 1 and not node.server.waits


def test_room_that_comes_while_the_disk_is_full_is_used() -> None:
    node = Node()
    node.put(0, 700, pin=True)
    request = node.create(1, 600)
    node.give_up()
    node.step(FULL)
    node.handle(Delete([name(0)]))
    node.handle(Unpin(WRITER, name(0)))
    assert type(node.answers[request]) is int


def test_what_is_larger_than_store_and_disk_fails_at_once() -> None:
    node = Node()
    request = node.create(0, 1500)
    node.step(FULL)
    assert isinstance(node.answers[request], ObjectStoreFullError)
    assert "1500" in str(node.answers[request]) and node.is_empty()


def test_weak_objects_in_files_make_room_on_a_full_disk() -> None:
    node = Node()
    node.put(0, 1500, weak=True)
    node.put(1, 1500, weak=True)
    node.handle(Keep(name(1)))
    request = node.create(2, 1500)
    node.step(FULL)
    node.step()
    assert type(node.answers[request]) is OverflowFile and len(node.files) == 2
    assert isinstance(node.answers[node.pin(0)], ObjectLostError)
    assert not isinstance(node.answers[node.pin(1)], Exception)


def test_a_failing_spill_target_is_an_error_as_before() -> None:
    node = Node()
    node.put(0, 700)
    request = node.create(1, 600)
    node.step(OutOfDiskError("the disk is full"))
    assert node.server.no_way_out
    node.give_up()
    assert isinstance(node.answers[request], OutOfDiskError) and not node.work


def test_what_is_given_up_while_its_file_is_made_leaves_nothing() -> None:
    for end in (Abort(WRITER, name(0)), ClientLeft(WRITER)):
        node = Node()
        node.create(0, 1500)
        reader = node.pin(0)
        node.handle(end)
        assert isinstance(node.answers[reader], ObjectLostError)
        node.step()
        assert node.is_empty()


def test_a_process_that_ends_takes_its_pins_and_what_it_owned() -> None:
    node = Node()
    node.put(0, 1500)
    node.pin(0)
    node.handle(ClientLeft(OWNER))
    assert node.files
    node.handle(ClientLeft(READER))
    assert node.is_empty()


def test_a_newer_creation_takes_the_name_of_one_in_a_file_and_of_one_in_memory() -> None:
    node = Node()
    node.put(0, 1500)
    old = node.answers[node.pin(0)]
    node.put(0, 500)
    assert node.answers[node.pin(0, WRITER)] == (0, 500)
    node.put(0, 1600)
    new = node.answers[node.pin(0)]
    assert new[1] == 1600 and new[0] != old[0] and len(node.files) == 2
    node.handle(Delete([name(0)]))
    for client in (READER, READER, WRITER):
        node.handle(Unpin(client, name(0)))
    assert node.is_empty()


def test_readers_of_an_object_that_is_written_anew_wait_for_that() -> None:
    node = Node()
    node.create(0, 1500)
    node.step()
    reader = node.pin(0)
    node.create(0, 400, client=OWNER)
    assert reader not in node.answers
    node.handle(Seal(OWNER, name(0)))
    assert node.answers[reader] == (0, 400)


def test_an_object_is_not_created_twice_by_one_process() -> None:
    node = Node()
    node.create(0, 1500)
    assert isinstance(node.answers[node.create(0, 1500)], ObjectStoreError)


def test_sealing_with_a_pin_keeps_it() -> None:
    node = Node()
    node.put(0, 1500, pin=True)
    node.handle(Delete([name(0)]))
    assert node.files
    node.handle(Unpin(WRITER, name(0)))
    assert node.is_empty()


# -- anything in any order -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("make", [PlasmaStore, LocalObjectStore])
def test_whatever_happens_nothing_is_lost_and_nothing_left(make: Callable[[], ObjectStore], seed: int) -> None:
    chance = random.Random(seed)
    node = Node(capacity=1000, store=make())
    clients = [OWNER, WRITER, READER]
    asked: dict[int, ProcessId] = {}
    for _ in range(600):
        index, client = chance.randrange(5), chance.choice(clients)
        kind = chance.random()
        if kind < 0.2:
            asked[node.create(index, chance.choice([90, 300, 650, 1300]), client, chance.random() < 0.2)] = client
        elif kind < 0.35:
            asked[node.pin(index, client)] = client
        elif kind < 0.5:
            node.handle(Seal(client, name(index), chance.random() < 0.3))
        elif kind < 0.6:
            node.handle(Unpin(client, name(index)))
        elif kind < 0.65:
            node.handle(Abort(client, name(index)))
        elif kind < 0.7:
            node.handle(Delete([name(index), name(index + 1)]))
        elif kind < 0.72:
            node.handle(Keep(name(index)))
        elif kind < 0.75:
            node.handle(ClientLeft(client))
            asked = {request: one for request, one in asked.items() if one != client}
        elif kind < 0.8:
            node.give_up()
        elif node.work:
            error = chance.choice([None, None, None, ObjectStoreFullError("full"), SpillError("broken")])
            if isinstance(error, SpillError) and isinstance(node.work[0], MakeFile):
                error = None
            node.step(error)
    while node.work:
        node.step()
    for client in clients:
        node.handle(ClientLeft(client))
    while node.work:
        node.step()
    assert node.is_empty() and not node.server.waits, node.server.usage()
    assert not node.server.table

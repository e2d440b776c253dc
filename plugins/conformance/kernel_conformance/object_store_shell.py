"""A node agent for tests of object stores: it carries out what the server says, and keeps the answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from kernel_spec.errors import KernelError
from kernel_spec.ids import ObjectId, ProcessId
from kernel_spec.store import (
    Create,
    DeleteSpill,
    Failed,
    ObjectStore,
    Pin,
    ReadSpill,
    ReleaseIdle,
    Reply,
    RestoreDone,
    RestoreFailed,
    Seal,
    SpillDone,
    SpillFailed,
    StoreClient,
    StoreEvent,
    StoreInstruction,
    Unpin,
    WriteSpill,
)

OWNER = ProcessId(b"owner---")
WRITER = ProcessId(b"writer--")
READER = ProcessId(b"reader--")


def ignore_release() -> None:
    """Stand in for the `released` of a view whose end matters to nobody."""


class StoreShell:
    """Plays the node agent for one server and one client: carries out instructions, keeps the answers.

    Disk work is done when `do_disk_work` is called (or at once with `eager`), into a dictionary. `disk_error`, when
    set, makes every spill and restore fail with it.
    """

    def __init__(self, store: ObjectStore, capacity: int, eager: bool = True) -> None:
        self.server = store.open_server(capacity, None)
        self.client: StoreClient = store.open_client(
            [os.dup(descriptor) for descriptor in self.server.descriptors()], self.server.client_options()
        )
        self.eager = eager
        self.disk: dict[str, bytes] = {}
        self.disk_error: KernelError | None = None
        self.disk_work: list[WriteSpill | ReadSpill] = []
        self.answers: dict[int, Reply | Failed] = {}
        self.release_requests = 0
        self._requests = 0
        self._uris = 0
        self._closed = False

    def handle(self, event: StoreEvent) -> None:
        """Give the server an event, carry out what it says, and check its invariants."""
        self._carry_out(self.server.handle(event))
        while self.eager and self.disk_work:
            self.do_disk_work()
        self.server.validate()

    def do_disk_work(self) -> None:
        """Do the oldest spill or restore."""
        work = self.disk_work.pop(0)
        event: StoreEvent
        if self.disk_error is not None:
            failed = SpillFailed if isinstance(work, WriteSpill) else RestoreFailed
            event = failed(work.object, self.disk_error)
        elif isinstance(work, WriteSpill):
            self._uris += 1
            uri = f"memory:{self._uris}"
            self.disk[uri] = bytes(self.server.view(work.location, work.size))
            event = SpillDone(work.object, uri)
        else:
            self.server.view(work.location, work.size)[:] = self.disk[work.uri]
            event = RestoreDone(work.object)
        self._carry_out(self.server.handle(event))
        self.server.validate()

    def give_up(self) -> None:
        """Tell the server that nothing moves."""
        self._carry_out(self.server.give_up_waiting())
        self.server.validate()

    def create(self, object: ObjectId, size: int, client: ProcessId = WRITER, weak: bool = False) -> int:
        """Ask for memory; return the number of the request."""
        self._requests += 1
        self.handle(Create(client, self._requests, object, size, OWNER, weak))
        return self._requests

    def pin(self, object: ObjectId, client: ProcessId = READER) -> int:
        """Ask to read; return the number of the request."""
        self._requests += 1
        self.handle(Pin(client, self._requests, object))
        return self._requests

    def value(self, request: int) -> Any:
        """Return the answer to a request; raise its error; AssertionError when there is none yet."""
        assert request in self.answers, "the request was not answered"
        answer = self.answers[request]
        if isinstance(answer, Failed):
            raise answer.error
        return answer.value

    def put(self, object: ObjectId, data: bytes, pin: bool = False, weak: bool = False) -> None:
        """Create, write and seal."""
        location = self.value(self.create(object, len(data), weak=weak))
        self.client.writable(location, len(data))[:] = data
        self.handle(Seal(WRITER, object, pin))

    def read(self, object: ObjectId, client: ProcessId = READER) -> bytes:
        """Pin, copy and unpin."""
        data = bytes(self.view(self.pin(object, client)))
        self.handle(Unpin(client, object))
        return data

    def view(self, request: int, released: Callable[[], None] = ignore_release) -> memoryview:
        """Return the memory that the pin of that number was answered with."""
        location, size = self.value(request)
        return self.client.readable(location, size, released)

    def close(self) -> None:
        """Close both halves. Calling it again does nothing."""
        if not self._closed:
            self._closed = True
            self.client.close()
            self.server.close()

    def _carry_out(self, instructions: Sequence[StoreInstruction]) -> None:
        for instruction in instructions:
            if isinstance(instruction, Reply | Failed):
                assert instruction.request not in self.answers, "a request was answered twice"
                self.answers[instruction.request] = instruction
            elif isinstance(instruction, WriteSpill | ReadSpill):
                self.disk_work.append(instruction)
            elif isinstance(instruction, DeleteSpill):
                del self.disk[instruction.uri]
            else:
                assert isinstance(instruction, ReleaseIdle), f"{instruction!r} is no instruction of the contract"
                self.release_requests += 1

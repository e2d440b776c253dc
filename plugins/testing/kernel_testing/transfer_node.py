"""A node in miniature, for tests and measurements of object transfer: a store and a transfer service, with a loop.

    with TransferNode(store, 1 << 26, directory) as a, TransferNode(store, 1 << 26, directory) as b:
        a.put(object, b"...")
        b.pull(object, 3, [a.address]).result(10)
        assert b.read(object) == b"..."

Its address is that of a real TCP socket on loopback; peers prove nothing, unless `wrap` makes them.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from kernel_network_tcp.transfer.limits import TransferLimits
from kernel_network_tcp.transfer.service import Ticket, TransferService
from kernel_network_tcp.transfer.sockets import shut

from kernel.defaults.spill import DiskSpill
from kernel_processes.node.overflow_server import OverflowServer
from kernel_processes.node.store_clients import StoreClients
from kernel_processes.node.store_disk import StoreDisk
from kernel_processes.node.store_service import StoreService
from kernel_processes.transport.reactor import Reactor
from kernel_spec import store as contract
from kernel_spec.ids import ObjectId, ProcessId

OWNER = ProcessId(b"owner---")
WORKER = ProcessId(b"worker--")
"""Whose `put` and `read` it is."""
CLIENT = ProcessId(b"transfer")
_SECONDS = 120.0
"""Seconds that any step may take: the machine may be busy."""

Value = TypeVar("Value")


class TransferNode:
    """Runs its loop in a thread. What it is asked for happens there; results come as futures or are waited for.

    `directory` is for spilled objects. Everything belongs to `OWNER`, unless said otherwise; owners in `ended` are
    refused. `wrap(socket, server)` may put TLS around a connection that was made or accepted.
    """

    def __init__(
        self,
        store: contract.ObjectStore,
        capacity: int,
        directory: str,
        limits: TransferLimits | None = None,
        wrap: Callable[[socket.socket, bool], socket.socket] = lambda sock, server: sock,
    ) -> None:
        self.reactor = Reactor()
        self.ended: set[ProcessId] = set()
        self.sockets: list[socket.socket] = []
        """Every connection made or accepted, for tests that cut them."""
        self.spill = DiskSpill(directory)
        overflow = os.path.join(self.spill.directory, "overflow")
        self.server = OverflowServer(store.open_server(capacity, None), overflow)
        disk = StoreDisk(self.server, self.spill, self.reactor, _ignore)
        clients = StoreClients(_NoProcesses(), self.ended)
        self.store = StoreService(self.server, disk, clients, _ignore, self.reactor)
        self._wrap = wrap
        self._answers: dict[int, Callable[[Any, Exception | None], None]] = {}
        self.store.serve_locally(WORKER, lambda request, *answer: self._answers.pop(request)(*answer))
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.setblocking(False)
        self.address = "{}:{}".format(*self._listening.getsockname())
        self.reactor.register(self._listening.fileno(), self._accept)
        self.transfer = TransferService(self.reactor, self.store, CLIENT, self.address, self.connect, limits)
        self._requests = 0
        self.closed = False
        self._thread = threading.Thread(target=self._run, name=f"node {self.address}", daemon=True)
        self._thread.start()

    def __enter__(self) -> TransferNode:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def call(self, function: Callable[[], Value]) -> Value:
        """Call a function in the loop, and return what it returns or raise what it raises."""
        value: Value = self.begin(lambda future: future.set_result(function())).result(_SECONDS)
        return value

    def begin(self, function: Callable[[Future[Any]], object]) -> Future[Any]:
        """Call `function(future)` in the loop; what it raises is the future's error."""
        future: Future[Any] = Future()

        def run() -> None:
            try:
                function(future)
            except BaseException as error:
                future.set_exception(error)

        self.reactor.call_later(0.0, run)
        self.reactor.wake()
        return future

    def put(self, object: ObjectId, data: bytes | memoryview, owner: ProcessId = OWNER) -> None:
        """Store an object, as a worker would. Raises what the store says."""

        def create(future: Future[Any]) -> None:
            request = self._expect(future)
            self.store.create(contract.Create(WORKER, request, object, len(data), owner))

        location = self.begin(create).result(_SECONDS)
        with self.server.view(location, len(data)) as memory:
            memory[:] = data
        self.call(lambda: self.store.seal(contract.Seal(WORKER, object)))

    def read(self, object: ObjectId) -> bytes:
        """Return an object's bytes. Raises what the store says."""
        location, size = self.pin(object)
        try:
            with self.server.view(location, size) as memory:
                return bytes(memory)
        finally:
            self.say(contract.Unpin(WORKER, object))

    def pin(self, object: ObjectId) -> tuple[contract.Location, int]:
        """Pin an object for `WORKER`, and return its location and size. Raises what the store says."""

        def pin(future: Future[Any]) -> None:
            self.store.handle(contract.Pin(WORKER, self._expect(future), object))

        location, size = self.begin(pin).result(_SECONDS)
        return location, size

    def say(self, event: contract.StoreEvent) -> None:
        """Give the store an event."""
        self.call(lambda: self.store.handle(event))

    def pull(
        self, object: ObjectId, size: int, sources: list[str], owner: ProcessId = OWNER, **options: bool
    ) -> Future[None]:
        """Begin to pull, with the options of `TransferService.pull`; the future has the result or the error.

        Its `ticket` cancels.
        """
        tickets: list[Ticket] = []

        def pull(future: Future[Any]) -> None:
            tickets.append(self.transfer.pull(object, size, owner, sources, partial(_settle, future, None), **options))

        future = self.begin(pull)
        future.ticket = lambda: self.call(lambda: tickets[0])  # type: ignore[attr-defined]
        return future

    def cancel(self, pull: Future[None]) -> None:
        """Do not wait for a pull any more."""
        ticket: Ticket = pull.ticket()  # type: ignore[attr-defined]
        self.call(ticket.cancel)

    def usage(self) -> contract.StoreUsage:
        """Return what the store holds."""
        return self.call(self.server.usage)

    def connect(self, address: str) -> socket.socket:
        """Connect to another node (any thread)."""
        host, _, port = address.rpartition(":")
        sock = self._wrap(socket.create_connection((host, int(port)), _SECONDS), False)
        self.sockets.append(sock)
        return sock

    def kill(self) -> None:
        """Break all its connections and accept no more, as when the machine dies. `close` it all the same."""
        self.call(self._deaf)
        for sock in self.sockets:
            shut(sock)

    def validate(self) -> None:
        """Raise AssertionError when an invariant is broken."""
        self.call(self.transfer.validate)
        self.call(self.server.validate)

    def close(self) -> None:
        """Stop the loop and free everything. Calling it again does nothing."""
        if not self.closed:
            self.closed = True
            self.reactor.wake()
            self._thread.join()
            self._deaf()
            self.transfer.close()
            self.store.close()
            self.reactor.close()

    def _run(self) -> None:
        while not self.closed:
            self.reactor.poll()
            self.store.finish_disk_work()

    def _expect(self, future: Future[Any]) -> int:
        self._requests += 1
        self._answers[self._requests] = partial(_settle, future)
        return self._requests

    def _accept(self, ready: int) -> None:
        with suppress(BlockingIOError):
            sock = self._wrap(self._listening.accept()[0], True)
            self.sockets.append(sock)
            self.transfer.serve(sock)

    def _deaf(self) -> None:
        if self._listening.fileno() >= 0:
            self.reactor.unregister(self._listening.fileno())
            self._listening.close()


def _settle(future: Future[Any], answer: Any, error: Exception | None = None) -> None:
    if error is None:
        future.set_result(answer)
    else:
        future.set_exception(error)


class _NoProcesses:
    """The processes of a node that has none."""

    def send(self, process: ProcessId, message: object) -> None:
        """Reach nobody."""

    def broadcast(self, message: object) -> None:
        """Reach nobody."""


def _ignore(*arguments: object) -> None:
    """Stand in for what observers and users are told."""

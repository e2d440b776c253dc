"""Objects between nodes, beside a bare TCP stream on the same machine (`python -m benchmarks.transfer`).

Each node is a process with a store and a transfer service, without the rest of an agent. A pull into memory that was
never used pays for the first touch of every page, ten times the copy: it is shown as cold, and the others are warm, as
in a session that goes on for some time.
"""

from __future__ import annotations

import argparse
import multiprocessing
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from kernel_network_tcp.transfer.limits import TransferLimits
from kernel_store_plasma import PlasmaStore

from kernel.testing.transfer_node import TransferNode
from kernel_spec.ids import ObjectId
from kernel_spec.store import Delete

_BUFFER = 1 << 20
_NAMES = (ObjectId(number.to_bytes(20, "big")) for number in range(1 << 30))


def main(arguments: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.transfer", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1000, help="size of the object (1000)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured; the best counts (3)")
    parser.add_argument("--nodes", type=int, default=4, help="how many nodes a broadcast reaches; 0: none (4)")
    parser.add_argument("--chunk", type=float, default=8, help="size of a chunk in MiB (8)")
    parser.add_argument("--connections", type=int, default=3, help="how many to one source (3)")
    parser.add_argument("--checksums", action="store_true", help="have chunks carry a CRC-32")
    given = parser.parse_args(arguments)
    limits = TransferLimits(
        chunk_bytes=int(given.chunk * (1 << 20)), asks_per_source=given.connections, checksums=given.checksums
    )
    size = given.megabytes * 1_000_000
    with nodes(2, size, limits) as (source, sink):
        cold = pull_rate(source, sink, size)
        laps = [(bare_rate(size), pull_rate(source, sink, size)) for _ in range(given.rounds)]
    bare, warm = map(max, zip(*laps, strict=True))
    print(f"bare TCP stream        {bare:6.2f} GB/s")
    for label, rate in (("one pull, cold", cold), ("one pull, warm", warm)):
        print(f"{label:22} {rate:6.2f} GB/s   {rate / bare:.2f} of bare")
    if given.nodes:
        with nodes(given.nodes + 1, size, limits) as (source, *sinks):
            seconds, sent = min(broadcast(source, sinks, size) for _ in range(given.rounds))
        print(f"broadcast to {given.nodes}         {seconds:6.2f} s      the source sent {sent:.1f} times the object")
    return 0


def bare_rate(size: int) -> float:
    """Return GB/s of a plain stream from one process to another, through a buffer that stays in the cache."""
    listening = socket.create_server(("127.0.0.1", 0))
    process = multiprocessing.get_context("fork").Process(target=_stream, args=(listening.getsockname(), size))
    process.start()
    buffer = memoryview(bytearray(_BUFFER))
    with listening, listening.accept()[0] as sock:
        started, received = time.perf_counter(), 0
        while received < size:
            received += sock.recv_into(buffer)
        spent = time.perf_counter() - started
    process.join()
    return size / spent / 1e9


def _stream(address: tuple[str, int], size: int) -> None:
    data = memoryview(bytes(_BUFFER))
    with socket.create_connection(address) as sock:
        for start in range(0, size, _BUFFER):
            sock.sendall(data[: size - start])


def pull_rate(source: Node, sink: Node, size: int) -> float:
    """Return GB/s of one pull."""
    object = next(_NAMES)
    source.do("put", object, size)
    seconds = sink.do("pull", object, size, [source.address])
    for node in (source, sink):
        node.do("delete", object)
    return size / seconds / 1e9


def broadcast(source: Node, sinks: list[Node], size: int) -> tuple[float, float]:
    """Return how many seconds it takes until all have it, and how often the source sent it."""
    object = next(_NAMES)
    source.do("put", object, size)
    before, started = source.do("sent"), time.perf_counter()
    for sink in sinks:
        sink.begin("pull", object, size, [source.address])
    for sink in sinks:
        sink.answer()
    seconds, sent = time.perf_counter() - started, source.do("sent") - before
    for node in (source, *sinks):
        node.do("delete", object)
    return seconds, sent / size


class Node:
    """A node in a process of its own."""

    def __init__(self, capacity: int, directory: str, limits: TransferLimits) -> None:
        context = multiprocessing.get_context("fork")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_run_node, args=(theirs, capacity, directory, limits), daemon=True)
        self._process.start()
        self.address: str = self.answer()

    def do(self, verb: str, *arguments: Any) -> Any:
        """Have it do something and return the answer."""
        self.begin(verb, *arguments)
        return self.answer()

    def begin(self, verb: str, *arguments: Any) -> None:
        """Have it do something; `answer` waits."""
        self._pipe.send((verb, arguments))

    def answer(self) -> Any:
        """Return what it says. Raises what it raised."""
        answer = self._pipe.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        """End the process."""
        self.begin("close")
        self._process.join()


@contextmanager
def nodes(count: int, size: int, limits: TransferLimits) -> Iterator[list[Node]]:
    """Start nodes with room for one object each."""
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        made = [Node(size + _BUFFER, directory, limits) for _ in range(count)]
        for node in made:
            stack.callback(node.close)
        yield made


def _run_node(pipe: Any, capacity: int, directory: str, limits: TransferLimits) -> None:
    with TransferNode(PlasmaStore(), capacity, directory, limits) as node:
        pipe.send(node.address)
        while True:
            verb, arguments = pipe.recv()
            if verb == "close":
                return
            try:
                pipe.send(_VERBS[verb](node, *arguments))
            except Exception as error:
                pipe.send(error)


def _put(node: TransferNode, object: ObjectId, size: int) -> None:
    node.put(object, memoryview(b"x" * size))


def _pull(node: TransferNode, object: ObjectId, size: int, sources: list[str]) -> float:
    started = time.perf_counter()
    node.pull(object, size, sources).result(600)
    return time.perf_counter() - started


def _delete(node: TransferNode, object: ObjectId) -> None:
    node.say(Delete([object]))


_VERBS: dict[str, Any] = {
    "put": _put,
    "pull": _pull,
    "delete": _delete,
    "sent": lambda node: node.transfer.uploads.sent_bytes,
}


if __name__ == "__main__":
    sys.exit(main())

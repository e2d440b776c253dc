"""The way of a program outside to the head breaks again and again: nothing is lost, and nothing is done twice."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress

import numpy
import pytest

import kernel
from kernel.testing import Cluster

SECONDS = 120.0
PIECE = 1 << 16
RESET = struct.pack("ii", 1, 0)


class Way:
    """A port by which the head's is reached, until it is broken: then by no connection that there is."""

    def __init__(self, place: str) -> None:
        self._host, _, port = place.rpartition(":")
        self._port = int(port)
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self.open = True
        self.broken = 0
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.place = f"127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, in_good_order: bool = False) -> None:
        """Break every connection, or (as some do who stand between) end each as if both sides had wanted that."""
        with self._lock:
            sockets, self._sockets = self._sockets, set()
        self.broken += len(sockets)
        for sock in sockets:
            with suppress(OSError):
                if not in_good_order:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                sock.shutdown(socket.SHUT_RDWR if in_good_order else socket.SHUT_RD)
            sock.close()

    def close(self) -> None:
        """End it."""
        self.open = False
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                if not self.open:
                    near.close()
                    continue
                far = socket.create_connection((self._host, self._port))
                with self._lock:
                    shut = not self.open  # meanwhile: who shuts it then cuts what is there
                    if not shut:
                        self._sockets |= {near, far}
                if shut:
                    near.close()
                    far.close()
                    continue
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(PIECE):
                sink.sendall(data)
            if source in self._sockets:  # else it was broken, and the other end must not take that for an end
                sink.shutdown(socket.SHUT_WR)


@pytest.fixture
def cluster():
    kernel.shutdown()
    with Cluster(num_cpus=2, resources={"a": 10}) as cluster:
        cluster.add_node(num_cpus=2, resources={"b": 10})
        yield cluster


@pytest.fixture
def way(cluster):
    """This program joins by way of it: the address that it knows is none of the cluster's."""
    way = Way(cluster.head.gateway)
    cluster.connect(remote=True, address=f"kernel://{way.place}")
    yield way
    kernel.shutdown()
    way.close()


@kernel.remote(num_cpus=0)
class Counter:
    def __init__(self):
        self.count = 0

    def up(self, payload=None):
        self.count += 1
        return self.count


@kernel.remote(num_cpus=0)
def scale(array, factor):
    return array * factor


@pytest.mark.parametrize("in_good_order", [False, True], ids=["reset", "end"])
def test_calls_tasks_and_objects_survive_every_cut(way, in_good_order):
    counters = [Counter.options(resources={name: 0.1}).remote() for name in "ab"]
    kernel.get([counter.up.remote() for counter in counters])
    given = kernel.put(numpy.arange(500_000))
    calls, arrays = [[], []], []
    for turn in range(8):
        for number, counter in enumerate(counters):
            calls[number] += [counter.up.remote(bytes(1000)) for _ in range(50)]
        arrays += [scale.options(resources={name: 0.1}).remote(given, turn) for name in "ab"]
        way.cut(in_good_order)
        kernel.wait([calls[0][-1]], timeout=SECONDS)
    for number in range(2):
        assert kernel.get(calls[number], timeout=SECONDS) == list(range(2, 402))
    for position, array in enumerate(kernel.get(arrays, timeout=SECONDS)):
        assert (array == numpy.arange(500_000) * (position // 2)).all()
    assert way.broken > 16


def test_a_way_that_is_shut_for_a_while_is_waited_for(way):
    counter = Counter.options(resources={"b": 0.1}).remote()
    assert kernel.get(counter.up.remote()) == 1
    way.open = False
    way.cut()
    refs = [counter.up.remote() for _ in range(10)]
    ready, waiting = kernel.wait(refs, num_returns=1, timeout=2.0)
    assert (ready, len(waiting)) == ([], 10)
    way.open = True
    assert kernel.get(refs, timeout=SECONDS) == list(range(2, 12))

"""Real processes share the store and are killed at random, in the middle of writing and reading."""

from __future__ import annotations

import os
import pickle
import random
import selectors
import signal
import socket
import struct
import time
import zlib

from kernel_store_plasma import PlasmaStore

from kernel_spec.store import (
    ClientLeft,
    Create,
    Delete,
    DeleteSpill,
    Failed,
    Pin,
    ReadSpill,
    Reply,
    RestoreDone,
    Seal,
    SpillDone,
    Unpin,
    WriteSpill,
)

CAPACITY = 8 << 20
CLIENTS = 4
ROUNDS = 25
"""Kills; about a tenth of a second of work between two of them."""
OWNER = b"driver--"
WINDOW = 60
"""How many of the latest objects live; together several times the store."""


def send(channel: socket.socket, message: object) -> None:
    data = pickle.dumps(message)
    channel.sendall(struct.pack("<I", len(data)) + data)


def receive(channel: socket.socket) -> object:
    head = channel.recv(4, socket.MSG_WAITALL)
    if len(head) < 4:
        raise EOFError
    (length,) = struct.unpack("<I", head)
    return pickle.loads(channel.recv(length, socket.MSG_WAITALL))


def content(name: bytes, size: int) -> bytes:
    """Return what object `name` holds, after a checksum in its first four bytes."""
    body = random.Random(name).randbytes(997) * (size // 997 + 1)
    body = body[: size - 4]
    return struct.pack("<I", zlib.crc32(body)) + body


def client_life(channel: socket.socket, descriptors: list[int], options: dict, me: bytes, seed: int) -> None:
    """Write and read objects until killed; leave with status 3 at the first wrong byte."""
    client = PlasmaStore().open_client(descriptors, options)
    dice = random.Random(seed)
    known: list[bytes] = []
    for number in range(1_000_000):
        if dice.random() < 0.5 or not known:
            name = me + number.to_bytes(12, "little")
            size = dice.choice((5, 1000, 100_000, 1_500_000))
            send(channel, Create(me, number, name, size, OWNER))
            location = receive(channel)
            if location is None:
                continue
            view, data = client.writable(location, size), content(name, size)
            for start in range(0, size, 65_536):
                view[start : start + 65_536] = data[start : start + 65_536]
            pin = dice.random() < 0.3
            send(channel, Seal(me, name, pin))
            if pin:
                send(channel, Unpin(me, name))
        else:
            name = dice.choice(known)
            send(channel, Pin(me, number, name))
            answer = receive(channel)
            if answer is not None:
                gone: list[bool] = []
                view = client.readable(*answer, lambda gone=gone: gone.append(True))
                if struct.unpack("<I", view[:4])[0] != zlib.crc32(view[4:]):
                    os._exit(3)
                del view
                if gone != [True]:
                    os._exit(4)
                send(channel, Unpin(me, name))
        send(channel, "names")
        known = receive(channel)


class Agent:
    """The node agent in small: one loop, sockets, and disk work that is done a while after it was asked for."""

    def __init__(self) -> None:
        self.server = PlasmaStore().open_server(CAPACITY)
        self.selector = selectors.DefaultSelector()
        self.clients: dict[bytes, tuple[int, socket.socket]] = {}
        self.sealed: list[bytes] = []
        self.disk: dict[str, bytes] = {}
        self.disk_work: list = []
        self.dice = random.Random(7)
        self.born = self.replies = self.spills = self.restores = 0

    def start_client(self) -> None:
        mine, theirs = socket.socketpair()
        me = b"client%02d" % self.born
        descriptors = [os.dup(descriptor) for descriptor in self.server.descriptors()]
        child = os.fork()
        if child == 0:
            try:
                mine.close()
                client_life(theirs, descriptors, dict(self.server.client_options()), me, self.born)
            finally:
                os._exit(1)
        theirs.close()
        for descriptor in descriptors:
            os.close(descriptor)
        self.born += 1
        self.clients[me] = (child, mine)
        self.selector.register(mine, selectors.EVENT_READ, me)

    def kill(self, me: bytes) -> None:
        child, channel = self.clients.pop(me)
        os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        assert os.WIFSIGNALED(status), f"{me!r} ended by itself with status {os.waitstatus_to_exitcode(status)}"
        self.selector.unregister(channel)
        channel.close()
        self.handle(ClientLeft(me))

    def handle(self, event: object) -> None:
        if isinstance(event, Seal):
            self.sealed.append(event.object)
            if len(self.sealed) > WINDOW:
                self.handle(Delete([self.sealed.pop(0)]))
        self.carry_out(self.server.handle(event))

    def carry_out(self, instructions: list) -> None:
        for instruction in instructions:
            if isinstance(instruction, Reply | Failed):
                self.replies += 1
                if instruction.client in self.clients:
                    value = instruction.value if isinstance(instruction, Reply) else None
                    self.tell(instruction.client, value)
            elif isinstance(instruction, WriteSpill | ReadSpill):
                self.disk_work.append(instruction)
            elif isinstance(instruction, DeleteSpill):
                del self.disk[instruction.uri]

    def tell(self, me: bytes, message: object) -> None:
        send(self.clients[me][1], message)

    def run_until(self, deadline: float) -> None:
        while (now := time.monotonic()) < deadline:
            ready = self.selector.select(0 if self.disk_work else min(0.01, deadline - now))
            for key, _ in ready:
                message = receive(key.fileobj)
                if message == "names":
                    self.tell(key.data, self.sealed[-WINDOW:])
                else:
                    self.handle(message)
            if self.disk_work and (not ready or self.dice.random() < 0.5):
                self.do_disk_work()
            if not ready and not self.disk_work:
                self.carry_out(self.server.give_up_waiting())

    def has_done_much(self) -> bool:
        """Say whether there was enough to do for something to go wrong: a busy machine needs more rounds for that."""
        return self.replies > 200 and self.spills > 20 and self.restores > 5

    def do_disk_work(self) -> None:
        work = self.disk_work.pop(self.dice.randrange(len(self.disk_work)))
        if isinstance(work, WriteSpill):
            self.spills += 1
            uri = f"disk:{self.spills}"
            self.disk[uri] = bytes(self.server.view(work.location, work.size))
            self.handle(SpillDone(work.object, uri))
        else:
            self.restores += 1
            self.server.view(work.location, work.size)[:] = self.disk[work.uri]
            self.handle(RestoreDone(work.object))


def test_killed_clients_lose_only_what_they_were_writing() -> None:
    agent = Agent()
    for _ in range(CLIENTS):
        agent.start_client()
    rounds = 0
    while rounds < ROUNDS or not agent.has_done_much():
        rounds += 1
        agent.run_until(time.monotonic() + agent.dice.uniform(0.02, 0.18))
        agent.server.validate()
        agent.kill(agent.dice.choice(sorted(agent.clients)))
        agent.server.validate()
        agent.start_client()
    for me in sorted(agent.clients):
        agent.kill(me)
    while agent.disk_work:
        agent.do_disk_work()
    check_what_is_left(agent)


def check_what_is_left(agent: Agent) -> None:
    """Every sealed object is whole, nothing else is there, and nothing stays after the deletes."""
    agent.server.validate()
    sizes = {row.object: row.size for row in agent.server.objects()}
    assert sorted(sizes) == sorted(agent.sealed)
    usage = agent.server.usage()
    assert usage.used + usage.spilled == sum(sizes.values())
    assert usage.pinned == 0 and usage.waiting == 0
    client = PlasmaStore().open_client([os.dup(fd) for fd in agent.server.descriptors()], agent.server.client_options())
    for name in agent.sealed:
        answers = agent.server.handle(Pin(OWNER, 0, name))
        while not any(isinstance(answer, Reply) for answer in answers):
            agent.disk_work.extend(answer for answer in answers if isinstance(answer, WriteSpill | ReadSpill))
            work = agent.disk_work.pop(0)
            if isinstance(work, WriteSpill):
                agent.disk[work.object.hex()] = bytes(agent.server.view(work.location, work.size))
                answers = agent.server.handle(SpillDone(work.object, work.object.hex()))
            else:
                agent.server.view(work.location, work.size)[:] = agent.disk[work.uri]
                answers = agent.server.handle(RestoreDone(work.object))
        location, size = next(answer for answer in answers if isinstance(answer, Reply)).value
        assert bytes(client.readable(location, size, lambda: None)) == content(name, size)
        agent.carry_out(agent.server.handle(Unpin(OWNER, name)))
    agent.handle(Delete(agent.sealed))
    usage = agent.server.usage()
    assert (usage.used, usage.reserved, usage.spilled, usage.objects) == (0, 0, 0, 0)
    assert agent.disk == {}
    client.close()
    agent.server.close()

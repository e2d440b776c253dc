"""Random clients, disk work and deaths against the state machine, with real bytes behind it."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from kernel_store_plasma.machine import StoreMachine

from kernel_spec.errors import ObjectLostError, ObjectStoreError, OutOfDiskError, SpillError
from kernel_spec.store import (
    Abort,
    ClientLeft,
    Create,
    Delete,
    DeleteSpill,
    Failed,
    Keep,
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
    Unpin,
    WriteSpill,
)

CAPACITY = 1024
clients = st.sampled_from([b"c%07d" % i for i in range(4)])
objects = st.sampled_from([b"object-%013d" % i for i in range(7)])
sizes = st.integers(1, 600)


class Processes(RuleBasedStateMachine):
    """Every process keeps to the contract, and believes only what it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = StoreMachine(CAPACITY)
        self.memory = bytearray(self.machine.table.allocator.capacity)
        self.disk: dict[str, bytes] = {}
        self.requests: dict[tuple[bytes, int], tuple] = {}
        self.writing: dict[tuple[bytes, bytes], tuple[int, bytes]] = {}
        self.views: list[tuple[bytes, bytes, int, bytes]] = []
        self.values: dict[bytes, set[bytes]] = {}
        self.disk_work: list = []
        self.late: set[bytes] = set()
        self.number = 0

    def carry_out(self, instructions: list) -> None:
        for instruction in instructions:
            match instruction:
                case Reply(client, request, value):
                    self.answer(client, request, value)
                case Failed(client, request, error):
                    assert isinstance(error, ObjectStoreError | ObjectLostError)
                    self.requests.pop((client, request))
                case WriteSpill() | ReadSpill():
                    self.disk_work.append(instruction)
                case DeleteSpill(uri):
                    del self.disk[uri]
                case ReleaseIdle():
                    pass

    def answer(self, client: bytes, request: int, value) -> None:
        kind, name, size = self.requests.pop((client, request))
        if kind == "create":
            self.number += 1
            content = (b"%d|" % self.number * size)[:size]
            self.memory[value : value + size] = content
            self.writing[client, name] = (value, content)
        else:
            location, length = value
            content = bytes(self.memory[location : location + length])
            assert content in self.values[name]
            self.views.append((client, name, location, content))

    def ask(self, kind: str, client: bytes, name: bytes, size: int = 0) -> int:
        self.number += 1
        self.requests[client, self.number] = (kind, name, size)
        return self.number

    @rule(client=clients, name=objects, size=sizes, owner=clients, weak=st.booleans())
    def create(self, client: bytes, name: bytes, size: int, owner: bytes, weak: bool) -> None:
        again = (client, name) in self.writing or any(
            key[0] == client and request[:2] == ("create", name) for key, request in self.requests.items()
        )
        if not again:
            request = self.ask("create", client, name, size)
            self.carry_out(self.machine.handle(Create(client, request, name, size, owner, weak)))

    @precondition(lambda self: self.writing)
    @rule(data=st.data(), pin=st.booleans())
    def seal(self, data: st.DataObject, pin: bool) -> None:
        client, name = data.draw(st.sampled_from(sorted(self.writing)))
        location, content = self.writing.pop((client, name))
        assert bytes(self.memory[location : location + len(content)]) == content
        self.values.setdefault(name, set()).add(content)
        if pin:
            self.views.append((client, name, location, content))
        self.carry_out(self.machine.handle(Seal(client, name, pin)))

    @rule(client=clients, name=objects)
    def abort(self, client: bytes, name: bytes) -> None:
        self.writing.pop((client, name), None)
        self.carry_out(self.machine.handle(Abort(client, name)))

    @rule(client=clients, name=objects)
    def pin(self, client: bytes, name: bytes) -> None:
        self.carry_out(self.machine.handle(Pin(client, self.ask("pin", client, name), name)))

    @precondition(lambda self: self.views)
    @rule(data=st.data())
    def unpin(self, data: st.DataObject) -> None:
        client, name, _, _ = self.views.pop(data.draw(st.integers(0, len(self.views) - 1)))
        self.carry_out(self.machine.handle(Unpin(client, name)))

    @rule(name=objects)
    def keep(self, name: bytes) -> None:
        self.carry_out(self.machine.handle(Keep(name)))

    @rule(names=st.lists(objects, max_size=3))
    def delete(self, names: list[bytes]) -> None:
        self.carry_out(self.machine.handle(Delete(names)))

    @rule(client=clients)
    def leave(self, client: bytes) -> None:
        self.requests = {key: value for key, value in self.requests.items() if key[0] != client}
        self.writing = {key: value for key, value in self.writing.items() if key[0] != client}
        self.views = [view for view in self.views if view[0] != client]
        self.carry_out(self.machine.handle(ClientLeft(client)))

    @rule(names=st.lists(objects, min_size=1, max_size=4, unique=True), client=clients, size=st.integers(200, 600))
    def put(self, names: list[bytes], client: bytes, size: int) -> None:
        """Make whole objects, with a working disk, so that the rest happens to full stores."""
        for name in names:
            self.create(client, name, size, client, False)
            self.finish_disk_work()
            self.complete(client, name)

    @precondition(lambda self: self.spilled())
    @rule(data=st.data(), other=objects, client=clients, large=st.integers(300, 600), small=st.integers(1, 100))
    def make_anew(self, data: st.DataObject, other: bytes, client: bytes, large: int, small: int) -> None:
        """Ask for a spilled object while its place is being taken, and make it again before it is back."""
        name = data.draw(st.sampled_from(self.spilled()))
        self.create(client, other, large, client, False)
        self.finish_disk_work()
        self.pin(client, name)
        self.create(client, name, small, client, False)
        self.complete(client, other)
        self.complete(client, name)

    def spilled(self) -> list[bytes]:
        return sorted({row.object for row in self.machine.objects() if row.state == "spilled"})

    def complete(self, client: bytes, name: bytes) -> None:
        """Seal an object that was given memory."""
        if (client, name) in self.writing:
            _, content = self.writing.pop((client, name))
            self.values.setdefault(name, set()).add(content)
            self.carry_out(self.machine.handle(Seal(client, name)))

    @precondition(lambda self: self.disk_work)
    @rule(data=st.data(), works=st.sampled_from([True, True, True, False]))
    def do_disk_work(self, data: st.DataObject, works: bool) -> None:
        self.work_on(self.disk_work.pop(data.draw(st.integers(0, len(self.disk_work) - 1))), works)

    @precondition(lambda self: any(isinstance(work, ReadSpill) for work in self.disk_work))
    @rule(data=st.data())
    def hang(self, data: st.DataObject) -> None:
        """Have a restore take too long; it stays what it is, and ends later."""
        name = data.draw(st.sampled_from([work.object for work in self.disk_work if isinstance(work, ReadSpill)]))
        self.late.add(name)
        self.carry_out(self.machine.handle(RestoreLate(name, SpillError("it hangs"))))

    @rule()
    def finish_disk_work(self) -> None:
        while self.disk_work:
            self.work_on(self.disk_work.pop(0), True)

    def work_on(self, work: WriteSpill | ReadSpill, works: bool) -> None:
        self.late.discard(work.object)
        match work:
            case WriteSpill(name, location, size) if works:
                self.number += 1
                uri = f"disk:{self.number}"
                self.disk[uri] = bytes(self.memory[location : location + size])
                self.carry_out(self.machine.handle(SpillDone(name, uri)))
            case WriteSpill(name):
                self.carry_out(self.machine.handle(SpillFailed(name, OutOfDiskError("full"))))
            case ReadSpill(name, uri, location, size) if works:
                self.memory[location : location + size] = self.disk[uri]
                self.carry_out(self.machine.handle(RestoreDone(name)))
            case ReadSpill(name):
                self.carry_out(self.machine.handle(RestoreFailed(name, SpillError("gone"))))

    @rule()
    def give_up(self) -> None:
        waiting = self.machine.usage().waiting
        answers = self.machine.give_up_waiting()
        self.carry_out(answers)
        if waiting and all(work.object in self.late for work in self.disk_work):
            assert any(isinstance(answer, Failed) for answer in answers)

    @invariant()
    def holds(self) -> None:
        self.machine.validate()
        for _, _, location, content in self.views:
            assert bytes(self.memory[location : location + len(content)]) == content
        for location, content in self.writing.values():
            assert bytes(self.memory[location : location + len(content)]) == content
        usage = self.machine.usage()
        rows = self.machine.objects()
        assert usage.used + usage.spilled == sum(row.size for row in rows)
        assert usage.objects == len(rows)

    def teardown(self) -> None:
        """When everyone leaves and all disk work is done, nothing is left, and no answer is owed."""
        for index in range(4):
            self.leave(b"c%07d" % index)
        self.finish_disk_work()
        self.machine.validate()
        usage = self.machine.usage()
        assert (usage.used, usage.reserved, usage.spilled, usage.objects, usage.waiting) == (0, 0, 0, 0, 0)
        assert self.disk == {}
        assert self.requests == {}


TestProcesses = Processes.TestCase
TestProcesses.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)

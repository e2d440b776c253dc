"""What a worker sends of its results, and what their owner makes of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kernel.runtime.current import set_runtime
from kernel.runtime.definitions import DYNAMIC, STREAMING, CallOptions
from kernel.runtime.object_entry import ObjectEntry, dropped
from kernel.runtime.object_ref import ObjectRef
from kernel.runtime.streams import ObjectStream
from kernel_engine.messages import process_messages as op
from kernel_engine.objects.ownership import Ownership
from kernel_engine.serialization.value_serializer import ValueSerializer
from kernel_engine.tasks.call_runner import CallRunner
from kernel_engine.tasks.task import Task
from kernel_engine.tasks.tasks import TaskTable
from kernel_spec.errors import SerializationError
from kernel_spec.ids import TaskId, object_id

TASK = TaskId(b"caller--" + bytes(8))
LARGE = bytes(200_000)


class Store:
    """Remembers what is in it."""

    def __init__(self) -> None:
        self.ids: set[bytes] = set()

    def write(self, id: bytes, head: bytes, buffers: Any, owner: bytes, weak: bool = False) -> Any:
        self.ids.add(id)
        return len(LARGE), ()

    def delete(self, ids: list[bytes]) -> None:
        self.ids -= set(ids)

    def drain_released(self) -> None: ...


class Side:
    """A process without sockets: the messages that it sends wait in `sent`."""

    agent = None
    ended = None

    def __init__(self, name: bytes, store: Store) -> None:
        self.id = self.address = name
        self.io, self.store, self.serializer = self, store, ValueSerializer()
        self.lock = threading.RLock()
        self.handlers: dict[int, Any] = {}
        self.on_peer_lost: list[Any] = []
        self.sent: list[tuple[bytes, tuple[Any, ...]]] = []
        self.ownership = Ownership(self, store)  # type: ignore[arg-type]
        self.tasks = TaskTable(self, self.ownership, store, self.serializer, self)  # type: ignore[arg-type]
        self.runner = CallRunner(self)  # type: ignore[arg-type]

    def after_batch(self, leftovers: Any, function: Any) -> None: ...

    def task_ended(self, task: Any) -> None: ...

    def peer(self, id: bytes, address: Any = "") -> Any:
        return SimpleNamespace(info=SimpleNamespace(id=id), closed=False)

    def send(self, connection: Any, message: tuple[Any, ...]) -> None:
        self.sent.append((connection.info.id, message))

    def receive(self, sender: bytes, message: tuple[Any, ...]) -> None:
        self.handlers[message[0]](self.peer(sender), message)
        self.ownership.drain()

    def messages(self, operation: int) -> list[tuple[bytes, tuple[Any, ...]]]:
        return [(to, message) for to, message in self.sent if message[0] == operation]

    def owner_of(self, ref: ObjectRef) -> tuple[bytes, str]:
        details = ref._entry.more()
        return details.owner or self.id, details.address

    def borrow(self, name: bytes, owner: bytes) -> ObjectRef:
        entry = self.ownership.objects[name] = ObjectEntry(name, 1)  # type: ignore[index, arg-type]
        entry.more().owner, entry.more().debt = owner, 1  # type: ignore[assignment]
        return ObjectRef(entry)

    def expect(self, returns: int) -> Task:
        task = Task(TASK, CallOptions(returns=returns, name="f"), 0)
        if returns >= 0:
            task.entries = [ObjectEntry(object_id(TASK, index), 1, task) for index in range(returns)]
        else:
            task.entries = ObjectEntry(object_id(TASK, 0), 1, task)
            task.stream = ObjectStream(TASK, None, 0)
        self.tasks.register(task)
        self.tasks.running[TASK] = task
        return task


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def worker(store: Store) -> Iterator[Side]:
    dropped.clear()
    worker = Side(b"worker--", store)
    set_runtime(worker)  # type: ignore[arg-type]
    yield worker
    set_runtime(None)


@pytest.fixture
def caller(store: Store) -> Side:
    return Side(b"caller--", store)


def test_a_reference_in_one_result_is_kept_though_those_of_another_have_arrived(worker: Side, caller: Side) -> None:
    task = caller.expect(2)
    values = [[worker.borrow(b"first", b"owner--1")], [worker.borrow(b"second", b"owner--2")]]
    worker.runner.send_result(worker.peer(caller.id), TASK, 2, values, "f")
    values.clear()
    caller.receive(worker.id, worker.sent.pop()[1])
    numbers = {to: message[2] for to, message in caller.messages(op.BORROW)}
    for owner, name in ((b"owner--1", b"first"), (b"owner--2", b"second")):
        assert name in worker.ownership.objects
        caller.receive(owner, (op.BORROWED, numbers[owner]))
        worker.receive(caller.id, caller.messages(op.SETTLED)[-1][1])
        assert name not in worker.ownership.objects
    assert all(entry.details.contained for entry in task.all_entries())  # type: ignore[union-attr]


def test_what_a_failing_call_has_stored_is_deleted(worker: Side, caller: Side, store: Store) -> None:
    with pytest.raises(SerializationError, match="lock"):
        worker.runner.send_result(worker.peer(caller.id), TASK, 3, [LARGE, 1, threading.Lock()], "f")
    assert not store.ids
    assert not worker.sent


def yield_again(worker: Side, caller: Side, item: Any) -> Any:
    """Have a generator yield its first item; return the caller's entry of it."""
    worker.runner.send_item(worker.peer(caller.id), TASK, 1, item, "f")
    caller.receive(worker.id, worker.sent.pop()[1])
    return caller.ownership.objects.get(object_id(TASK, 1))


@pytest.mark.parametrize("returns", [STREAMING, DYNAMIC])
def test_an_item_that_a_retried_generator_repeats_leaves_the_first_alone(
    returns: int, worker: Side, caller: Side, store: Store
) -> None:
    stream = caller.expect(returns).stream
    assert stream is not None
    inner = worker.borrow(b"inner", caller.id)
    caller.ownership.objects[b"inner"] = known = ObjectEntry(b"inner", 1)  # type: ignore[index, arg-type]
    first = yield_again(worker, caller, [inner, LARGE])
    assert yield_again(worker, caller, [inner, LARGE]) is first
    assert [ref._entry for ref in stream.items] == [first]
    assert store.ids == {first.id}
    assert known.holds == 1
    stream.take_all()
    caller.ownership.drain()
    assert known.holds == 0
    assert not store.ids
    assert yield_again(worker, caller, [inner, LARGE]) is None
    assert known.holds == 0
    assert not store.ids


def test_results_that_nobody_waits_for_are_deleted(worker: Side, caller: Side, store: Store) -> None:
    worker.runner.send_result(worker.peer(caller.id), TASK, 2, [LARGE, LARGE], "f")
    assert len(store.ids) == 2
    caller.receive(worker.id, worker.sent.pop()[1])
    assert not store.ids

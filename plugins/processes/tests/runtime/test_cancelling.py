"""Who cancels what: tasks, actor calls, those of other processes, and what a task has submitted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kernel.runtime.object_entry import INLINE, ObjectEntry
from kernel_processes.runtime.actor_calls import Channel
from kernel_processes.runtime.cancelling import Cancelling
from kernel_spec.errors import ArgumentError
from kernel_spec.ids import ObjectId, ProcessId

OWNER = ProcessId(b"owner--1")
CHANNEL: Any = Channel.__new__(Channel)


class Bench:
    """Keeps who was told to cancel what."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.objects: dict[ObjectId, ObjectEntry] = {}
        self.methods: dict[str, Any] = {}
        process: Any = SimpleNamespace(
            methods=self.methods,
            peer=self._peer,
            request=lambda peer, *asked: self.told.append((peer, *asked)),
        )
        ownership: Any = SimpleNamespace(objects=self.objects)
        tasks: Any = SimpleNamespace(cancel=lambda task, *how: self.told.append(("task", task.name, *how)))
        calls: Any = SimpleNamespace(cancel=lambda task, *how: self.told.append(("call", task.name, *how)))
        self.gone = False
        self.cancelling = Cancelling(process, ownership, tasks, calls)

    def _peer(self, process: ProcessId, address: str) -> Any:
        if self.gone:
            raise ConnectionRefusedError
        return f"{process.decode()} at {address}"

    def entry(self, number: int, place: Any = None, parent: bytes = b"") -> ObjectEntry:
        entry = ObjectEntry(ObjectId(b"object%d" % number), 1)
        entry.task = SimpleNamespace(name=f"work{number}", place=place, parent=parent)
        self.objects[entry.id] = entry
        return entry


@pytest.mark.parametrize(("force", "recursive"), [(False, True), (True, False)])
def test_a_task_is_cancelled_by_who_submits_tasks(force: bool, recursive: bool) -> None:
    bench = Bench()
    bench.cancelling.cancel(bench.entry(1), force, recursive)
    assert bench.told == [("task", "work1", force, recursive)]


def test_an_actor_call_is_cancelled_but_not_by_force() -> None:
    bench = Bench()
    bench.cancelling.cancel(bench.entry(1, CHANNEL), False, True)
    assert bench.told == [("call", "work1", True)]
    with pytest.raises(ArgumentError, match=r"can't end the actor call work1\(\): .*Use cancel\(ref\), or kernel.kill"):
        bench.cancelling.cancel(bench.entry(1, CHANNEL), True, True)


def test_nothing_is_cancelled_that_has_ended_or_was_put() -> None:
    bench = Bench()
    ended, put = bench.entry(1), bench.entry(2)
    ended.state, put.task = INLINE, None
    for entry in (ended, put):
        bench.cancelling.cancel(entry, False, True)
    assert bench.told == []


def test_the_owner_of_an_object_is_asked_to_cancel_its_task() -> None:
    bench = Bench()
    entry = bench.entry(1)
    entry.more().owner = OWNER
    entry.more().address = "there:1"
    bench.cancelling.cancel(entry, True, False)
    assert bench.told == [("owner--1 at there:1", "cancel", entry.id, True, False)]
    bench.gone = True
    bench.cancelling.cancel(entry, True, False)
    assert len(bench.told) == 1, "its task has ended with it"


def test_others_ask_for_objects_that_this_process_may_have_forgotten() -> None:
    bench = Bench()
    entry = bench.entry(1)
    bench.methods["cancel"](entry.id, False, True)
    bench.methods["cancel"](ObjectId(b"forgotten"), False, True)
    assert bench.told == [("task", "work1", False, True)]


def test_what_a_task_has_submitted_is_cancelled_with_all_that_this_has() -> None:
    bench = Bench()
    bench.entry(1, parent=b"parent")
    bench.entry(2, CHANNEL, parent=b"parent")
    bench.entry(3, parent=b"parent").state = INLINE
    bench.entry(4, parent=b"another")
    bench.cancelling.cancel_children(b"parent")
    assert bench.told == [("task", "work1", False, True), ("call", "work2", True)]

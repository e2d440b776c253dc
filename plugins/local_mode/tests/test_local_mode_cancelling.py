"""Cancelling a task of local mode in each state that it can be in, without a session."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kernel_local_mode.actor import LocalActor
from kernel_local_mode.cancelling import Cancelling

from kernel.runtime.object_entry import INLINE, ObjectEntry
from kernel_spec.errors import ArgumentError, TaskCancelledError
from kernel_spec.ids import ObjectId


class Parts:
    """What cancelling changes; `failed` are the tasks that it failed."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.later: list[Any] = []
        self.closed: list[bytes] = []
        self.removed: list[str] = []
        self.tasks: Any = SimpleNamespace(running={}, fail_with=self._fail)
        self.ownership: Any = SimpleNamespace(objects={})
        actors: Any = SimpleNamespace(cancel=lambda task: self.removed.append(task.name))
        self.calls: Any = SimpleNamespace(threads={}, cancelled=set())
        helpers: Any = SimpleNamespace(submit=self.later.append)
        streaming: Any = SimpleNamespace(close=self.closed.append)
        self.cancelling = Cancelling(self.tasks, self.ownership, actors, self.calls, helpers, streaming)

    def _fail(self, task: Any, error: Exception) -> None:
        assert isinstance(error, TaskCancelledError)
        self.failed.append(task.name)

    def entry(self, name: str, parent: bytes = b"", place: Any = None) -> ObjectEntry:
        task = SimpleNamespace(id=name.encode(), name=name, parent=parent, place=place, cancelled=False)
        entry = ObjectEntry(ObjectId(name.encode()), 1, task)
        self.ownership.objects[entry.id] = entry
        return entry


@pytest.fixture
def parts() -> Parts:
    return Parts()


def actor(**attributes: Any) -> LocalActor:
    made = LocalActor.__new__(LocalActor)
    made.__dict__ |= {"queue": [], "loop": None, **attributes}
    return made


def test_a_task_that_waits_never_runs(parts: Parts) -> None:
    entry = parts.entry("waiting")
    parts.cancelling.cancel(entry, force=False, recursive=False)
    parts.cancelling.cancel(entry, force=False, recursive=False)
    assert parts.failed == ["waiting"] and entry.task.cancelled


def test_what_has_ended_is_left_alone(parts: Parts) -> None:
    entry = parts.entry("ended")
    entry.state = INLINE
    parts.cancelling.cancel(entry, force=True, recursive=True)
    assert parts.failed == []


def test_a_call_in_an_actors_queue_is_taken_out(parts: Parts) -> None:
    entry = parts.entry("call")
    entry.task.place = actor(queue=[entry.task])
    parts.cancelling.cancel(entry, force=False, recursive=False)
    assert parts.removed == ["call"]


def test_an_actors_call_is_not_ended_by_force(parts: Parts) -> None:
    entry = parts.entry("call", place=actor())
    with pytest.raises(ArgumentError, match=r"^cancel\(force=True\) can't end the actor call call\(\)"):
        parts.cancelling.cancel(entry, force=True, recursive=False)


def test_a_generator_that_is_put_aside_is_closed(parts: Parts) -> None:
    entry = parts.entry("generator")
    parts.tasks.running[entry.task.id] = entry.task
    parts.cancelling.cancel(entry, force=False, recursive=False)
    [close] = parts.later
    close()
    assert (parts.failed, parts.closed) == (["generator"], [b"generator"])


def test_a_call_on_an_event_loop_is_cancelled_there(parts: Parts) -> None:
    asked: list[bytes] = []
    entry = parts.entry("call", place=actor(loop=SimpleNamespace(cancel=asked.append)))
    parts.tasks.running[entry.task.id] = entry.task
    parts.cancelling.cancel(entry, force=False, recursive=False)
    assert (asked, parts.failed) == ([b"call"], [])


def test_what_a_running_task_submitted_is_cancelled_too(parts: Parts) -> None:
    outer = parts.entry("outer")
    parts.entry("inner", parent=b"outer")
    parts.entry("other", parent=b"another")
    parts.tasks.running[outer.task.id] = outer.task
    parts.cancelling.cancel(outer, force=False, recursive=True)
    assert parts.failed == ["inner", "outer"]

"""Waits that never end, and waits that do: what each part of local mode says of them, without a session."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from kernel_local_mode.blocking import BlockedThreads
from kernel_local_mode.deadlock import DeadlockDetector

from kernel.runtime.object_entry import INLINE, ObjectEntry
from kernel_spec.errors import InfeasibleError, SessionEndedError
from kernel_spec.ids import ObjectId


class Parts:
    """The parts that both look at, with nothing in them."""

    def __init__(self) -> None:
        self.lent: list[bool] = []
        self.tasks: Any = SimpleNamespace(running={})
        self.calls: Any = SimpleNamespace(threads={}, raise_interrupt=lambda: None)
        self.streaming: Any = SimpleNamespace(runs={}, in_the_way_of=lambda entry: [])
        self.actors: Any = SimpleNamespace(actors={})
        groups = SimpleNamespace(why_never=lambda group: f"{group} is too large")
        self.resources: Any = SimpleNamespace(
            groups=groups, lend_cpu=self.lent.append, infeasible=lambda wish: "it wants too much" if wish else ""
        )
        self.helpers: Any = SimpleNamespace(is_idle=True, blocked=lambda: None, unblocked=lambda: None)
        self.transport: Any = SimpleNamespace(lock=threading.RLock(), ended=None)
        self.promised: dict[ObjectId, str] = {}
        self.callers: set[int] = set()
        self.deadlock = DeadlockDetector(
            self.tasks, self.calls, self.streaming, self.actors, self.resources, self.helpers, self.promised,
            self.callers,
        )  # fmt: skip
        explanations: Any = SimpleNamespace(of=lambda entry: f"{entry.task.name}() waits")
        self.blocked_threads = BlockedThreads(
            self.transport, self.streaming, self.calls, self.resources, self.helpers, self.deadlock, explanations
        )


@pytest.fixture
def parts() -> Parts:
    return Parts()


def entry_of(name: str, wish: Any = None, slots: tuple[ObjectEntry, ...] = ()) -> ObjectEntry:
    definition = SimpleNamespace(backpressure=0, shape=wish)
    task = SimpleNamespace(
        id=name.encode(), name=name, definition=definition, slots=[(0, entry) for entry in slots], place=None
    )
    return ObjectEntry(ObjectId(name.encode()), 1, task)


def test_what_is_ready_or_may_run_is_not_hopeless(parts: Parts) -> None:
    ready = entry_of("ready")
    ready.state = INLINE
    assert parts.deadlock.why_never(ready) == ""
    assert parts.deadlock.why_never(entry_of("waiting")) == ""


def test_a_group_that_can_never_be_placed(parts: Parts) -> None:
    entry = ObjectEntry(ObjectId(b"promised"), 1)
    parts.promised[entry.id] = "group"
    assert parts.deadlock.why_never(entry) == "group is too large"


def test_a_call_further_up_in_the_same_thread(parts: Parts) -> None:
    entry = entry_of("outer")
    parts.calls.threads[entry.task.id] = threading.get_ident()
    assert parts.deadlock.why_never(entry) == "outer() runs further up in the thread that waits for it"


def test_a_call_that_waits_in_another_thread_for_one_further_up(parts: Parts) -> None:
    outer, other = entry_of("outer"), entry_of("other")
    parts.calls.threads |= {outer.task.id: threading.get_ident(), other.task.id: 1}
    parts.deadlock.blocked[1] = [outer]
    why = parts.deadlock.why_never(other)
    assert why == "other() waits: outer() runs further up in the thread that waits for it"


def test_what_a_task_wants_and_its_arguments_want(parts: Parts) -> None:
    first = entry_of("first", wish="a lot")
    assert parts.deadlock.why_never(entry_of("second", slots=(first,))) == (
        "first() waits for a worker: it wants too much"
    )


def test_tasks_that_wait_for_each_other(parts: Parts) -> None:
    one = entry_of("one")
    two = entry_of("two", slots=(one,))
    one.task.slots.append((0, two))
    assert parts.deadlock.why_never(one) == "one() waits, by way of others, for itself"


def test_nested_waits_of_a_thread_are_noted_and_forgotten(parts: Parts) -> None:
    outer, inner, me = [entry_of("outer")], [entry_of("inner")], threading.get_ident()
    leave_outer = parts.blocked_threads.block(outer)
    leave_inner = parts.blocked_threads.block(inner)
    assert parts.deadlock.blocked == {me: inner}
    leave_inner()
    assert parts.deadlock.blocked == {me: outer}
    leave_outer()
    assert parts.deadlock.blocked == {}
    assert parts.lent == [True, True, False, False]


def test_a_wait_ends_when_nothing_else_runs(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts.deadlock, "is_quiet", lambda: True)
    leave = parts.blocked_threads.block([entry_of("lonely")])
    with pytest.raises(InfeasibleError, match=r"^this would wait for ever: lonely\(\) waits, and nothing else runs"):
        parts.blocked_threads.on_tick()
    leave()


def test_a_wait_goes_on_while_helpers_work(parts: Parts) -> None:
    waits = [entry_of("waited_for")]
    leave = parts.blocked_threads.block(waits)
    assert parts.deadlock.is_quiet(), "only the helpers are left to make it"
    parts.helpers.is_idle = False
    parts.blocked_threads.on_tick()
    assert parts.deadlock.blocked == {threading.get_ident(): waits}
    leave()


def test_a_wait_ends_with_the_session(parts: Parts) -> None:
    parts.transport.ended = "the session was shut down"
    with pytest.raises(SessionEndedError, match="^the session was shut down$"):
        parts.blocked_threads.on_tick()

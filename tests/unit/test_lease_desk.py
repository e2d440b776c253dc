"""Between the processes that want workers and the scheduler: what happens when schedulers, workers and nodes fail."""

from __future__ import annotations

from typing import Any

import pytest

from kernel.control.lease_desk import LeaseDesk, LeaseRecord
from kernel.local.scheduler import LocalScheduler
from kernel.runtime import operations as op
from kernel_spec.ids import JobId, LeaseId, NodeId, ProcessId
from kernel_spec.resources import amounts
from kernel_spec.scheduling import Event, Instruction, LeaseRequest, LeaseRequested, Tick


class Fragile(LocalScheduler):
    """Can't stand requests named boom, nor answer those named nothing."""

    name = "fragile"
    events = 0

    def handle(self, event: Event, now: float) -> list[Instruction]:
        self.events += 1
        if isinstance(event, Tick) or (isinstance(event, LeaseRequested) and event.request.name == "boom"):
            raise RuntimeError("a wheel came off")
        if isinstance(event, LeaseRequested) and event.request.name == "nothing":
            return None  # type: ignore[return-value]
        return super().handle(event, now)


class Desk:
    """A desk with one node, and what it did."""

    def __init__(self) -> None:
        self.granted: list[LeaseId] = []
        self.dropped: list[LeaseId] = []
        self.ended: list[str] = []
        self.killed: list[tuple[ProcessId, str]] = []
        self.scheduler = Fragile()
        self.desk = LeaseDesk(self.scheduler, lambda: 1.0, self._find, self._drop, self._kill, self.ended.append)
        self.desk.add_node(NodeId(b"node"), {"CPU": 2.0}, {}, ("GPU",))

    def _find(self, lease: LeaseId, record: LeaseRecord) -> None:
        self.granted.append(lease)

    def _drop(self, lease: LeaseId, record: LeaseRecord, broken: bool) -> None:
        self.dropped.append(lease)

    def _kill(self, worker: ProcessId, reason: str) -> None:
        self.killed.append((worker, reason))

    def request(self, id: bytes, name: str, holder: Any = None) -> None:
        wanted = amounts({"CPU": 1.0})
        request = LeaseRequest(LeaseId(id), JobId(b"job"), ProcessId(b"driver"), wanted, name, origin=NodeId(b"node"))
        self.desk.request(request, holder)


@pytest.mark.parametrize(
    ("fail", "how"),
    [
        (lambda desk: desk.request(b"b", "boom"), " raised RuntimeError: a wheel came off\n  File"),
        (lambda desk: desk.desk.tick(), " raised RuntimeError: a wheel came off\n  File"),
        (lambda desk: desk.request(b"b", "nothing"), ": its handle(LeaseRequested) returned None, not a list"),
    ],
)
def test_a_scheduler_that_raises_ends_the_session_by_name_and_is_asked_no_more(fail: Any, how: str) -> None:
    desk = Desk()
    desk.request(b"a", "fine")
    assert desk.granted == [b"a"]
    fail(desk)
    assert [reason[: 26 + len(how)] for reason in desk.ended] == [f"scheduler plugin 'fragile'{how}"]
    asked = desk.scheduler.events
    desk.desk.tick()
    desk.request(b"c", "boom")
    desk.desk.release(LeaseId(b"a"), broken=False)
    assert desk.dropped == [b"a"], "what is granted can still be given back"
    assert (desk.scheduler.events, len(desk.ended)) == (asked, 1)


class Holder:
    """A process that holds leases."""

    closed = False

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def send(self, message: tuple[Any, ...]) -> None:
        self.told.append(message)


@pytest.mark.parametrize("given_back", [False, True])
def test_who_gave_a_broken_worker_back_is_told_of_its_end_though_only_its_node_can_be_seen_to_be_gone(
    given_back: bool,
) -> None:
    desk, holder, worker = Desk(), Holder(), ProcessId(b"worker")
    desk.request(b"a", "fine", holder)
    desk.desk.served(LeaseId(b"a"), 1, worker)
    if given_back:  # the worker died, and then its node before it could say so
        desk.desk.release(LeaseId(b"a"), broken=True)
    assert desk.desk.remove_node(NodeId(b"node")) == [worker]
    desk.desk.worker_died(worker, "silence", op.LOST)
    assert holder.told == [(op.PROCESS_DIED, worker, "silence", op.LOST)]
    desk.desk.worker_died(worker, "silence", op.LOST)
    assert len(holder.told) == 1
    assert desk.desk.remove_node(NodeId(b"other")) == []

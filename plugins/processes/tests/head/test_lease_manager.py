"""Between the processes that want workers and the scheduler: what happens when schedulers, workers and nodes fail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from kernel.defaults.scheduler import LocalScheduler
from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message, packed
from kernel_processes.head.lease_manager import LeaseManager, LeaseRecord, grant_message
from kernel_spec.ids import GroupId, JobId, LeaseId, NodeId, ProcessId
from kernel_spec.resources import Allocation, amounts
from kernel_spec.scheduling import (
    Bundle,
    Event,
    Grant,
    GroupRemoved,
    GroupRequest,
    GroupRequested,
    Instruction,
    LeaseBlocked,
    LeaseCancelled,
    LeaseHeld,
    LeaseReleased,
    LeaseRequest,
    LeaseRequested,
    LeaseUnblocked,
    NodeAdded,
    NodeRemoved,
    PlaceGroup,
    Preempt,
    Reclaim,
    Tick,
)
from plugins.processes.tests.head.head_bench import GROUP, Scripted


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
        self.lease_manager = LeaseManager(
            self.scheduler, lambda: 1.0, self, lambda group, bundles: None, self.ended.append
        )
        self.lease_manager.add_node(NodeId(b"node"), {"CPU": 2.0}, {}, ("GPU",))

    def find(self, lease: LeaseId, record: LeaseRecord) -> None:
        self.granted.append(lease)

    def drop(self, lease: LeaseId, record: LeaseRecord, broken: bool) -> None:
        self.dropped.append(lease)

    def kill(self, worker: ProcessId, reason: str) -> None:
        self.killed.append((worker, reason))

    def tell(self, worker: ProcessId, message: Message) -> None:
        raise AssertionError("nobody lends a CPU")

    def request(self, id: bytes, name: str, holder: Any = None) -> None:
        wanted = amounts({"CPU": 1.0})
        request = LeaseRequest(LeaseId(id), JobId(b"job"), ProcessId(b"driver"), wanted, name, origin=NodeId(b"node"))
        self.lease_manager.request(request, holder)


@pytest.mark.parametrize(
    ("fail", "how"),
    [
        (lambda lease_manager: lease_manager.request(b"b", "boom"), " raised RuntimeError: a wheel came off\n  File"),
        (lambda lease_manager: lease_manager.lease_manager.tick(), " raised RuntimeError: a wheel came off\n  File"),
        (
            lambda lease_manager: lease_manager.request(b"b", "nothing"),
            ": its handle(LeaseRequested) returned None, not a list",
        ),
    ],
)
def test_a_scheduler_that_raises_ends_the_session_by_name_and_is_asked_no_more(fail: Any, how: str) -> None:
    lease_manager = Desk()
    lease_manager.request(b"a", "fine")
    assert lease_manager.granted == [b"a"]
    fail(lease_manager)
    assert [reason[: 26 + len(how)] for reason in lease_manager.ended] == [f"scheduler plugin 'fragile'{how}"]
    asked = lease_manager.scheduler.events
    lease_manager.lease_manager.tick()
    lease_manager.request(b"c", "boom")
    lease_manager.lease_manager.release(LeaseId(b"a"), broken=False)
    assert lease_manager.dropped == [b"a"], "what is granted can still be given back"
    assert (lease_manager.scheduler.events, len(lease_manager.ended)) == (asked, 1)


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
    lease_manager, holder, worker = Desk(), Holder(), ProcessId(b"worker")
    lease_manager.request(b"a", "fine", holder)
    lease_manager.lease_manager.served(LeaseId(b"a"), 1, worker)
    if given_back:  # the worker died, and then its node before it could say so
        lease_manager.lease_manager.release(LeaseId(b"a"), broken=True)
    assert lease_manager.lease_manager.remove_node(NodeId(b"node")) == [worker]
    lease_manager.lease_manager.worker_died(worker, "silence", op.LOST)
    assert holder.told == [packed(op.LeasedWorkerDied(worker=worker, cause="silence", fault=op.LOST))]
    lease_manager.lease_manager.worker_died(worker, "silence", op.LOST)
    assert len(holder.told) == 1
    assert lease_manager.lease_manager.remove_node(NodeId(b"other")) == []


# -- with a scheduler that does what the test says -------------------------------------------------------------------

A, B, C = LeaseId(b"a"), LeaseId(b"b"), LeaseId(b"c")
NODE, OTHER_NODE = NodeId(b"node"), NodeId(b"other")
WORKER, DRIVER = ProcessId(b"worker"), ProcessId(b"driver")
WANTED = amounts({"CPU": 1, "GPU": 0.1})
HELD = Allocation(WANTED, {"GPU": {0: WANTED["GPU"]}})


class Books:
    """A desk with two nodes, and what it had others do."""

    def __init__(self) -> None:
        self.scheduler = Scripted()
        self.found: list[tuple[LeaseId, int]] = []
        self.dropped: list[tuple[LeaseId, bool]] = []
        self.killed: list[tuple[ProcessId, str]] = []
        self.ended: list[str] = []
        self.on_find: Any = lambda lease: None
        self.told: list[tuple[ProcessId, Message]] = []
        """What workers were told about the CPUs that they have lent."""
        self.placed: list[tuple[GroupId, Any]] = []
        self.lease_manager = LeaseManager(
            self.scheduler,
            lambda: 7.0,
            self,
            lambda group, bundles: self.placed.append((group, bundles)),
            self.ended.append,
        )
        for node in (NODE, OTHER_NODE):
            self.lease_manager.add_node(node, {"CPU": 4.0, "GPU": 1.0}, {}, ("GPU",))
        self.received()

    def find(self, lease: LeaseId, record: LeaseRecord) -> None:
        assert record.grant is not None
        self.found.append((lease, record.grants))
        self.on_find(lease)

    def drop(self, lease: LeaseId, record: LeaseRecord, broken: bool) -> None:
        self.dropped.append((lease, broken))

    def kill(self, worker: ProcessId, reason: str) -> None:
        self.killed.append((worker, reason))

    def tell(self, worker: ProcessId, message: Message) -> None:
        self.told.append((worker, message))

    def answer(self, event: type, *instructions: Instruction) -> None:
        self.scheduler.answers[event] = list(instructions)

    def ask(self, id: LeaseId, holder: Any = None, group: GroupId | None = None, for_actor: bool = False) -> None:
        self.lease_manager.request(request_of(id, group, for_actor), holder)

    def grant(self, id: LeaseId, holder: Any = None, node: NodeId = NODE, worker: bytes = b"", **more: Any) -> None:
        """Have a lease asked for and granted, and served if a worker is named."""
        bundle = [NODE, OTHER_NODE].index(node) if "group" in more else -1
        self.answer(LeaseRequested, grant_of(id, node, bundle))
        self.ask(id, holder, **more)
        if worker:
            assert self.lease_manager.served(id, 1, ProcessId(worker)) is self.lease_manager.leases[id]

    def ask_for_group(self, id: GroupId, *nodes: NodeId) -> tuple[Bundle, ...]:
        """Ask for a placement group, and return the bundles that lie on these nodes if the scheduler says so."""
        request = GroupRequest(id, JobId(b"job"), tuple(WANTED for _ in nodes), "SPREAD", "gang", {}, NODE)
        self.lease_manager.handle(GroupRequested(request))
        return tuple(Bundle(index, node, HELD) for index, node in enumerate(nodes))

    def received(self) -> list[Event]:
        """Return what the scheduler has heard since the last time."""
        received, self.scheduler.received = self.scheduler.received, []
        return received


def request_of(id: LeaseId, group: GroupId | None = None, for_actor: bool = False) -> LeaseRequest:
    return LeaseRequest(id, JobId(b"job"), DRIVER, WANTED, "f", group=group, for_actor=for_actor)


def grant_of(id: LeaseId, node: NodeId = NODE, bundle: int = -1) -> Grant:
    return Grant(id, node, HELD, bundle)


@pytest.fixture
def books() -> Iterator[Books]:
    books = Books()
    yield books
    assert books.ended == [], "what the scheduler said could be done"


def test_a_node_is_made_known_with_all_that_it_has(books: Books) -> None:
    books.lease_manager.add_node(NODE, {"CPU": 2.0}, {"zone": "a"}, ("TPU",))
    assert books.received() == [NodeAdded(NODE, {"CPU": 2.0}, {"zone": "a"}, ("TPU",))]


def test_a_request_is_heard_once_and_its_grant_looked_for_a_worker(books: Books) -> None:
    books.answer(LeaseRequested, grant_of(A))
    books.ask(A)
    books.ask(A)
    assert books.received() == [LeaseRequested(request_of(A))]
    assert books.found == [(A, 1)]
    assert books.lease_manager.allocation(A) == HELD
    assert books.lease_manager.allocation(B) == books.lease_manager.allocation(None) == Allocation({})


def test_a_grant_for_which_nobody_asked_is_not_carried_out_and_ends_the_session() -> None:
    books = Books()
    books.answer(LeaseRequested, grant_of(B), grant_of(A))
    books.ask(A)
    assert (
        books.found == [] and books.lease_manager.leases.keys() == {A} and books.lease_manager.leases[A].grant is None
    )
    (reason,) = books.ended
    assert f"a grant of lease {B.hex()}, which was not requested" in reason


@pytest.mark.parametrize("word", [Reclaim, Preempt])
def test_what_is_said_of_a_lease_that_is_over_meanwhile_is_for_nobody(books: Books, word: Any) -> None:
    holder = Holder()
    books.grant(A, holder, worker=b"worker")
    books.on_find = lambda lease: books.lease_manager.release(A, broken=False)
    books.answer(LeaseRequested, grant_of(B), Reclaim(A) if word is Reclaim else Preempt(A, "rank"))
    books.ask(B)
    assert books.found == [(A, 1), (B, 1)] and books.received()[-1] == LeaseReleased(A)
    assert holder.told == [] and books.killed == [], "it was given back before"


def test_what_comes_of_a_decision_is_handled_when_all_of_that_is_carried_out(books: Books) -> None:
    books.ask(A)
    received: list[int] = []

    def release(lease: LeaseId) -> None:
        books.lease_manager.release(lease, broken=False)
        received.append(len(books.scheduler.received))

    books.on_find = release
    books.answer(LeaseRequested, grant_of(A), grant_of(B))
    books.ask(B)
    assert books.found == [(A, 1), (B, 1)]
    assert received == [2, 2], "nothing but the two requests"
    assert books.received()[2:] == [LeaseReleased(A), LeaseReleased(B)]


def test_after_an_error_on_the_way_the_next_event_is_handled(books: Books) -> None:
    def fail(lease: LeaseId) -> None:
        raise OSError("no more descriptors")

    books.on_find = fail
    with pytest.raises(OSError):
        books.grant(A)
    books.on_find = lambda lease: None
    books.grant(B)
    assert books.found[-1] == (B, 1)


def test_bundles_that_are_placed_are_told(books: Books) -> None:
    bundles = books.ask_for_group(GROUP, NODE)
    books.received()
    books.answer(Tick, PlaceGroup(GROUP, bundles))
    books.lease_manager.tick()
    assert books.placed == [(GROUP, bundles)]
    assert books.received() == [Tick()]


def test_a_holder_is_asked_to_give_a_lease_back_and_an_actor_is_not(books: Books) -> None:
    holder = Holder()
    books.grant(A, holder)
    books.grant(B)
    books.answer(Tick, Reclaim(A), Reclaim(B))
    books.lease_manager.tick()
    assert holder.told == [(op.RECLAIM_LEASE, A)] and books.killed == []


def test_a_worker_whose_cpu_is_in_use_is_told_so_and_goes_on_when_it_is_free(books: Books) -> None:
    books.lease_manager.add_node(NODE, {"CPU": 1.0, "GPU": 1.0}, {}, ("GPU",))
    holder = Holder()
    books.grant(A, Holder(), worker=WORKER)
    books.lease_manager.block(A, True)
    assert books.told == []
    books.grant(B, holder)
    assert books.told == [(WORKER, (op.CPU_TAKEN,))]
    books.lease_manager.block(A, False, asks=True)
    assert len(books.told) == 1 and holder.told == [(op.RECLAIM_LEASE, B)]
    books.lease_manager.release(B, broken=False)
    assert books.told[1:] == [(WORKER, (op.GO_ON,))]


def test_a_worker_that_does_not_ask_goes_on_at_once_and_is_told_nothing(books: Books) -> None:
    books.grant(A, Holder(), worker=WORKER)
    books.lease_manager.block(A, True)
    books.lease_manager.block(A, False)
    assert books.told == []


def test_a_worker_that_asks_before_its_group_is_known_may_go_on(books: Books) -> None:
    books.lease_manager.held(grant_of(A, bundle=0), request_of(A, GROUP), 1, WORKER, True)
    books.lease_manager.block(A, False)
    assert books.told == []
    books.lease_manager.block(A, False, asks=True)
    assert books.told == [(WORKER, (op.GO_ON,))], "its head is new and doesn't know who uses that CPU"


def test_who_asks_while_the_desk_waits_is_heard_after(books: Books) -> None:
    books.lease_manager.hold()
    for id in (A, B, C):
        books.ask(id)
    assert books.lease_manager.explain(A).startswith("the head was started again")
    books.lease_manager.cancel(B)
    assert books.received() == [LeaseCancelled(B)]
    books.lease_manager.go_on()
    assert books.received() == [LeaseRequested(request_of(A)), LeaseRequested(request_of(C))]
    assert books.lease_manager.explain(A) == "there is no room"
    books.lease_manager.go_on()
    books.ask(B)
    assert books.received() == [LeaseRequested(request_of(B))]


def test_what_an_earlier_head_granted_is_taken_over(books: Books) -> None:
    books.lease_manager.hold()
    books.ask(B)
    books.lease_manager.held(grant_of(A), request_of(A), 4, WORKER, True)
    books.lease_manager.held(grant_of(B), request_of(B), 4, WORKER, True)
    assert books.received() == [LeaseHeld(request_of(A), grant_of(A), True)]
    record = books.lease_manager.leases[A]
    assert (record.grant, record.grants, record.worker) == (grant_of(A), 4, WORKER)
    assert books.lease_manager.granted(A, 4) is record and books.lease_manager.granted(A, 3) is None
    assert books.lease_manager.leases[B].grant is None, "it was asked for anew"
    assert books.lease_manager.remove_node(NODE) == [WORKER]


def test_a_grant_of_an_earlier_head_may_still_be_looking_for_its_worker(books: Books) -> None:
    books.lease_manager.held(grant_of(A), request_of(A), 1, ProcessId(b""), False)
    assert books.lease_manager.explain(A) == "its worker process is starting"
    assert books.lease_manager.remove_node(NODE) == []
    assert books.received()[1:] == [NodeRemoved(NODE), LeaseRequested(request_of(A))]


def test_a_grant_in_an_environment_may_wait_for_what_that_is_made_of(books: Books) -> None:
    books.lease_manager.held(grant_of(A), replace(request_of(A), environment="key"), 1, ProcessId(b""), False)
    assert books.lease_manager.explain(A) == "its worker process is starting, once its runtime_env is there"


def test_what_is_held_in_groups_is_told_when_the_groups_are(books: Books) -> None:
    for id in (A, B, C):
        books.lease_manager.held(grant_of(id), request_of(id, GROUP), 1, WORKER, False)
    books.lease_manager.block(A, True)
    books.lease_manager.block(B, True)
    books.lease_manager.block(B, False)
    books.lease_manager.release(C, broken=True)
    assert books.received() == [LeaseReleased(C)]
    books.lease_manager.enter_groups()
    held = [LeaseHeld(request_of(A, GROUP), grant_of(A), True), LeaseHeld(request_of(B, GROUP), grant_of(B), False)]
    assert books.received() == held
    books.lease_manager.block(A, False)
    books.lease_manager.enter_groups()
    assert books.received() == [LeaseUnblocked(A)]


def test_what_an_earlier_head_granted_is_given_to_its_holder_or_is_over(books: Books) -> None:
    holder: Any = Holder()
    books.lease_manager.held(grant_of(A), request_of(A), 1, WORKER, False)
    books.lease_manager.held(grant_of(B), request_of(B, for_actor=True), 1, ProcessId(b"of an actor"), False)
    books.lease_manager.held(grant_of(C), request_of(C, for_actor=True), 1, ProcessId(b"of no actor"), False)
    books.ask(D := LeaseId(b"d"))
    books.lease_manager.adopt({DRIVER: holder}, {B})
    assert books.lease_manager.leases.keys() == {A, B, D} and books.dropped == [(C, True)]
    assert books.lease_manager.held_by() == {holder: [A]}
    books.lease_manager.worker_died(WORKER, "signal 9")
    books.lease_manager.worker_died(ProcessId(b"of an actor"), "signal 9")
    assert holder.told == [packed(op.LeasedWorkerDied(worker=WORKER, cause="signal 9", fault=op.DIED))]
    assert books.dropped == [(C, True), (A, True), (B, True)]


def test_a_lease_whose_holder_is_gone_since_an_earlier_head_is_over(books: Books) -> None:
    books.lease_manager.held(grant_of(A), request_of(A), 1, WORKER, False)
    books.lease_manager.adopt({}, ())
    assert books.dropped == [(A, True)] and books.lease_manager.leases == {}


def test_who_holds_what_is_told_of_what_is_served(books: Books) -> None:
    holder: Any = Holder()
    books.grant(A, holder, worker=b"worker")
    books.grant(B, holder, worker=b"another")
    books.grant(C, holder)
    books.grant(LeaseId(b"d"), None, worker=b"of an actor")
    assert books.lease_manager.held_by() == {holder: [A, B]}


def test_only_of_the_latest_grant_a_worker_counts(books: Books) -> None:
    books.grant(A)
    books.answer(LeaseRequested, grant_of(A, OTHER_NODE))
    books.lease_manager.take(A, "somebody else needs it")
    assert books.lease_manager.served(A, 1, WORKER) is None and books.lease_manager.granted(A, 1) is None
    assert books.lease_manager.leases[A].worker is None
    record = books.lease_manager.served(A, 2, WORKER)
    assert record is books.lease_manager.leases[A] and record.worker == WORKER
    assert books.lease_manager.served(B, 1, WORKER) is None
    assert grant_message(A, record, "there") == (op.LEASE_GRANTED, A, WORKER, "there", WANTED, HELD.devices)


@pytest.mark.parametrize(
    ("taken", "fault", "told"),
    [
        (False, op.DIED, op.DIED),
        (False, op.OUT_OF_MEMORY, op.OUT_OF_MEMORY),
        (True, op.DIED, op.TAKEN),
        (True, op.LOST, op.LOST),
        (False, op.LOST, op.LOST),
    ],
)
def test_the_holder_of_a_worker_that_ended_hears_why(books: Books, taken: bool, fault: int, told: int) -> None:
    holder = Holder()
    books.grant(A, holder, worker=b"worker")
    if taken:
        books.lease_manager.take(A, "rank")
        books.lease_manager.take(A, "rank")
        assert books.killed == [(WORKER, "rank")] and books.dropped == []
    books.lease_manager.worker_died(WORKER, "its end", fault)
    assert holder.told == [packed(op.LeasedWorkerDied(worker=WORKER, cause="its end", fault=told))]
    assert books.dropped == [(A, True)] and books.received()[-1] == LeaseReleased(A)


def test_a_holder_that_is_gone_hears_nothing(books: Books) -> None:
    holder = Holder()
    books.grant(A, holder, worker=b"worker")
    holder.closed = True
    books.lease_manager.worker_died(WORKER, "its end")
    books.lease_manager.worker_died(ProcessId(b"unknown"), "its end")
    assert holder.told == [] and books.dropped == [(A, True)]


def test_a_withdrawn_request_is_forgotten_and_a_withdrawn_grant_given_back(books: Books) -> None:
    books.ask(A)
    books.grant(B, worker=b"worker")
    books.received()
    for id in (A, B, C):
        books.lease_manager.cancel(id)
    assert books.received() == [LeaseCancelled(A), LeaseReleased(B)]
    assert books.dropped == [(B, False)] and books.lease_manager.leases == {}


def test_a_worker_that_is_given_back_well_is_nobodys_and_a_broken_one_is_still_waited_for(books: Books) -> None:
    holder = Holder()
    books.grant(A, holder, worker=b"well")
    books.grant(B, holder, worker=b"broken")
    books.ask(C, holder)
    books.received()
    books.lease_manager.release(A, broken=False)
    books.lease_manager.release(B, broken=True)
    books.lease_manager.release(C, broken=True)
    books.lease_manager.release(C, broken=True)
    assert books.dropped == [(A, False), (B, True), (C, True)]
    assert books.received() == [LeaseReleased(A), LeaseReleased(B), LeaseCancelled(C)]
    books.lease_manager.worker_died(ProcessId(b"well"), "idle")
    books.lease_manager.worker_died(ProcessId(b"broken"), "signal 9")
    assert holder.told == [packed(op.LeasedWorkerDied(worker=ProcessId(b"broken"), cause="signal 9", fault=op.DIED))]
    assert books.received() == [], "its lease is over already"


def test_a_grant_without_a_worker_that_is_taken_waits_again(books: Books) -> None:
    books.grant(A)
    books.received()
    books.lease_manager.take(A, "rank")
    assert books.received() == [LeaseReleased(A), LeaseRequested(request_of(A))]
    assert books.dropped == [(A, False)] and books.killed == []
    books.lease_manager.take(A, "rank")
    books.lease_manager.take(B, "rank")
    assert books.received() == [] and books.dropped == [(A, False)], "what waits can't be taken"


def test_a_scheduler_may_take_a_lease_away(books: Books) -> None:
    books.grant(A, worker=b"worker")
    books.answer(Tick, Preempt(A, "a job of higher rank"))
    books.lease_manager.tick()
    assert books.killed == [(WORKER, "a job of higher rank")]


def test_a_worker_may_be_dropped_before_its_lease_is_over(books: Books) -> None:
    books.grant(A, worker=b"worker")
    books.received()
    books.lease_manager.drop_worker(A)
    books.lease_manager.drop_worker(B)
    assert books.dropped == [(A, True)] and books.received() == [] and A in books.lease_manager.leases


def test_who_waits_inside_get_lends_its_resources(books: Books) -> None:
    books.grant(A, worker=b"worker")
    books.received()
    books.lease_manager.block(A, True)
    books.lease_manager.block(A, False)
    books.lease_manager.block(B, True)
    assert books.received() == [LeaseBlocked(A), LeaseUnblocked(A)]


def test_with_a_process_all_that_it_asked_for_is_over(books: Books) -> None:
    holder, other = Holder(), Holder()
    books.grant(A, holder, worker=b"worker")
    books.ask(B, holder)
    books.ask(C, other)
    books.received()
    books.lease_manager.process_left(holder)  # type: ignore[arg-type]
    assert books.lease_manager.leases.keys() == {C}
    assert books.received() == [LeaseReleased(A), LeaseCancelled(B)] and books.dropped == [(A, True), (B, True)]


def test_with_a_node_its_leases_are_over_and_who_has_no_worker_yet_waits_again(books: Books) -> None:
    books.grant(A, worker=b"worker")
    books.grant(B)
    books.grant(C, node=OTHER_NODE, worker=b"elsewhere")
    books.ask(D := LeaseId(b"d"))
    books.received()
    assert books.lease_manager.remove_node(NODE) == [WORKER]
    assert books.received() == [NodeRemoved(NODE), LeaseRequested(request_of(B))]
    assert books.lease_manager.leases.keys() == {B, C, D}
    assert books.lease_manager.granted(B, 1) is None and books.lease_manager.granted(C, 1) is not None
    assert books.lease_manager.waiting and books.dropped == []


def test_who_lost_its_grant_with_a_node_may_go_at_the_same_moment(books: Books) -> None:
    books.ask(B)
    books.grant(A)
    books.received()
    books.on_find = lambda lease: books.lease_manager.release(A, broken=False)
    books.answer(NodeRemoved, grant_of(B, OTHER_NODE))
    books.lease_manager.remove_node(NODE)
    assert books.received() == [NodeRemoved(NODE), LeaseCancelled(A)], "it is not asked for again"


def test_a_group_is_over_with_the_last_lease_in_it(books: Books) -> None:
    books.answer(Tick, PlaceGroup(GROUP, books.ask_for_group(GROUP, NODE, OTHER_NODE)))
    books.lease_manager.tick()
    books.grant(A, group=GROUP, worker=b"worker")
    books.ask(B, group=GROUP)
    books.grant(C, group=GROUP, node=OTHER_NODE, worker=b"elsewhere")
    assert (
        sorted(books.lease_manager.leases_in(GROUP)) == [A, B, C]
        and books.lease_manager.leases_in(GroupId(b"none")) == []
    )
    books.received()
    books.lease_manager.dissolve(GROUP)
    books.lease_manager.cancel(B)
    books.lease_manager.release(A, broken=False)
    assert books.received() == [LeaseCancelled(B), LeaseReleased(A)] and books.lease_manager.leases_in(GROUP) == [C]
    books.lease_manager.remove_node(OTHER_NODE)
    assert books.received() == [NodeRemoved(OTHER_NODE), GroupRemoved(GROUP)]
    assert books.lease_manager.leases_in(GROUP) == []


@pytest.mark.parametrize("end", ["cancel", "release"])
def test_a_group_in_which_something_waits_is_over_when_that_is_withdrawn(books: Books, end: str) -> None:
    books.ask(A, group=GROUP)
    books.lease_manager.dissolve(GROUP)
    books.received()
    books.lease_manager.cancel(A) if end == "cancel" else books.lease_manager.release(A, broken=False)
    assert books.received() == [LeaseCancelled(A), GroupRemoved(GROUP)]


def test_a_group_without_leases_is_over_at_once(books: Books) -> None:
    books.lease_manager.dissolve(GROUP)
    books.ask(A, group=GroupId(b"another"))
    books.lease_manager.cancel(A)
    assert books.received()[0] == GroupRemoved(GROUP) and len(books.received()) == 0


def test_what_a_request_waits_for_is_explained(books: Books) -> None:
    books.ask(A)
    assert books.lease_manager.waiting and books.lease_manager.explain(A) == "there is no room"
    books.grant(B)
    assert books.lease_manager.explain(B) == "its worker process is starting"
    books.lease_manager.served(B, 1, WORKER)
    assert books.lease_manager.explain(B) == "it has a worker"
    assert books.lease_manager.explain(GROUP) == "there is no room"
    books.lease_manager.cancel(A)
    assert not books.lease_manager.waiting

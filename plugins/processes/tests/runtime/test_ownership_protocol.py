"""Counting references over several processes, with messages that arrive in any order between different pairs.

The processes here are the real `Ownership` without sockets: a network keeps one queue of messages for each pair and
the test decides which queue moves next. Nothing that is referenced anywhere may be freed, and when everything was
dropped nothing may be left.
"""

from __future__ import annotations

import pickle
import threading
from collections import defaultdict, deque
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kernel.runtime.object_entry import INLINE, PENDING, ObjectEntry, dropped
from kernel.runtime.object_ref import ObjectRef
from kernel.runtime.waiter import Waiter
from kernel_engine.objects.acknowledgements import Arrival
from kernel_engine.objects.ownership import Ownership
from kernel_processes.runtime.inspection import Inspection
from kernel_processes.worker.worker_end import WorkerEnd
from kernel_spec.errors import ObjectLostError

NAMES = [b"process%d" % i for i in range(3)]
TASK, RESULT = -1, -2


class Network:
    """A queue for each ordered pair of processes."""

    def __init__(self):
        self.queues = defaultdict(deque)
        self.processes = {}

    def ready(self):
        return sorted(pair for pair, queue in self.queues.items() if queue)

    def deliver(self, pair):
        sender, receiver = pair
        message = self.queues[pair].popleft()
        process = self.processes[receiver]
        process.handlers[message[0]](process.peer(sender), message)
        process.after()

    def deliver_all(self):
        while ready := self.ready():
            self.deliver(ready[0])


class FakeProcess:
    """What `Ownership` needs of a process, and a little life: objects, tasks, references held."""

    def __init__(self, id, network):
        self.id = id
        self.address = id.decode()
        self.lock = threading.RLock()
        self.handlers = {TASK: self.on_task, RESULT: self.on_result}
        self.on_peer_lost = []
        self.leftovers = []
        self.network = network
        self.store = SimpleNamespace(drain_released=lambda: None, delete=lambda ids: None)
        self.ownership = Ownership(self, self.store)
        self.refs = []
        self.running = []
        self.waiting = {}
        self.counter = 0
        network.processes[id] = self

    def peer(self, process, address=""):
        return SimpleNamespace(info=SimpleNamespace(id=process), closed=False)

    def send(self, connection, message):
        self.network.queues[(self.id, connection.info.id)].append(message)

    def after_batch(self, leftovers, function):
        self.leftovers.append((leftovers, function))

    def after(self):
        for leftovers, function in self.leftovers:
            if leftovers:
                function()

    def new_id(self):
        self.counter += 1
        return self.id + self.counter.to_bytes(8, "little") + b"\0\0\0\0"

    def put(self, inner):
        entry = ObjectEntry(self.new_id(), 1)
        entry.resolve(INLINE, b"")
        self.ownership.objects[entry.id] = entry
        if inner:
            self.ownership.contain(entry, inner)
        self.refs.append(ObjectRef(entry))

    def drop(self, index):
        del self.refs[index % len(self.refs)]
        self.ownership.drain()

    def unpack(self, ref):
        """Read a value: references to everything inside it."""
        entry = ref._entry
        if entry.state == PENDING:
            if entry.owner is not None:
                self.ownership.fetch(entry)
            return
        details = entry.details
        for inner in (details.contained if details is not None else None) or ():
            self.refs.append(self.ownership.adopt(inner.id, *self.owner_of(inner), None))

    def owner_of(self, entry):
        if entry.owner is None:
            return self.id, self.address
        return entry.owner, entry.details.address

    # a task: its arguments are held until the result is there

    def call(self, worker, refs):
        entry = ObjectEntry(self.new_id(), 1, task=SimpleNamespace(site=None))
        self.ownership.objects[entry.id] = entry
        self.refs.append(ObjectRef(entry))
        held = [ref._entry for ref in refs]
        self.ownership.hold(held)
        self.waiting[entry.id] = (entry, held)
        arguments = [(inner.id, *self.owner_of(inner)) for inner in held]
        self.send(self.peer(worker), (TASK, entry.id, arguments))

    def on_task(self, connection, message):
        _, id, arguments = message
        arrival = Arrival(connection.info.id, Waiter(0))
        refs = [self.ownership.adopt(inner, owner, address, arrival) for inner, owner, address in arguments]
        self.running.append((connection, id, arrival, refs))

    def finish(self, index, keep, give_back):
        connection, id, arrival, refs = self.running[index % len(self.running)]
        if arrival.unsettled.remaining > 0:
            return
        self.running.pop(index % len(self.running))
        inner = [ref._entry for ref in refs] if give_back else []
        carried = self.ownership.carry(inner, connection.info.id, id)
        if keep:
            self.refs += refs
        del refs
        self.send(connection, (RESULT, id, carried))
        self.ownership.drain()

    def on_result(self, connection, message):
        _, id, carried = message
        entry, held = self.waiting.pop(id)
        self.ownership.settle(entry, (0, b""), carried, connection.info.id, id)
        self.ownership.release(held)


class References(RuleBasedStateMachine):
    """Three processes do what processes do; every step does something."""

    @initialize()
    def start(self):
        dropped.clear()
        self.network = Network()
        self.processes = [FakeProcess(name, self.network) for name in NAMES]
        owner, borrower, _ = self.processes
        owner.put([])
        owner.call(borrower.id, owner.refs[:1])
        self.network.deliver_all()
        borrower.finish(0, True, False)
        self.network.deliver_all()
        while owner.refs:
            owner.drop(0)

    @rule(data=st.data(), who=st.sampled_from(NAMES))
    def put(self, data, who):
        process = self.network.processes[who]
        picks = data.draw(st.lists(st.integers(0, len(process.refs) - 1), max_size=2)) if process.refs else []
        process.put([process.refs[pick] for pick in picks])

    def holders(self):
        return [process.id for process in self.processes if process.refs]

    @precondition(lambda self: self.holders())
    @rule(data=st.data())
    def call(self, data):
        process = self.network.processes[data.draw(st.sampled_from(self.holders()))]
        worker = data.draw(st.sampled_from([name for name in NAMES if name != process.id]))
        count = len(process.refs)
        picks = data.draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=2))
        process.call(worker, [process.refs[pick] for pick in picks])

    @precondition(lambda self: any(process.running for process in self.processes))
    @rule(data=st.data(), keep=st.booleans(), give_back=st.booleans())
    def finish(self, data, keep, give_back):
        busy = [process.id for process in self.processes if process.running]
        process = self.network.processes[data.draw(st.sampled_from(busy))]
        process.finish(data.draw(st.integers(0, len(process.running) - 1)), keep, give_back)

    @precondition(lambda self: self.holders())
    @rule(data=st.data())
    def drop(self, data):
        process = self.network.processes[data.draw(st.sampled_from(self.holders()))]
        process.drop(data.draw(st.integers(0, len(process.refs) - 1)))

    @precondition(lambda self: self.holders())
    @rule(data=st.data())
    def drop_all(self, data):
        process = self.network.processes[data.draw(st.sampled_from(self.holders()))]
        while process.refs:
            process.drop(0)

    @precondition(lambda self: self.holders())
    @rule(data=st.data())
    def unpack(self, data):
        process = self.network.processes[data.draw(st.sampled_from(self.holders()))]
        process.unpack(process.refs[data.draw(st.integers(0, len(process.refs) - 1))])

    @precondition(lambda self: self.network.ready())
    @rule(data=st.data())
    def deliver(self, data):
        self.network.deliver(data.draw(st.sampled_from(self.network.ready())))

    @precondition(lambda self: self.network.ready())
    @rule(data=st.data())
    def deliver_all_of_one(self, data):
        pair = data.draw(st.sampled_from(self.network.ready()))
        while self.network.queues[pair]:
            self.network.deliver(pair)

    @precondition(lambda self: self.network.ready())
    @rule()
    def deliver_everything(self):
        self.network.deliver_all()

    @invariant()
    def nothing_that_is_referenced_was_freed(self):
        for process in getattr(self, "processes", ()):
            for ref in process.refs:
                entry = ref._entry
                owner = self.network.processes[process.owner_of(entry)[0]]
                assert entry.id in process.ownership.objects
                assert entry.id in owner.ownership.objects, f"{entry.id!r} was freed though {process.id!r} holds it"
                assert entry.state in (PENDING, INLINE), "a value was lost"

    def teardown(self):
        if not hasattr(self, "processes"):
            return
        for _ in range(100):
            self.network.deliver_all()
            for process in self.processes:
                while process.running and process.running[0][2].unsettled.remaining <= 0:
                    process.finish(0, False, False)
            if not self.network.ready() and not any(process.running for process in self.processes):
                break
        for process in self.processes:
            assert not process.running, "a task never became free to answer"
            while process.refs:
                process.drop(0)
        for _ in range(100):
            self.network.deliver_all()
            for process in self.processes:
                process.after()
            if not self.network.ready():
                break
        for process in self.processes:
            left = list(process.ownership.objects)
            assert not left, f"{process.id!r} still knows {left}"
            assert not process.ownership._transit
            assert not process.ownership._acknowledgements


References.TestCase.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestReferences = References.TestCase


@pytest.fixture
def three():
    dropped.clear()
    network = Network()
    return network, [FakeProcess(name, network) for name in NAMES]


def test_an_object_nobody_needs_is_freed_at_once(three):
    _, (owner, *_) = three
    owner.put([])
    assert len(owner.ownership.objects) == 1
    owner.drop(0)
    assert not owner.ownership.objects


def test_an_argument_lives_until_the_result_is_there(three):
    network, (owner, worker, _) = three
    owner.put([])
    id = owner.refs[0]._entry.id
    owner.call(worker.id, owner.refs[:1])
    owner.drop(0)
    assert id in owner.ownership.objects
    network.deliver_all()
    worker.finish(0, False, False)
    network.deliver_all()
    assert id not in owner.ownership.objects


def test_a_result_is_not_sent_before_a_stranger_is_registered(three):
    """The caller passes on what a third process owns; the worker must be known there before it answers."""
    network, (owner, caller, worker) = three
    owner.put([])
    owner.call(caller.id, owner.refs[:1])
    network.deliver_all()
    caller.finish(0, True, False)
    network.deliver_all()
    caller.call(worker.id, caller.refs[:1])
    network.deliver((caller.id, worker.id))
    assert worker.running[0][2].unsettled.remaining == 1
    network.deliver((worker.id, owner.id))
    network.deliver((owner.id, worker.id))
    assert worker.running[0][2].unsettled.remaining == 0


def test_the_death_of_a_borrower_frees_what_it_borrowed(three):
    network, (owner, worker, _) = three
    owner.put([])
    owner.call(worker.id, owner.refs[:1])
    network.deliver_all()
    worker.finish(0, True, False)
    network.deliver_all()
    while owner.refs:
        owner.drop(0)
    assert len(owner.ownership.objects) == 1
    for function in owner.on_peer_lost:
        function(SimpleNamespace(id=worker.id), "killed")
    assert not owner.ownership.objects


def borrow(network, owner, borrower):
    """Let `borrower` hold the only reference to a new object of `owner`; return its id."""
    owner.put([])
    id = owner.refs[0]._entry.id
    owner.call(borrower.id, owner.refs[:1])
    network.deliver_all()
    borrower.finish(0, True, False)
    network.deliver_all()
    while owner.refs:
        owner.drop(0)
    network.deliver_all()
    return id


def test_who_passes_on_a_result_holds_it_until_the_receiver_is_known(three):
    network, (owner, worker, caller) = three
    id = borrow(network, owner, worker)
    caller.put([])
    caller.call(worker.id, caller.refs[:1])
    network.deliver_all()
    worker.running[0][3][:] = worker.refs
    worker.finish(0, False, True)
    while worker.refs:
        worker.drop(0)
    network.deliver((worker.id, caller.id))
    assert id in worker.ownership.objects, "let go before the caller was registered with the owner"
    network.deliver_all()
    assert id not in worker.ownership.objects
    assert id in owner.ownership.objects
    assert owner.ownership.objects[id].details.borrowers == {caller.id: 1}


def test_a_release_that_crosses_a_new_registration_removes_only_the_old_one(three):
    network, (owner, borrower, _) = three
    id = borrow(network, owner, borrower)
    entry = owner.ownership.objects[id]
    carried = owner.ownership.carry([entry], borrower.id, b"key")
    borrower.drop(0)
    network.deliver_all()
    assert id in owner.ownership.objects, "the release took the new registration with it"
    outer = ObjectEntry(b"outer", 1)
    borrower.ownership.accept_carried(outer, carried, owner.id, b"key")
    assert entry.details.borrowers == {borrower.id: 1}
    borrower.ownership.release(outer.more().contained)
    borrower.after()
    network.deliver_all()
    assert id not in owner.ownership.objects


def test_a_reference_to_what_was_freed_says_so(three):
    _, (owner, *_) = three
    ref = owner.ownership.adopt(owner.new_id(), owner.id, owner.address, None)
    assert ref.is_ready()
    with pytest.raises(ObjectLostError, match="freed by its owner"):
        raise pickle.loads(ref._entry.value[1])


class SeenWhilePutting:
    """An object during whose inspection another thread puts one more."""

    state, needed, borrowed = INLINE, False, False

    def __init__(self, objects):
        self.objects = objects

    @property
    def details(self):
        self.objects[b"object%d" % len(self.objects)] = ObjectEntry(b"", 1)

    @property
    def owner(self):
        return self.details


@pytest.mark.parametrize(
    "look",
    [
        lambda ownership: ownership.drop_idle_views(),
        lambda ownership: WorkerEnd._is_needed(
            SimpleNamespace(
                _worker=SimpleNamespace(instance=None), _lets_go=False, _runtime=SimpleNamespace(ownership=ownership)
            )
        ),
        lambda ownership: Inspection._explain_matches(
            SimpleNamespace(_ownership=ownership, _match=lambda entry: entry.owner), b"object"
        ),
    ],
)
def test_what_looks_at_all_objects_does_not_mind_that_others_put(three, look):
    _, (owner, *_) = three
    objects = owner.ownership.objects
    for number in range(2):
        objects[b"object%d" % number] = SeenWhilePutting(objects)
    look(owner.ownership)
    assert len(objects) == 4

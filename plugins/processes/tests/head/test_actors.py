"""The life of actors as the head decides it: named cases, then random lives checked against a plain model."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.actor_ends import no_handles
from kernel_processes.head import actors as control
from kernel_processes.head.actor_records import (
    ALIVE,
    DEAD,
    PENDING,
    RESTARTING,
    STARTING,
    ActorRecord,
    AskLease,
    Construct,
    DropLease,
    EndWorker,
    Instruction,
    PublishActor,
)
from kernel_processes.head.actors import ActorTable
from kernel_spec.errors import ActorOutOfMemoryError, InternalError, NameTakenError
from kernel_spec.ids import ActorId, JobId, LeaseId, ProcessId

OWNER = ProcessId(b"owner")
WORKER = ProcessId(b"worker")
LEASE = LeaseId(b"lease")
ACTOR = ActorId(b"actor")
FAILURE = (0, b"failure")


def record(
    id: bytes = ACTOR,
    owner: bytes = OWNER,
    name: str = "",
    namespace: str = "space",
    detached: bool = False,
    max_restarts: int = 0,
) -> ActorRecord:
    description = {
        "class_name": "Counter",
        "name": name,
        "namespace": namespace,
        "detached": detached,
        "max_restarts": max_restarts,
    }
    return ActorRecord(ActorId(id), JobId(b"job"), ProcessId(owner), description)


def alive(table: ActorTable, **description: Any) -> ActorRecord:
    """Bring an actor to life."""
    made = record(**description)
    table.create(made)
    table.arguments_ready(made.id, b"creation", None)
    table.lease_asked(made.id, LEASE)
    table.lease_granted(LEASE, WORKER)
    table.constructed(made.id, None)
    table.validate()
    return made


def test_an_actor_that_was_ended_for_memory_rests_ever_longer_before_it_restarts() -> None:
    table = ActorTable()
    actor = alive(table, max_restarts=2)
    for seconds in (1.0, 2.0):
        assert table.worker_died(WORKER, "memory ran out", op.CROWDED_OUT)[-1] == AskLease(ACTOR, seconds)
        table.validate()
        assert actor.lease is None
        table.lease_asked(ACTOR, LEASE)
        table.lease_granted(LEASE, WORKER)
        table.constructed(ACTOR, None)
        table.validate()
    table.worker_died(WORKER, "memory ran out", op.CROWDED_OUT)
    assert actor.state == DEAD and actor.failure is not None
    error = pickle.loads(actor.failure[1])
    assert type(error) is ActorOutOfMemoryError
    assert str(error) == (
        "actor Counter was ended: memory ran out. It was restarted 2 times and has no restarts left (max_restarts). "
        "Have fewer of them run at once (num_cpus=, or memory= to reserve what each needs)"
    )


def test_an_actor_that_rests_can_be_killed() -> None:
    table = ActorTable()
    actor = alive(table, max_restarts=1)
    table.worker_died(WORKER, "memory ran out", op.OUT_OF_MEMORY)
    assert table.kill(ACTOR, no_restart=True) == [PublishActor(ACTOR)]
    assert actor.state == DEAD
    table.validate()


def test_life_from_creation_to_death() -> None:
    table = ActorTable()
    actor = record()
    table.create(actor)
    assert actor.state == PENDING
    assert table.arguments_ready(ACTOR, b"creation", None) == [AskLease(ACTOR)]
    table.lease_asked(ACTOR, LEASE)
    assert table.lease_granted(LEASE, WORKER) == [Construct(ACTOR)]
    assert actor.state == STARTING
    assert table.constructed(ACTOR, None) == [PublishActor(ACTOR)]
    assert actor.state == ALIVE
    assert table.worker_died(WORKER, "signal 9") == [DropLease(LEASE), PublishActor(ACTOR)]
    assert (actor.state, actor.cause) == (DEAD, "signal 9")
    table.validate()


def test_every_change_is_there_to_be_written_down() -> None:
    table = ActorTable()

    def changed() -> bool:
        found = table.changed == {ACTOR}
        table.changed.clear()
        return found

    table.create(record(max_restarts=1))
    found = [changed()]
    table.arguments_ready(ACTOR, b"creation", None)
    found.append(changed())
    table.lease_asked(ACTOR, LEASE)
    found.append(changed())
    table.lease_granted(LEASE, WORKER)
    found.append(changed())
    table.constructed(ACTOR, None)
    found.append(changed())
    table.ends_itself(WORKER, "it left")
    found.append(changed())
    table.worker_died(WORKER, "it left")
    assert [*found, changed()] == [True] * 7


def test_when_a_last_handle_goes_that_is_a_change_too() -> None:
    table = ActorTable()
    alive(table)
    table.changed.clear()
    table.out_of_scope(ACTOR)
    assert table.changed == {ACTOR}


def test_the_jobs_of_living_actors_are_told() -> None:
    table = ActorTable()
    assert table.living_jobs() == set()
    alive(table)
    assert table.living_jobs() == {JobId(b"job")}
    table.kill(ACTOR, no_restart=True)
    assert table.living_jobs() == set()


def test_an_actor_that_asks_again_does_not_rest_any_more() -> None:
    table = ActorTable()
    actor = alive(table, max_restarts=1)
    table.worker_died(WORKER, "memory ran out", op.OUT_OF_MEMORY)
    assert actor.rests
    table.lease_asked(ACTOR, LEASE)
    assert not actor.rests


def test_creating_an_actor_twice_is_our_bug() -> None:
    table = ActorTable()
    table.create(record())
    with pytest.raises(InternalError):
        table.create(record())


def test_name_is_taken_from_creation_to_death() -> None:
    table = ActorTable()
    table.create(record(b"one", name="x"))
    with pytest.raises(NameTakenError, match=r"'x' lives in namespace 'space'.*get_if_exists"):
        table.create(record(b"two", name="x"))
    table.create(record(b"three", name="x", namespace="other"))
    found = table.find("space", "x")
    assert found is not None and found.id == b"one"
    table.kill(ActorId(b"one"), no_restart=True)
    assert table.find("space", "x") is None
    table.create(record(b"four", name="x"))
    table.validate()


def test_name_is_free_as_soon_as_the_actor_is_killed() -> None:
    table = ActorTable()
    alive(table, name="x")
    steps = table.kill(ACTOR, no_restart=True)
    assert steps == [
        EndWorker(WORKER, "it was killed by kernel.kill(actor)", drain=False, kindly=False),
        PublishActor(ACTOR),
    ]
    table.create(record(b"next", name="x"))
    assert table.worker_died(WORKER, "exit") == []
    table.validate()


def test_failed_argument_kills_with_its_failure() -> None:
    table = ActorTable()
    actor = record(name="x")
    table.create(actor)
    assert table.arguments_ready(ACTOR, b"", FAILURE) == [PublishActor(ACTOR)]
    assert (actor.state, actor.failure) == (DEAD, FAILURE)
    assert table.find("space", "x") is None


def test_failed_constructor_ends_the_worker_and_never_restarts() -> None:
    table = ActorTable()
    actor = record(max_restarts=-1)
    table.create(actor)
    table.arguments_ready(ACTOR, b"creation", None)
    table.lease_asked(ACTOR, LEASE)
    table.lease_granted(LEASE, WORKER)
    assert table.constructed(ACTOR, FAILURE) == [
        EndWorker(WORKER, "its constructor raised", drain=False),
        PublishActor(ACTOR),
    ]
    assert actor.failure == FAILURE
    assert table.worker_died(WORKER, "exit") == []
    table.validate()


@pytest.mark.parametrize("restarts", [0, 1, 3])
def test_restarts_are_counted(restarts: int) -> None:
    table = ActorTable()
    actor = alive(table, max_restarts=restarts)
    for attempt in range(1, restarts + 1):
        assert table.worker_died(actor.worker, "signal 11")[-2:] == [PublishActor(ACTOR), AskLease(ACTOR)]
        assert (actor.state, actor.attempt) == (RESTARTING, attempt)
        lease, worker = LeaseId(b"lease%d" % attempt), ProcessId(b"worker%d" % attempt)
        table.lease_asked(ACTOR, lease)
        table.lease_granted(lease, worker)
        table.constructed(ACTOR, None)
        table.validate()
    table.worker_died(actor.worker, "signal 11")
    assert actor.state == DEAD
    assert list(actor.workers) == [WORKER, *(b"worker%d" % attempt for attempt in range(1, restarts + 1))]


def test_kill_that_allows_restarts_waits_for_the_old_process() -> None:
    table = ActorTable()
    actor = alive(table, max_restarts=1)
    steps = table.kill(ACTOR, no_restart=False)
    assert [type(step) for step in steps] == [EndWorker, PublishActor]
    assert (actor.state, actor.attempt) == (RESTARTING, 1)
    assert table.kill(ACTOR, no_restart=False) == []
    table.validate()
    assert table.worker_died(WORKER, "killed") == [DropLease(LEASE), AskLease(ACTOR)]
    assert (actor.state, actor.attempt) == (RESTARTING, 1)


def test_kill_that_allows_restarts_is_the_end_when_none_is_left() -> None:
    table = ActorTable()
    actor = alive(table)
    assert [type(step) for step in table.kill(ACTOR, no_restart=False)] == [EndWorker, PublishActor]
    assert actor.state == DEAD


def test_actor_that_leaves_by_itself_is_not_restarted() -> None:
    table = ActorTable()
    actor = alive(table, max_restarts=-1)
    table.ends_itself(WORKER, "exit_actor() was called")
    table.worker_died(WORKER, "exit code 0")
    assert (actor.state, actor.cause) == (DEAD, "exit_actor() was called")


def test_out_of_scope_drains_once() -> None:
    table = ActorTable()
    actor = alive(table, name="x")
    assert table.out_of_scope(ACTOR) == [EndWorker(WORKER, no_handles("it"), drain=True)]
    assert table.out_of_scope(ACTOR) == []
    assert actor.state == ALIVE
    assert table.find("space", "x") is None, "nobody may get a handle to an actor that ends"
    table.worker_died(WORKER, "exit code 0")
    assert (actor.state, actor.cause) == (DEAD, no_handles("it"))


def test_out_of_scope_before_its_time_still_constructs() -> None:
    table = ActorTable()
    actor = record()
    table.create(actor)
    table.arguments_ready(ACTOR, b"creation", None)
    table.lease_asked(ACTOR, LEASE)
    assert table.out_of_scope(ACTOR) == []
    assert table.lease_granted(LEASE, WORKER) == [Construct(ACTOR)]
    assert table.constructed(ACTOR, None) == [PublishActor(ACTOR), EndWorker(WORKER, actor.ending, drain=True)]


def test_out_of_scope_while_it_restarts_is_the_end() -> None:
    table = ActorTable()
    actor = alive(table, max_restarts=-1)
    table.worker_died(WORKER, "signal 9")
    table.lease_asked(ACTOR, LeaseId(b"second"))
    assert table.out_of_scope(ACTOR) == [DropLease(LeaseId(b"second")), PublishActor(ACTOR)]
    assert actor.state == DEAD


def test_owner_takes_its_actors_along_but_for_detached_ones() -> None:
    table = ActorTable()
    mine = alive(table)
    detached, early, other = (
        record(b"detached", detached=True, name="d"),
        record(b"early", detached=True, name="e"),
        record(b"other", owner=b"else"),
    )
    for made in (detached, early, other):
        table.create(made)
    table.arguments_ready(detached.id, b"creation", None)
    table.lease_asked(detached.id, LeaseId(b"for detached"))
    table.owner_died(OWNER)
    assert mine.state == DEAD
    assert detached.state == PENDING
    assert early.state == DEAD, "its arguments will never come"
    assert other.state == PENDING
    table.validate()


def test_lease_for_a_dead_actor_is_given_back() -> None:
    table = ActorTable()
    actor = record()
    table.create(actor)
    table.arguments_ready(ACTOR, b"creation", None)
    table.lease_asked(ACTOR, LEASE)
    assert table.kill(ACTOR, no_restart=True) == [DropLease(LEASE), PublishActor(ACTOR)]
    assert table.lease_granted(LEASE, WORKER) == [DropLease(LEASE)]


def test_lease_that_fails_says_why() -> None:
    table = ActorTable()
    actor = record()
    table.create(actor)
    table.arguments_ready(ACTOR, b"creation", None)
    table.lease_asked(ACTOR, LEASE)
    table.lease_failed(LEASE, FAILURE, "no such package")
    assert (actor.state, actor.cause, actor.failure) == (DEAD, "no such package", FAILURE)


def test_only_the_last_dead_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "KEPT_DEAD", 3)
    table = ActorTable()
    for index in range(5):
        table.create(record(b"%d" % index))
    steps = table.owner_died(OWNER)
    assert all(step.actor in table.actors for step in steps if isinstance(step, PublishActor))
    table.forget_dead()
    assert list(table.actors) == [b"2", b"3", b"4"]
    table.validate()


class ActorLives(RuleBasedStateMachine):
    """Any order of events; the shell's side (leases, workers) is modelled, and must always get a use for both."""

    actors = Bundle("actors")

    def __init__(self) -> None:
        super().__init__()
        self.table = ActorTable()
        self.count = 0
        self.asked: dict[LeaseId, ActorId] = {}
        self.granted: dict[LeaseId, ProcessId] = {}
        self.living: set[ProcessId] = set()
        self.ending: set[ProcessId] = set()
        self.constructing: dict[ActorId, ProcessId] = {}
        self.published: dict[ActorId, list[str]] = {}
        self.killed: set[ActorId] = set()

    def new(self, kind: str) -> bytes:
        self.count += 1
        return f"{kind}{self.count}".encode()

    def carry_out(self, steps: list[Instruction]) -> None:
        for step in steps:
            if isinstance(step, AskLease):
                lease = LeaseId(self.new("lease"))
                self.asked[lease] = step.actor
                self.table.lease_asked(step.actor, lease)
            elif isinstance(step, DropLease):
                assert step.lease in self.asked or step.lease in self.granted
                self.asked.pop(step.lease, None)
                self.granted.pop(step.lease, None)
            elif isinstance(step, Construct):
                self.constructing[step.actor] = self.table.actors[step.actor].worker
            elif isinstance(step, EndWorker):
                assert step.worker in self.living
                self.ending.add(step.worker)
            else:
                self.published.setdefault(step.actor, []).append(self.table.actors[step.actor].state)

    @rule(
        target=actors,
        name=st.sampled_from(["", "x", "y"]),
        owner=st.sampled_from([b"p", b"q"]),
        detached=st.booleans(),
        restarts=st.sampled_from([-1, 0, 1]),
    )
    def create(self, name: str, owner: bytes, detached: bool, restarts: int) -> ActorId:
        made = record(self.new("actor"), owner, name, detached=detached, max_restarts=restarts)
        holder = self.table.find("space", name) if name else None
        if holder is None:
            self.table.create(made)
        else:
            with pytest.raises(NameTakenError):
                self.table.create(made)
        return made.id

    @rule(actor=actors, fails=st.booleans())
    def arguments(self, actor: ActorId, fails: bool) -> None:
        self.carry_out(self.table.arguments_ready(actor, b"" if fails else b"creation", FAILURE if fails else None))

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def grant(self, data: st.DataObject) -> None:
        lease = data.draw(st.sampled_from(sorted(self.asked)))
        worker = ProcessId(self.new("worker"))
        del self.asked[lease]
        self.granted[lease] = worker
        self.living.add(worker)
        self.carry_out(self.table.lease_granted(lease, worker))

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def lease_fails(self, data: st.DataObject) -> None:
        lease = data.draw(st.sampled_from(sorted(self.asked)))
        self.carry_out(self.table.lease_failed(lease, FAILURE, "no environment"))
        self.asked.pop(lease, None)

    @precondition(lambda self: self.constructing)
    @rule(data=st.data(), fails=st.booleans())
    def constructor_ends(self, data: st.DataObject, fails: bool) -> None:
        actor = data.draw(st.sampled_from(sorted(self.constructing)))
        worker = self.constructing.pop(actor)
        if worker in self.living:
            self.carry_out(self.table.constructed(actor, FAILURE if fails else None))

    @precondition(lambda self: self.living)
    @rule(data=st.data())
    def process_ends(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(sorted(self.living)))
        self.living.discard(worker)
        self.constructing = {actor: w for actor, w in self.constructing.items() if w != worker}
        self.carry_out(
            self.table.worker_died(worker, "signal 9", data.draw(st.sampled_from([op.DIED, op.OUT_OF_MEMORY])))
        )
        for lease in [lease for lease, w in self.granted.items() if w == worker]:
            del self.granted[lease]  # the agent gives back what a process held

    @rule(actor=actors)
    def out_of_scope(self, actor: ActorId) -> None:
        self.carry_out(self.table.out_of_scope(actor))

    @rule(actor=actors, no_restart=st.booleans())
    def kill(self, actor: ActorId, no_restart: bool) -> None:
        self.carry_out(self.table.kill(actor, no_restart))
        if no_restart and actor in self.table.actors:
            self.killed.add(actor)

    @precondition(lambda self: self.living)
    @rule(data=st.data())
    def leaves(self, data: st.DataObject) -> None:
        self.table.ends_itself(data.draw(st.sampled_from(sorted(self.living))), "exit_actor()")

    @rule(owner=st.sampled_from([b"p", b"q"]))
    def owner_ends(self, owner: bytes) -> None:
        self.carry_out(self.table.owner_died(ProcessId(owner)))

    @invariant()
    def books_add_up(self) -> None:
        self.table.validate()

    @invariant()
    def every_lease_and_worker_has_a_use(self) -> None:
        for lease, actor in self.asked.items():
            assert self.table.actors[actor].lease == lease, "a request is waiting for nobody"
        for lease, worker in self.granted.items():
            used = any(made.lease == lease for made in self.table.actors.values())
            assert used or worker in self.ending, "a worker does nothing and was not told to end"

    @invariant()
    def the_dead_stay_dead_and_everybody_knows(self) -> None:
        for actor in self.killed:
            assert self.table.actors[actor].state == DEAD
        for actor, made in self.table.actors.items():
            told = self.published.get(actor, [PENDING])
            assert told.count(DEAD) == (made.state == DEAD), "death is told exactly once"
            if made.state in (ALIVE, RESTARTING, DEAD):
                assert told[-1] == made.state


ActorLives.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestActorLives = ActorLives.TestCase


# -- after the death of a head -----------------------------------------------------------------------------------------


def restored(made: ActorRecord) -> ActorTable:
    """Return the table of another head, which has read what the first wrote down."""
    table = ActorTable()
    table.restore(pickle.loads(pickle.dumps(made)))
    table.validate()
    return table


def test_what_an_agent_tells_once_more_changes_nothing() -> None:
    table = restored(alive(ActorTable(), name="named"))
    assert table.lease_granted(LEASE, WORKER) == []
    assert table.constructed(ACTOR, None) == []
    assert table.arguments_ready(ACTOR, b"creation", None) == []
    assert table.actors[ACTOR].state == ALIVE
    assert table.find("space", "named") is table.actors[ACTOR]
    assert table.resume({WORKER}, {LEASE}, {OWNER}) == []
    table.validate()


def test_what_is_not_there_any_more_is_mourned_when_the_next_head_goes_on() -> None:
    table = restored(alive(ActorTable(), max_restarts=1))
    assert AskLease(ACTOR) in table.resume(set(), set(), {OWNER})
    assert table.actors[ACTOR].state == RESTARTING
    table = restored(alive(ActorTable()))
    assert PublishActor(ACTOR) in table.resume({WORKER}, {LEASE}, set())
    assert (table.actors[ACTOR].state, table.actors[ACTOR].cause) == (DEAD, "the process that created it ended")


def test_what_may_not_have_been_done_is_done_again() -> None:
    table = ActorTable()
    table.create(record())
    table.arguments_ready(ACTOR, b"creation", None)
    table.lease_asked(ACTOR, LEASE)
    waiting = restored(table.actors[ACTOR])
    assert waiting.resume(set(), set(), {OWNER}) == [AskLease(ACTOR)]
    table.lease_granted(LEASE, WORKER)
    starting = restored(table.actors[ACTOR])
    assert starting.resume({WORKER}, {LEASE}, {OWNER}) == [Construct(ACTOR)]
    table.constructed(ACTOR, None)
    table.out_of_scope(ACTOR)
    ending = restored(table.actors[ACTOR])
    assert [type(step) for step in ending.resume({WORKER}, {LEASE}, {OWNER})] == [EndWorker]


def test_those_that_changed_are_named_until_they_are_written_down() -> None:
    table = ActorTable()
    made = alive(table)
    assert table.changed == {ACTOR}
    table.changed.clear()
    table.kill(made.id, True)
    assert table.changed == {ACTOR}

"""Actors on the head: what is asked of nodes and the scheduler for them, who hears of it, what is kept."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from kernel.defaults.metadata import LocalMetadataStore
from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import number_of, packed
from kernel_processes.head import actors as actor_table
from kernel_processes.head.actor_records import ALIVE, DEAD, PENDING, RESTARTING
from kernel_processes.protocol import head_messages
from kernel_processes.protocol.detached_jobs import DETACHED
from kernel_spec.errors import KernelError, NameTakenError
from kernel_spec.ids import ActorId, LeaseId, NodeId, ProcessId
from kernel_spec.resources import Allocation, amounts
from kernel_spec.scheduling import NOWHERE, Grant, LeaseReleased, LeaseRequested, Tick
from plugins.processes.tests.head.head_bench import DRIVER, FIRST, JOB, OTHER, SECOND, WORKER, Bench

OWNER = ProcessId(b"owner-01")
"""The process that creates actors: their ids begin with its own."""
ACTOR = ActorId(OWNER + bytes(8))
MINE, NEXT = ProcessId(b"worker-3"), ProcessId(b"worker-4")
"""Workers on the second node."""
WANTED = amounts({"CPU": 1, "GPU": 0.5})
DEVICES = {"GPU": {3: WANTED["GPU"]}}
ENDED = "the process that created it ended"


class LastingStore(LocalMetadataStore):
    """A store that outlives a head, as that test has it."""

    durable = True


class Stage(Bench):
    """A head that is asked for actors, by the owner on the first node."""

    def start(self) -> Stage:
        self.join()
        self.process(OWNER, "driver")
        return self

    def say(self, *message: Any, by: ProcessId = OWNER) -> None:
        self.tell(0, head_messages.FROM_PROCESS, by, message)

    def ask(self, method: str, *arguments: Any) -> Any:
        """Return the answer to the owner, or raise it."""
        self.say(op.CALL, 7, method, arguments)
        ((operation, _, value),) = [
            message for message in self.received_by(OWNER) if message[0] in (op.REPLY, op.REPLY_ERROR, op.REPLY_PICKLED)
        ]
        if operation == op.REPLY_ERROR:
            raise pickle.loads(value)
        return pickle.loads(value) if operation == op.REPLY_PICKLED else value

    def described(self, **more: Any) -> bytes:
        said = {
            "class_name": "Counter", "name": "", "namespace": "space", "detached": False, "max_restarts": 0,
            "get_if_exists": False, "job": JOB, "owner": OWNER, "environment": None, "owner_address": "/owner",
            "placing": pickle.dumps(("SPREAD", {"near": 1})), "wanted": WANTED, "definition": b"code",
            "max_pending_calls": 9, "group": None,
        }  # fmt: skip
        return pickle.dumps({**said, **more})

    def create(self, id: ActorId = ACTOR, **more: Any) -> None:
        self.say(*packed(op.CreateActor(id, self.described(**more))))

    def lease(self) -> LeaseId:  # type: ignore[override]
        """Return the lease that was asked for last."""
        return [event for event in self.scheduler.received if isinstance(event, LeaseRequested)][-1].request.id

    def grants(self) -> None:
        """Have the scheduler grant what is asked for next, on the second node."""

        class Generous(dict):  # type: ignore[type-arg]
            def pop(self, event: type, default: Any = None) -> Any:
                return [Grant(stage.lease(), SECOND, Allocation(WANTED, DEVICES))] if event is LeaseRequested else []

        stage = self
        self.scheduler.answers = Generous()

    def serve(self, worker: ProcessId = WORKER, attempt: int = 1) -> None:
        self.process(worker, "worker", node=1)
        self.tell(1, head_messages.WORKER_FOUND, self.lease(), attempt, worker)

    def live(self, id: ActorId = ACTOR, worker: ProcessId = MINE, **more: Any) -> None:
        """Bring an actor to life, on the second node."""
        self.grants()
        self.create(id, **more)
        self.say(*packed(op.ActorArguments(id, b"creation", None)))
        self.serve(worker)
        self.tell(1, head_messages.FROM_PROCESS, worker, packed(op.ActorReady(actor=id, failure=None)))
        self.received_by(OWNER)
        self.said_to.clear()

    def states(self, process: ProcessId = OWNER) -> list[Any]:
        """Return what a process has heard of actors since the last time: without operation and id."""
        return [message[2:] for message in self.received_by(process) if message[0] == number_of(op.ActorState)]

    def row(self, id: ActorId = ACTOR) -> dict[str, Any]:
        (row,) = [row for row in self.ask("actors", True) if row["actor_id"] == id.hex()]
        return row  # type: ignore[no-any-return]


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage().start()
    yield stage
    assert stage.ended == [], "what the scheduler said could be done"


# -- life ------------------------------------------------------------------------------------------------------------


def test_an_actor_asks_for_a_worker_when_its_arguments_are_there(stage: Stage) -> None:
    stage.create(name="counter", environment={"env_vars": {"A": "1"}})
    assert not any(isinstance(event, LeaseRequested) for event in stage.scheduler.received)
    stage.say(*packed(op.ActorArguments(ACTOR, b"creation", None)))
    event = stage.scheduler.received[-1]
    assert isinstance(event, LeaseRequested)
    request = event.request
    assert (request.job, request.requester, request.wanted, request.name) == (JOB, OWNER, WANTED, "Counter 'counter'")
    assert (request.for_actor, request.origin, request.group, request.bundle) == (True, FIRST, None, -1)
    assert (request.strategy, request.hints, len(request.id)) == ("SPREAD", {"near": 1}, 8)
    assert stage.head.jobs.environments.description(request.environment) == {"env_vars": {"A": "1"}}
    assert stage.logged == [] and stage.states() == []


def test_from_its_lease_to_its_life(stage: Stage) -> None:
    stage.grants()
    stage.create(max_restarts=4, group="a group")
    stage.say(*packed(op.ActorArguments(ACTOR, b"creation", None)))
    stage.said_to.clear()
    stage.serve(MINE)
    become = packed(op.BecomeActor(actor=ACTOR, creation=b"creation", held=(WANTED, DEVICES, "a group"), attempt=0))
    assert stage.take(SECOND) == [
        packed(head_messages.ConstructActor(worker=MINE, class_name="Counter", restarts=4, message=become))
    ]
    assert stage.states() == [] and stage.take(FIRST) == []
    stage.tell(1, head_messages.FROM_PROCESS, MINE, packed(op.ActorReady(actor=ACTOR, failure=None)))
    assert stage.states() == [(ALIVE, MINE, f"/{MINE!r}", 0, "", None, False)]
    assert stage.happened("actor") == [(ALIVE, ACTOR, {"name": "Counter", "cause": ""})]
    assert stage.logged == []


def test_a_constructor_that_raises_is_the_end(stage: Stage) -> None:
    stage.grants()
    stage.create()
    stage.say(*packed(op.ActorArguments(ACTOR, b"creation", None)))
    stage.serve(MINE)
    stage.said_to.clear()
    stage.tell(1, head_messages.FROM_PROCESS, MINE, packed(op.ActorReady(actor=ACTOR, failure=(1, b"error"))))
    assert stage.states() == [(DEAD, b"", "", 0, "its constructor raised", (1, b"error"), False)]
    assert stage.take(SECOND) == [
        packed(head_messages.StopWorker(worker=MINE, reason="its constructor raised", drain=False, kindly=True))
    ]
    assert stage.logged == []


def test_arguments_that_failed_are_the_end(stage: Stage) -> None:
    stage.create()
    stage.say(*packed(op.ActorArguments(ACTOR, b"", (1, b"error"))))
    assert stage.states() == [(DEAD, b"", "", 0, "an argument of its constructor failed", (1, b"error"), False)]


def test_an_actor_that_is_told_once_more_is_the_one_there_is(stage: Stage) -> None:
    stage.live()
    stage.create()
    assert stage.ask("create_named_actor", ACTOR, stage.described()) is None
    assert stage.row()["state"] == ALIVE and stage.logged == []


def test_who_tells_of_it_once_more_hears_of_it_from_then_on(stage: Stage) -> None:
    stage.live()
    stage.say(*packed(op.CreateActor(ACTOR, stage.described())), by=DRIVER)
    stage.say(*packed(op.ForgetActor(ACTOR)))
    stage.tell(1, *packed(head_messages.WorkerDied(MINE, 1, "ended", op.DIED)))
    assert [state[0] for state in stage.states(DRIVER)] == [DEAD]


def test_when_all_handles_are_gone_it_ends_after_its_calls(stage: Stage) -> None:
    stage.live()
    stage.say(*packed(op.ForgetActor(ACTOR)))
    assert stage.take(SECOND) == [
        packed(
            head_messages.StopWorker(worker=MINE, reason="all handles to it went out of scope", drain=True, kindly=True)
        )
    ]
    lease = stage.head.actors.table.actors[ACTOR].lease
    stage.tell(1, *packed(head_messages.WorkerDied(MINE, 1, "it ended", op.DIED)))
    assert stage.states() == [(DEAD, b"", "", 0, "all handles to it went out of scope", None, False)]
    assert LeaseReleased(lease) in stage.scheduler.received  # type: ignore[arg-type]
    assert (head_messages.DROP_WORKER, lease, True, False) in stage.take(SECOND)


def test_one_that_is_killed_ends_at_once(stage: Stage) -> None:
    stage.live(max_restarts=3)
    stage.ask("kill_actor", ActorId(b"unknown"), True)
    assert stage.take(SECOND) == []
    stage.say(op.CALL, 8, "kill_actor", (ACTOR, True))
    cause = "it was killed by kernel.kill(actor)"
    assert stage.take(SECOND) == [
        packed(head_messages.StopWorker(worker=MINE, reason=cause, drain=False, kindly=False))
    ]
    assert stage.states() == [(DEAD, b"", "", 0, cause, None, False)]


def test_one_that_is_killed_to_be_restarted_is(stage: Stage) -> None:
    stage.live(max_restarts=3)
    first = stage.lease()
    stage.say(op.CALL, 8, "kill_actor", (ACTOR, False))
    assert [state[0] for state in stage.states()] == [RESTARTING] and stage.lease() == first
    stage.tell(1, *packed(head_messages.WorkerDied(MINE, 1, "killed", op.DIED)))
    assert stage.lease() != first


def test_one_whose_process_died_is_restarted_with_another_lease(stage: Stage) -> None:
    stage.live(max_restarts=1)
    first = stage.lease()
    stage.tell(1, *packed(head_messages.WorkerDied(MINE, 1, "signal 9", op.DIED)))
    assert stage.states() == [(RESTARTING, b"", "", 1, "signal 9", None, True)]
    assert stage.lease() != first
    stage.said_to.clear()
    stage.serve(NEXT)
    ((_, worker, name, restarts, message),) = [
        each for each in stage.take(SECOND) if each[0] == number_of(head_messages.ConstructActor)
    ]
    assert (worker, name, restarts, message[4]) == (NEXT, "Counter", 0, 1)
    stage.tell(1, head_messages.FROM_PROCESS, NEXT, packed(op.ActorReady(actor=ACTOR, failure=None)))
    assert [state[:4] for state in stage.states()] == [(ALIVE, NEXT, f"/{NEXT!r}", 1)]
    stage.tell(1, *packed(head_messages.WorkerDied(NEXT, 1, "signal 11", op.DIED)))
    assert stage.states() == [(DEAD, b"", "", 1, "signal 11", None, True)]
    assert stage.row()["workers"] == [MINE.hex(), NEXT.hex()]


def test_one_that_was_ended_for_memory_rests_before_it_asks_again(stage: Stage) -> None:
    stage.live(max_restarts=1)
    first, timers = stage.lease(), len(stage.timers)
    stage.tell(1, *packed(head_messages.WorkerDied(MINE, 1, "memory ran out", op.OUT_OF_MEMORY)))
    assert stage.lease() == first
    assert stage.ask("explain_actor", ACTOR) == "actor Counter rests before it is restarted: memory ran out"
    ((seconds, ask),) = stage.timers[timers:]
    assert seconds == 1.0
    ask()
    assert stage.lease() != first and len(stage.timers) == timers + 1


def test_one_that_ends_while_it_rests_asks_for_nothing(stage: Stage) -> None:
    stage.live(max_restarts=1)
    first = stage.lease()
    stage.tell(1, *packed(head_messages.WorkerDied(MINE, 1, "memory ran out", op.CROWDED_OUT)))
    stage.ask("kill_actor", ACTOR, True)
    _, ask = stage.timers[-1]
    ask()
    stage.head.actors.table.actors.clear()
    ask()
    assert stage.lease() == first


def test_one_that_leaves_by_itself_is_not_restarted(stage: Stage) -> None:
    stage.live(max_restarts=3)
    stage.tell(1, head_messages.FROM_PROCESS, MINE, (op.CALL, 1, "actor_leaves", ("exit_actor() was called",)))
    stage.tell(1, *packed(head_messages.WorkerDied(MINE, 1, "it ended", op.DIED)))
    assert stage.states() == [(DEAD, b"", "", 0, "exit_actor() was called", None, False)]


def test_an_actor_goes_with_its_owner_and_a_detached_one_stays(stage: Stage) -> None:
    stage.live()
    stage.live(other := ActorId(OWNER + b"another!"), OTHER, name="stays", detached=True)
    stage.say(*packed(op.SubscribeActor(ACTOR)), by=DRIVER)
    stage.states(DRIVER)
    stage.tell(0, *packed(head_messages.ProcessLeft(OWNER)))
    assert [state[:1] + state[4:5] for state in stage.states(DRIVER)] == [(DEAD, ENDED)]
    assert [(row["actor_id"], row["state"]) for row in stage.actors()] == [
        (ACTOR.hex(), DEAD),
        (other.hex(), ALIVE),
    ]
    assert stage.received_by(OWNER) == [], "it is gone"


def test_a_detached_actor_has_a_job_that_outlives_its_creators() -> None:
    stage = Stage(LastingStore()).start()
    stage.create(name="stays", detached=True, namespace="other")
    record = stage.head.actors.table.actors[ACTOR]
    assert record.job == DETACHED + JOB + b":other"
    assert record.job in {job.id for job in stage.head.journal.jobs()}


# -- names -----------------------------------------------------------------------------------------------------------


def test_a_name_is_for_one_actor_at_a_time(stage: Stage) -> None:
    other = ActorId(OWNER + b"another!")
    assert stage.ask("create_named_actor", ACTOR, stage.described(name="counter")) is None
    with pytest.raises(NameTakenError, match="an actor named 'counter' lives in namespace 'space'"):
        stage.ask("create_named_actor", other, stage.described(name="counter"))
    found = pickle.loads(stage.ask("create_named_actor", other, stage.described(name="counter", get_if_exists=True)))
    assert found == {
        "id": ACTOR, "definition": b"code", "max_pending_calls": 9, "owner": OWNER, "owner_address": "/owner",
        "detached": False, "name": "counter",
    }  # fmt: skip
    again = stage.ask("create_named_actor", ACTOR, stage.described(name="counter", get_if_exists=True))
    assert again is None, "it is the one that is asked for"
    named = stage.described(name="counter", namespace="elsewhere", get_if_exists=True)
    assert stage.ask("create_named_actor", other, named) is None
    assert stage.ask("find_actor", "counter", "elsewhere") is not None
    assert pickle.loads(stage.ask("find_actor", "counter", "space"))["id"] == ACTOR
    assert stage.ask("find_actor", "nobody", "space") is None
    rows = [{"namespace": "space", "name": "counter"}, {"namespace": "elsewhere", "name": "counter"}]
    assert stage.ask("named_actors", None) == rows
    assert stage.ask("named_actors", "elsewhere") == rows[1:]


# -- who hears of it -------------------------------------------------------------------------------------------------


def test_who_asks_hears_the_state_of_now_and_each_one_after(stage: Stage) -> None:
    stage.live()
    stage.say(*packed(op.SubscribeActor(ACTOR)), by=DRIVER)
    assert stage.states(DRIVER) == [(ALIVE, MINE, f"/{MINE!r}", 0, "", None, False)]
    stage.ask("kill_actor", ACTOR, True)
    assert [state[0] for state in stage.states(DRIVER)] == [DEAD]
    stage.say(*packed(op.SubscribeActor(ACTOR)), by=DRIVER)
    assert [state[0] for state in stage.states(DRIVER)] == [DEAD]
    assert ACTOR not in stage.head.actors._subscriptions._subscribers, "nothing more will be told of it"


def test_one_in_its_constructor_is_not_there_yet(stage: Stage) -> None:
    stage.grants()
    stage.create()
    stage.say(*packed(op.ActorArguments(ACTOR, b"creation", None)))
    stage.serve(MINE)
    stage.say(*packed(op.SubscribeActor(ACTOR)), by=DRIVER)
    assert stage.states(DRIVER) == [(PENDING, MINE, f"/{MINE!r}", 0, "", None, False)]


def test_a_handle_may_be_faster_than_the_news_of_its_actor(stage: Stage) -> None:
    stage.say(*packed(op.SubscribeActor(ACTOR)), by=DRIVER)
    ((number, process, method, arguments),) = stage.told(number_of(head_messages.AskProcess))
    assert (process, method, arguments) == (OWNER, "ping", ()) and stage.states(DRIVER) == []
    stage.create()
    stage.tell(0, *packed(head_messages.AskAnswered(number, None)))
    assert stage.states(DRIVER) == [(PENDING, b"", "", 0, "", None, False)]
    stage.say(*packed(op.SubscribeActor(ACTOR)), by=WORKER)
    assert len(stage.told(number_of(head_messages.AskProcess))) == 1, "it is known now"


def test_who_is_gone_when_its_answer_comes_is_told_nothing(stage: Stage) -> None:
    stage.say(*packed(op.SubscribeActor(ACTOR)), by=DRIVER)
    stage.create()
    stage.tell(0, *packed(head_messages.ProcessLeft(DRIVER)))
    stage.tell(0, *packed(head_messages.AskAnswered(stage.told(number_of(head_messages.AskProcess))[0][0], None)))
    assert stage.states(DRIVER) == []
    stage.ask("kill_actor", ACTOR, True)
    assert stage.states(DRIVER) == []


def test_of_an_actor_whose_owner_is_gone_it_is_said_that_it_ended(stage: Stage) -> None:
    unknown = ActorId(b"somebody" + bytes(8))
    stage.say(*packed(op.SubscribeActor(unknown)), by=DRIVER)
    assert stage.received_by(DRIVER) == [
        packed(
            op.ActorState(
                actor=unknown,
                state=DEAD,
                worker=b"",
                address="",
                attempt=0,
                cause="it ended long ago",
                failure=None,
                crashed=False,
            )
        )
    ]
    assert stage.told(number_of(head_messages.AskProcess)) == []


# -- another head ----------------------------------------------------------------------------------------------------


def test_the_next_head_knows_every_actor_as_it_is_and_forgets_the_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actor_table, "KEPT_DEAD", 1)
    stage = Stage(LastingStore()).start()
    stage.create(name="counter")
    stage.create(other := ActorId(OWNER + b"another!"))
    found = {record.id: record for record in stage.head.journal.actors()}
    assert found.keys() == {ACTOR, other} and found[ACTOR].description["name"] == "counter"
    stage.say(*packed(op.ActorArguments(ACTOR, b"creation", None)))
    assert {record.creation for record in stage.head.journal.actors()} == {b"creation", b""}
    stage.ask("kill_actor", ACTOR, True)
    assert {record.state for record in stage.head.journal.actors()} == {PENDING, DEAD}
    stage.ask("kill_actor", other, True)
    assert [record.id for record in stage.head.journal.actors()] == [other]


@pytest.mark.parametrize("place", ["worker", "owner"])
def test_who_asks_a_head_that_does_not_know_all_yet_is_answered_when_it_does(place: str) -> None:
    store = LastingStore()
    stage = Stage(store).start()
    stage.live(detached=True)
    after = Stage(store)
    after.recovery.begin(1000.0)
    for node in after.nodes:
        after.head.add_node(node)
    after.process(DRIVER, "driver")
    asked = ACTOR if place == "worker" else ActorId(b"somebody" + bytes(8))
    after.say(*packed(op.SubscribeActor(asked)), by=DRIVER)
    assert after.states(DRIVER) == []
    after.process(MINE, "worker", node=1)
    after.tell(1, *packed(head_messages.GrantedBefore(stage.told(head_messages.FIND_WORKER)[0][-1], MINE, False)))
    for number in range(2):
        after.tell(number, *packed(head_messages.AllTold()))
    assert [state[0] for state in after.states(DRIVER)] == [ALIVE if place == "worker" else DEAD]
    after.head.actors.resume(after.head.cluster.callers)
    assert after.states(DRIVER) == [], "it was answered"


def test_who_asks_for_an_actor_whose_process_is_known_already_is_answered_at_once() -> None:
    store = LastingStore()
    Stage(store).start().live(detached=True)
    after = Stage(store)
    after.recovery.begin(1000.0)
    after.head.add_node(after.nodes[1])
    after.process(MINE, "worker", node=1)
    after.process(DRIVER, "driver", node=1)
    after.tell(1, head_messages.FROM_PROCESS, DRIVER, packed(op.SubscribeActor(actor=ACTOR)))
    assert [state[:2] for state in after.states(DRIVER)] == [(ALIVE, MINE)]


def test_an_actor_whose_worker_was_found_while_there_was_no_head_is_constructed() -> None:
    store = LastingStore()
    stage = Stage(store).start()
    stage.grants()
    stage.create(detached=True)
    stage.say(*packed(op.ActorArguments(ACTOR, b"creation", None)))
    after = Stage(store)
    after.recovery.begin(1000.0)
    for node in after.nodes:
        after.head.add_node(node)
    after.process(MINE, "worker", node=1)
    after.tell(1, *packed(head_messages.GrantedBefore(stage.told(head_messages.FIND_WORKER)[0][-1], MINE, False)))
    assert after.told(number_of(head_messages.ConstructActor)) == []
    for number in range(2):
        after.tell(number, *packed(head_messages.AllTold()))
    assert [each[:2] for each in after.told(number_of(head_messages.ConstructActor))] == [(MINE, "Counter")]


def test_an_actor_that_was_to_run_where_a_node_did_not_come_back_is_dead() -> None:
    store = LastingStore()
    Stage(store).start()
    after = Stage(store)
    after.recovery.begin(1000.0)
    after.head.add_node(after.nodes[0])
    after.process(OWNER, "driver")
    strategy = {"type": "node_affinity", "node": SECOND.hex(), "soft": False}
    after.create(placing=pickle.dumps((strategy, {})))
    after.say(*packed(op.ActorArguments(ACTOR, b"creation", None)))
    assert after.states() == [], "the node may still come back"
    after.recovery.nodes.give_up()
    ((state, _, _, _, cause, _, _),) = after.states()
    assert state == DEAD and cause.startswith(f"Counter may run only on node {SECOND.hex()}, and that is gone: it did")


# -- questions -------------------------------------------------------------------------------------------------------


def test_what_an_actor_waits_for_is_explained(stage: Stage) -> None:
    explain = lambda: stage.ask("explain_actor", ACTOR)
    assert explain() == "no such actor is known (any more)"
    stage.create(name="counter", max_restarts=1)
    assert explain() == "actor Counter 'counter' waits for the arguments of its constructor"
    stage.say(*packed(op.ActorArguments(ACTOR, b"creation", None)))
    assert explain() == "actor Counter 'counter' is PENDING_CREATION: there is no room"
    stage.scheduler.answers[Tick] = [Grant(stage.lease(), SECOND, Allocation(WANTED, DEVICES))]
    stage.head.lease_manager.tick()
    assert explain() == "actor Counter 'counter' is PENDING_CREATION: its worker process is starting"
    stage.serve(MINE)
    assert explain() == f"actor Counter 'counter' is in its constructor on worker {MINE.hex()[:8]}"
    stage.tell(1, head_messages.FROM_PROCESS, MINE, packed(op.ActorReady(actor=ACTOR, failure=None)))
    assert explain() == "actor Counter 'counter' is alive, pid 1"
    stage.tell(1, *packed(head_messages.ProcessLeft(MINE)))
    assert explain() == "actor Counter 'counter' is alive, pid 0", "that its process is gone is not known yet"
    stage.tell(1, *packed(head_messages.WorkerDied(MINE, 1, "signal 9", op.DIED)))
    assert explain() == "actor Counter 'counter' is RESTARTING: there is no room"
    stage.ask("kill_actor", ACTOR, True)
    assert explain() == "actor Counter 'counter' is dead: it was killed by kernel.kill(actor)"


def test_actors_are_listed_with_where_they_are(stage: Stage) -> None:
    stage.live(name="counter")
    assert stage.row() == {
        "actor_id": ACTOR.hex(), "class_name": "Counter", "name": "counter", "namespace": "space", "state": ALIVE,
        "pid": 1, "node_id": SECOND.hex(), "worker_id": MINE.hex(), "workers": [MINE.hex()], "restarts": 0,
        "detached": False, "job_id": JOB.hex(), "cause": "", "required_resources": {"CPU": 1.0, "GPU": 0.5},
        "placement_group_id": None,
    }  # fmt: skip
    stage.create(other := ActorId(OWNER + b"another!"))
    row = stage.row(other)
    assert (row["pid"], row["node_id"], row["worker_id"], row["workers"]) == (0, "", "", [])
    stage.ask("kill_actor", ACTOR, True)
    assert [row["actor_id"] for row in stage.ask("actors", False)] == [other.hex()]
    assert {row["actor_id"]: row["state"] for row in stage.ask("actors")} == {ACTOR.hex(): DEAD, other.hex(): PENDING}


def test_an_actor_for_which_there_will_be_no_worker_is_dead(stage: Stage) -> None:
    stage.grants()
    stage.create()
    stage.say(*packed(op.ActorArguments(ACTOR, b"creation", None)))
    error = KernelError("no such module")
    stage.tell(1, *packed(head_messages.LeaseUnserved(stage.lease(), 1, pickle.dumps(error))))
    ((state, _, _, _, cause, failure, crashed),) = stage.states()
    assert (state, cause, failure[0], crashed) == (DEAD, "no such module", op.SYSTEM_ERROR, False)
    assert str(pickle.loads(failure[1])) == "no such module"


def test_one_that_is_killed_before_it_has_a_worker_gives_its_lease_back(stage: Stage) -> None:
    stage.grants()
    stage.create()
    stage.say(*packed(op.ActorArguments(ACTOR, b"creation", None)))
    stage.take(SECOND)
    stage.ask("kill_actor", ACTOR, True)
    assert stage.take(SECOND) == [(head_messages.DROP_WORKER, stage.lease(), True, False)]
    assert stage.scheduler.received[-1] == LeaseReleased(stage.lease()) and stage.head.lease_manager.leases == {}


def test_an_actor_that_can_run_nowhere_is_dead_at_once(stage: Stage) -> None:
    strategy = {"type": "node_affinity", "node": b"gone----".hex(), "soft": False}
    stage.create(placing=pickle.dumps((strategy, {})))
    stage.say(*packed(op.ActorArguments(ACTOR, b"creation", None)))
    ((state, _, _, _, cause, failure, _),) = stage.states()
    assert state == DEAD and cause.startswith("Counter may run only on node") and failure[0] == op.SYSTEM_ERROR
    assert str(pickle.loads(failure[1])) == cause
    assert LeaseRequested.__name__ not in stage.scheduler.kinds() and stage.head.lease_manager.leases == {}


def test_an_actor_whose_owner_is_gone_comes_from_nowhere(stage: Stage) -> None:
    stage.live(detached=True, max_restarts=1)
    stage.tell(0, *packed(head_messages.ProcessLeft(OWNER)))
    stage.tell(1, *packed(head_messages.WorkerDied(MINE, 1, "signal 9", op.DIED)))
    event = [event for event in stage.scheduler.received if isinstance(event, LeaseRequested)][-1]
    assert event.request.origin == NOWHERE != NodeId(FIRST)

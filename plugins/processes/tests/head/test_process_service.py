"""Processes on the head: joining and leaving, jobs that begin and end with drivers, and answers to what they ask."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import pytest

from kernel.defaults.metadata import LocalMetadataStore
from kernel.logs import Logger
from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import number_of, packed
from kernel_processes.head import job_table
from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.deferred import Deferred
from kernel_processes.head.head import STARTER_ENDED
from kernel_processes.head.job_table import JobRecord
from kernel_processes.head.message_dispatcher import MessageDispatcher
from kernel_processes.head.process_service import ProcessService
from kernel_processes.protocol import head_messages
from kernel_processes.protocol.detached_jobs import DETACHED
from kernel_spec.errors import KernelError, ProtocolError
from kernel_spec.ids import ActorId, JobId, LeaseId, ProcessId
from kernel_spec.scheduling import LeaseCancelled, LeaseRequested
from plugins.processes.tests.head.head_bench import CPU, DRIVER, FIRST, JOB, SECOND, WORKER, Bench

SECOND_DRIVER, SECOND_JOB = ProcessId(b"driver-2"), JobId(b"job-5678")


class LastingStore(LocalMetadataStore):
    """A store that outlives a head, as that test has it."""

    durable = True


def join(bench: Bench) -> Bench:
    bench.join()
    bench.said_to.clear()
    return bench


@pytest.fixture
def bench() -> Bench:
    return join(Bench())


def drive(bench: Bench, id: bytes, job: bytes, node: int = 0, role: str = "driver", **details: Any) -> None:
    bench.tell(
        node,
        *packed(head_messages.ProcessJoined(ProcessId(id), role, 77, "there", JobId(job), "an environment", details)),
    )


# -- joining and leaving ---------------------------------------------------------------------------------------------


def test_who_joins_is_known_as_it_has_described_itself(bench: Bench) -> None:
    drive(bench, SECOND_DRIVER, SECOND_JOB, node=1, namespace="mine", script="train.py")
    caller = bench.head.cluster.callers[SECOND_DRIVER]
    found = (caller.id, caller.role, caller.pid, caller.address, caller.job, caller.environment, caller.node.id)
    assert found == (SECOND_DRIVER, "driver", 77, "there", SECOND_JOB, "an environment", SECOND)
    job = bench.head.jobs.table.get(SECOND_JOB)
    assert (job.driver, job.namespace, job.script, job.ended) == (SECOND_DRIVER, "mine", "train.py", 0.0)
    assert job.started > 1e9, "seconds since the epoch"
    assert [id for _, id, _ in bench.happened("worker")] == [b"worker-1", b"worker-2"], "a driver is no worker"


def test_a_worker_that_joins_is_observed_and_begins_no_job(bench: Bench) -> None:
    drive(bench, b"worker-3", b"nobody's", role="worker")
    assert bench.happened("worker")[-1] == ("ALIVE", b"worker-3", {"pid": 77})
    assert JobId(b"nobody's") not in bench.head.jobs.table.jobs


def test_who_joins_once_more_is_who_it_was(bench: Bench) -> None:
    before, job = bench.head.cluster.callers[DRIVER], bench.head.jobs.table.get(JOB)
    bench.process(DRIVER, "driver")
    assert bench.head.cluster.callers[DRIVER] is before and bench.head.jobs.table.get(JOB) is job


def test_a_driver_that_an_earlier_head_knew_goes_on_with_its_job() -> None:
    bench = Bench()
    known = bench.head.jobs.table.jobs[JOB] = JobRecord(JOB, DRIVER, started=5.0)
    bench.join()
    assert bench.head.jobs.table.get(JOB) is known and known.started == 5.0


def test_all_other_nodes_hear_that_a_process_has_left(bench: Bench) -> None:
    caller = bench.head.cluster.callers[WORKER]
    bench.tell(0, *packed(head_messages.ProcessLeft(WORKER)))
    assert bench.take(FIRST) == [] and bench.take(SECOND) == [
        packed(head_messages.ProcessesGone(processes=[WORKER], place=""))
    ]
    assert caller.closed and WORKER not in bench.head.cluster.callers
    bench.tell(0, *packed(head_messages.ProcessLeft(WORKER)))
    assert bench.logged == []


def test_with_a_process_goes_what_it_asked_for(bench: Bench) -> None:
    shape = (CPU, pickle.dumps(("DEFAULT", {})), b"", True)
    bench.tell(0, head_messages.FROM_PROCESS, WORKER, (op.REQUEST_LEASE, b"lease-1-", shape, "f", None))
    assert isinstance(bench.scheduler.received[-1], LeaseRequested)
    bench.tell(0, *packed(head_messages.ProcessLeft(WORKER)))
    assert bench.scheduler.received[-1] == LeaseCancelled(LeaseId(b"lease-1-"))
    assert bench.head.jobs.table.get(JOB).ended == 0.0, "it was no driver"


def test_a_process_that_is_gone_is_told_of_in_order_and_once() -> None:
    gone: list[Any] = []
    cluster = ClusterTable(FIRST)
    first: Any = SimpleNamespace(process_left=lambda caller: gone.append(("first", caller.id)))
    second: Any = SimpleNamespace(process_left=lambda caller: gone.append(("second", caller.id)))
    parts: Any = (None, None, SimpleNamespace(happened=lambda *said: None))
    node: Any = SimpleNamespace(id=FIRST)
    dispatcher = MessageDispatcher(cluster, Logger("test"))
    processes = ProcessService(dispatcher, cluster, *parts, [first, second])
    dispatcher.handle(node, packed(head_messages.ProcessJoined(WORKER, "worker", 1, "/w", JOB, "", {})))
    for _ in range(2):
        processes.forget(WORKER)
    assert gone == [("first", WORKER), ("second", WORKER)] and cluster.callers == {}


# -- jobs ------------------------------------------------------------------------------------------------------------


def test_with_a_driver_its_job_ends_on_every_node_that_is_there() -> None:
    bench = join(Bench(LastingStore()))
    bench.head.remove_node(bench.nodes[1], "no power")
    bench.said_to.clear()
    ended: list[JobId] = []
    bench.head.groups.job_ended = ended.append  # type: ignore[method-assign]
    bench.tell(0, *packed(head_messages.ProcessLeft(DRIVER)))
    assert packed(head_messages.JobEnded(job=JOB)) in bench.take(FIRST) and bench.take(SECOND) == []
    assert ended == [JOB] and bench.head.jobs.table.get(JOB).ended > 1e9
    assert [(job.id, job.ended > 0) for job in bench.head.journal.jobs()] == [(JOB, True)]
    assert bench.head.jobs.end(DRIVER) is None, "it has ended already"


def test_of_a_driver_that_joins_the_next_head_is_told() -> None:
    bench = join(Bench(LastingStore()))
    assert [(job.id, job.driver, job.ended) for job in bench.head.journal.jobs()] == [(JOB, DRIVER, 0.0)]


def test_programs_that_ended_long_ago_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_table, "KEPT_ENDED", 1)
    bench = join(Bench(LastingStore()))
    for number in range(3):
        drive(bench, b"driver %d" % number, b"job %d" % number)
        bench.tell(0, *packed(head_messages.ProcessLeft(ProcessId(b"driver %d" % number))))
    assert bench.head.jobs.table.jobs.keys() == {JOB, b"job 2"}
    assert {job.id for job in bench.head.journal.jobs()} == {JOB, b"job 2"}


def test_a_job_of_detached_actors_is_kept_while_one_lives_or_a_worker_works_for_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    works, lives, unused = (bench.head.jobs.detached(JOB, name) for name in ("works", "lives", "unused"))
    assert unused == DETACHED + JOB + b":unused"
    drive(bench, b"worker-3", works, role="worker")
    drive(bench, b"reads", unused, role="tool")
    monkeypatch.setattr(bench.head.actors.table, "living_jobs", lambda: {lives})
    bench.tell(0, *packed(head_messages.ProcessLeft(DRIVER)))
    assert bench.head.jobs.table.jobs.keys() == {JOB, works, lives}


@pytest.mark.parametrize(
    ("ephemeral", "details", "ends"),
    [
        (True, {"starter": True}, [STARTER_ENDED]),
        (True, {}, []),
        (True, {"starter": False}, []),
        (False, {"starter": True}, []),
    ],
)
def test_a_session_of_one_program_ends_with_that(ephemeral: bool, details: dict[str, Any], ends: list[str]) -> None:
    bench = join(Bench(ephemeral=ephemeral))
    drive(bench, SECOND_DRIVER, SECOND_JOB, **details)
    drive(bench, b"worker-3", SECOND_JOB, role="worker", **details)
    bench.tell(0, *packed(head_messages.ProcessLeft(ProcessId(b"worker-3"))))
    assert bench.ended == []
    bench.tell(0, *packed(head_messages.ProcessLeft(SECOND_DRIVER)))
    assert bench.ended == ends and STARTER_ENDED == "the program that started it ended"


# -- what they say ---------------------------------------------------------------------------------------------------


def test_what_the_head_does_not_know_is_logged_and_changes_nothing(bench: Bench) -> None:
    bench.tell(0, head_messages.FROM_PROCESS, DRIVER, (9999, "x" * 200))
    ((level, text, details),) = bench.logged
    assert (level, text, details["word"]) == (
        "exception",
        "a message of a node could not be handled",
        head_messages.FROM_PROCESS,
    )
    with pytest.raises(ProtocolError) as raised:
        bench.head.dispatcher.words[head_messages.FROM_PROCESS](bench.nodes[0], DRIVER, (9999, "x" * 200))
    said = str(raised.value)
    assert said.startswith(f"process {DRIVER.hex()} sent (9999, 'xxx") and said.endswith(
        ", which the head does not know"
    )
    assert len(said) < 200


def test_a_process_that_has_left_is_not_heard_any_more(bench: Bench) -> None:
    received: list[Any] = []
    bench.head.dispatcher.methods["note"] = lambda caller: received.append(caller)
    bench.tell(0, head_messages.FROM_PROCESS, ProcessId(b"unknown"), (op.CALL, 1, "note", ()))
    bench.tell(0, head_messages.FROM_PROCESS, ProcessId(b"unknown"), (9999,))
    assert received == [] and bench.logged == []


def test_what_is_said_of_leases_waits_until_all_that_there_are_are_known(bench: Bench) -> None:
    bench.recovery.begin(5.0)
    bench.head.dispatcher.methods["note"] = lambda caller, word: word
    shape = (CPU, pickle.dumps(("DEFAULT", {})), b"", True)
    bench.tell(0, head_messages.FROM_PROCESS, DRIVER, (op.REQUEST_LEASE, b"lease-1-", shape, "f", None))
    bench.tell(0, head_messages.FROM_PROCESS, DRIVER, (op.CANCEL_LEASE, b"lease-2-"))
    bench.tell(0, head_messages.FROM_PROCESS, DRIVER, (op.RETURN_LEASE, b"lease-3-", True, WORKER))
    assert bench.call("note", "answered at once") == "answered at once"
    assert bench.head.lease_manager.leases == {} and bench.received_by(DRIVER) == []
    (finish,) = [function for seconds, function in bench.timers if seconds == 5.0]
    finish()
    assert bench.head.lease_manager.leases.keys() == {b"lease-1-"}
    assert [message[:2] for message in bench.received_by(DRIVER)] == [(number_of(op.LeasedWorkerDied), WORKER)]


def test_answers_go_to_who_asked_with_the_number_of_the_question(bench: Bench) -> None:
    later = Deferred()

    def fail(caller: Any) -> None:
        raise KernelError("not now")

    bench.head.dispatcher.methods |= {
        "who": lambda caller, word: (caller.id, word),
        "fail": fail,
        "wait": lambda caller: later,
    }
    for number, (name, arguments) in enumerate([("who", ("me",)), ("wait", ()), ("fail", ()), ("nothing", ())], 11):
        bench.tell(0, head_messages.FROM_PROCESS, WORKER, (op.CALL, number, name, arguments))
    who, failed, unknown = bench.received_by(WORKER)
    assert who == (op.REPLY, 11, (WORKER, "me"))
    assert failed[:2] == (op.REPLY_ERROR, 13) and str(pickle.loads(failed[2])) == "not now"
    error = pickle.loads(unknown[2])
    assert unknown[:2] == (op.REPLY_ERROR, 14) and type(error) is ProtocolError
    assert str(error) == "neither the node agent nor the head answers 'nothing'"
    later.set("at last")
    assert bench.received_by(WORKER) == [(op.REPLY, 12, "at last")]


def test_what_a_method_had_not_foreseen_is_told_and_logged(bench: Bench) -> None:
    bench.head.dispatcher.methods["divide"] = lambda caller: 1 / 0
    with pytest.raises(KernelError, match="divide failed in the head: ZeroDivisionError"):
        bench.call("divide")
    assert bench.logged == [("exception", "a request failed", {"method": "divide"})]


def test_an_actor_goes_with_the_process_that_created_it(bench: Bench) -> None:
    said = {
        "class_name": "Counter", "name": "counter", "namespace": "space", "detached": False, "max_restarts": 0,
        "get_if_exists": False, "job": JOB, "owner": WORKER, "environment": None, "wanted": {}, "group": None,
    }  # fmt: skip
    bench.tell(
        0,
        head_messages.FROM_PROCESS,
        WORKER,
        packed(op.CreateActor(actor=ActorId(b"actor"), description=pickle.dumps(said))),
    )
    assert [row["state"] for row in bench.actors()] == ["PENDING_CREATION"]
    bench.tell(0, *packed(head_messages.ProcessLeft(WORKER)))
    assert [row["state"] for row in bench.actors()] == ["DEAD"]

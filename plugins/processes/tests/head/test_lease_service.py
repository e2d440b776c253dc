"""Leases between the desk, the nodes and those who hold them: which words go to whom, and what is heard of workers."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from kernel.defaults.metadata import LocalMetadataStore
from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import number_of, packed
from kernel_processes.head.lease_service import GRACE_SECONDS
from kernel_processes.protocol import head_messages
from kernel_spec.errors import KernelError
from kernel_spec.ids import LeaseId, ProcessId
from kernel_spec.resources import Allocation, amounts
from kernel_spec.scheduling import (
    Grant,
    LeaseBlocked,
    LeaseCancelled,
    LeaseReleased,
    LeaseRequest,
    LeaseRequested,
    LeaseUnblocked,
)
from plugins.processes.tests.head.head_bench import CPU, DRIVER, FIRST, JOB, OTHER, SECOND, WORKER, Bench

LEASE = LeaseId(b"lease-1-")
WANTED = amounts({"CPU": 1, "GPU": 0.25})
DEVICES = {"GPU": {1: WANTED["GPU"]}}


class LastingStore(LocalMetadataStore):
    """A store that outlives a head, as that test has it."""

    durable = True


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    bench.join()
    bench.said_to.clear()
    yield bench
    assert bench.ended == [], "what the scheduler said could be done"


def ask(
    bench: Bench, id: bytes = LEASE, wanted: Any = WANTED, environment: Any = None, preemptible: bool = True, **on: Any
) -> None:
    """Ask for a lease as the driver, granted on the first node, or `on` another."""
    bench.scheduler.answers[LeaseRequested] = [Grant(LeaseId(id), on.get("node", FIRST), Allocation(wanted, DEVICES))]
    described = pickle.dumps(environment) if environment else b""
    shape = (wanted, pickle.dumps(("DEFAULT", {})), described, preemptible)
    bench.tell(0, head_messages.FROM_PROCESS, DRIVER, (op.REQUEST_LEASE, id, shape, "f", None))


def say(bench: Bench, *message: Any) -> None:
    """Say something as the driver."""
    bench.tell(0, head_messages.FROM_PROCESS, DRIVER, message)


def test_a_node_is_told_what_it_needs_to_find_a_worker(bench: Bench) -> None:
    bench.nodes[0].total |= {"memory": 4000.0, "object_store_memory": 100.0}
    bench.head.add_node(bench.nodes[0])
    bench.take(FIRST)
    wanted = WANTED | amounts({"memory": 3000, "object_store_memory": 70})
    ask(bench, wanted=wanted, preemptible=False)
    job, find = bench.take(FIRST)
    assert job[:2] == (number_of(head_messages.DescribeJob), JOB) and pickle.loads(job[2])["namespace"] == "space"
    assert find == (head_messages.FIND_WORKER, LEASE, JOB, "", ("f", DRIVER, 3000, 70, False, 1, "GPU:1"), b"")
    ask(bench, b"lease-2-")
    (find,) = bench.take(FIRST)
    assert find == (head_messages.FIND_WORKER, b"lease-2-", JOB, "", ("f", DRIVER, 0, 0, True, 1, "GPU:1"), b"")
    ask(bench, b"lease-3-", node=SECOND)
    assert [message[0] for message in bench.take(SECOND)] == [
        number_of(head_messages.DescribeJob),
        head_messages.FIND_WORKER,
    ]


def test_a_node_is_told_once_what_an_environment_is(bench: Bench) -> None:
    ask(bench, environment={"env_vars": {"A": "1"}})
    _, environment, find = bench.take(FIRST)
    assert environment[0] == number_of(head_messages.DescribeEnvironment) and pickle.loads(environment[2]) == {
        "env_vars": {"A": "1"}
    }
    assert find[3] == environment[1] != ""
    ask(bench, b"lease-2-", environment={"env_vars": {"A": "1"}})
    assert [message[0] for message in bench.take(FIRST)] == [head_messages.FIND_WORKER]


def test_where_heads_may_follow_each_other_the_node_keeps_what_the_next_one_must_know() -> None:
    bench = Bench(LastingStore())
    bench.join()
    ask(bench)
    request, grant, grants = pickle.loads(bench.told(head_messages.FIND_WORKER)[0][-1])
    assert (request.id, request.requester, grants) == (LEASE, DRIVER, 1)
    assert grant == bench.head.lease_manager.leases[LEASE].grant


def test_the_holder_is_told_which_worker_it_has_and_where(bench: Bench) -> None:
    ask(bench)
    assert bench.received_by(DRIVER) == []
    bench.tell(0, head_messages.WORKER_FOUND, LEASE, 1, WORKER)
    granted = (op.LEASE_GRANTED, LEASE, WORKER, f"/{WORKER!r}", WANTED, DEVICES)
    assert bench.received_by(DRIVER) == [granted]
    ask(bench)
    assert bench.received_by(DRIVER) == [granted], "who asks again, since the head was another, is told again"
    bench.tell(0, head_messages.WORKER_FOUND, LEASE, 2, OTHER)
    assert bench.received_by(DRIVER) == [] and bench.head.lease_manager.leases[LEASE].worker == WORKER


def test_who_asks_again_before_there_is_a_worker_waits_on(bench: Bench) -> None:
    ask(bench)
    ask(bench)
    assert bench.received_by(DRIVER) == [] and len(bench.told(head_messages.FIND_WORKER)) == 1


def test_of_a_worker_that_has_left_meanwhile_nobody_knows_where_it_is(bench: Bench) -> None:
    ask(bench)
    bench.tell(0, head_messages.WORKER_FOUND, LEASE, 1, ProcessId(b"gone"))
    assert [message[3] for message in bench.received_by(DRIVER)] == [""]


def test_while_the_session_is_put_together_again_nobody_is_told_of_workers(bench: Bench) -> None:
    ask(bench)
    bench.head.cluster.recovering = True
    bench.tell(0, head_messages.WORKER_FOUND, LEASE, 1, WORKER)
    assert bench.received_by(DRIVER) == [] and bench.head.lease_manager.leases[LEASE].worker == WORKER


def test_a_lease_that_is_given_back_well_frees_its_worker_at_once(bench: Bench) -> None:
    ask(bench)
    bench.tell(0, head_messages.WORKER_FOUND, LEASE, 1, WORKER)
    bench.take(FIRST)
    say(bench, op.RETURN_LEASE, LEASE, False, WORKER)
    assert bench.take(FIRST) == [(head_messages.DROP_WORKER, LEASE, False, True)]
    assert bench.scheduler.received[-1] == LeaseReleased(LEASE) and bench.timers == []


def test_what_a_broken_worker_held_is_free_when_its_process_is_gone_or_a_while_later(bench: Bench) -> None:
    ask(bench)
    bench.tell(0, head_messages.WORKER_FOUND, LEASE, 1, WORKER)
    bench.take(FIRST)
    say(bench, op.RETURN_LEASE, LEASE, True, WORKER)
    assert bench.take(FIRST) == [(head_messages.DROP_WORKER, LEASE, True, True)]
    assert LEASE in bench.head.lease_manager.leases
    ((seconds, release),) = bench.timers
    assert seconds == GRACE_SECONDS == 2.0
    release()
    assert bench.scheduler.received[-1] == LeaseReleased(LEASE) and LEASE not in bench.head.lease_manager.leases
    assert bench.take(FIRST) == [(head_messages.DROP_WORKER, LEASE, True, True)]


def test_who_gives_back_what_is_over_is_told_of_the_workers_end(bench: Bench) -> None:
    say(bench, op.RETURN_LEASE, LEASE, True, WORKER)
    how = "how is not known, as the head was started again"
    assert bench.received_by(DRIVER) == [packed(op.LeasedWorkerDied(worker=WORKER, cause=how, fault=op.LOST))]
    say(bench, op.RETURN_LEASE, LEASE, False, WORKER)
    assert bench.received_by(DRIVER) == [] and bench.timers == [] and bench.told(head_messages.DROP_WORKER) == []


def test_a_node_is_told_that_the_holder_of_what_it_drops_is_gone(bench: Bench) -> None:
    ask(bench)
    bench.tell(0, head_messages.WORKER_FOUND, LEASE, 1, WORKER)
    bench.tell(0, *packed(head_messages.ProcessLeft(DRIVER)))
    assert bench.told(head_messages.DROP_WORKER) == [(LEASE, True, False)]


def test_of_a_request_that_waits_no_node_hears(bench: Bench) -> None:
    ask(bench, b"lease-2-")
    bench.scheduler.answers.clear()
    bench.said_to.clear()
    shape = (CPU, pickle.dumps(("DEFAULT", {})), b"", True)
    say(bench, op.REQUEST_LEASE, LEASE, shape, "f", None)
    say(bench, op.CANCEL_LEASE, LEASE)
    assert bench.scheduler.received[-1] == LeaseCancelled(LEASE)
    assert bench.take(FIRST) == bench.take(SECOND) == []
    say(bench, op.CANCEL_LEASE, LeaseId(b"lease-2-"))
    assert bench.take(FIRST) == [(head_messages.DROP_WORKER, b"lease-2-", False, True)]


def test_without_a_worker_the_holder_is_told_why(bench: Bench) -> None:
    ask(bench)
    error = pickle.dumps(KernelError("no such module"))
    bench.tell(0, *packed(head_messages.LeaseUnserved(LEASE, 7, error)))
    assert bench.received_by(DRIVER) == [], "that was about another grant"
    bench.tell(0, *packed(head_messages.LeaseUnserved(LEASE, 1, error)))
    ((operation, lease, found),) = bench.received_by(DRIVER)
    assert (operation, lease, str(pickle.loads(found))) == packed(op.LeaseFailed(lease=LEASE, error="no such module"))
    assert LEASE not in bench.head.lease_manager.leases and bench.scheduler.received[-1] == LeaseReleased(LEASE)


def test_the_scheduler_hears_who_waits_inside_get(bench: Bench) -> None:
    ask(bench)
    bench.tell(0, head_messages.LEASE_BLOCKED, LEASE, True)
    bench.tell(0, head_messages.LEASE_BLOCKED, LEASE, False)
    assert bench.scheduler.received[-2:] == [LeaseBlocked(LEASE), LeaseUnblocked(LEASE)]


def test_a_process_may_have_a_worker_ended_wherever_it_is(bench: Bench) -> None:
    bench.process(far := ProcessId(b"far away"), "worker", node=1)
    bench.call("kill_worker", far, "it is stuck")
    bench.call("kill_worker", ProcessId(b"unknown"), "it is stuck")
    assert bench.take(SECOND) == [packed(head_messages.KillWorker(worker=far, reason="it is stuck"))]
    assert [message for message in bench.take(FIRST) if message[0] == number_of(head_messages.KillWorker)] == []
    assert bench.logged == []


@pytest.mark.parametrize(("fault", "name"), [(op.DIED, ""), (op.OUT_OF_MEMORY, "out of memory")])
def test_of_a_workers_end_its_holder_and_the_observers_hear(bench: Bench, fault: int, name: str) -> None:
    ask(bench)
    bench.tell(0, head_messages.WORKER_FOUND, LEASE, 1, WORKER)
    bench.received_by(DRIVER)
    bench.tell(0, *packed(head_messages.WorkerDied(WORKER, 4711, "signal 9", fault)))
    assert bench.received_by(DRIVER) == [packed(op.LeasedWorkerDied(worker=WORKER, cause="signal 9", fault=fault))]
    assert ("DEAD", WORKER, {"pid": 4711, "cause": "signal 9", "fault": name}) in bench.happened("worker")
    assert bench.scheduler.received[-1] == LeaseReleased(LEASE)


def test_what_is_heard_of_an_actors_worker_is_for_the_actors(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[Any] = []
    monkeypatch.setattr(bench.head.actors, "lease_served", lambda *said: received.append(said))
    monkeypatch.setattr(bench.head.actors, "worker_died", lambda *said: received.append(said))
    bench.scheduler.answers[LeaseRequested] = [Grant(LEASE, FIRST, Allocation(CPU))]
    bench.head.lease_manager.request(LeaseRequest(LEASE, JOB, DRIVER, CPU, "Counter", for_actor=True), None)
    bench.take(FIRST)
    bench.tell(0, head_messages.WORKER_FOUND, LEASE, 1, WORKER)
    bench.tell(0, *packed(head_messages.WorkerDied(WORKER, 1, "signal 9", op.OUT_OF_MEMORY)))
    assert received == [(LEASE, WORKER), (WORKER, "signal 9", op.OUT_OF_MEMORY)]
    assert bench.received_by(DRIVER) == []
    assert bench.take(FIRST) == [(head_messages.DROP_WORKER, LEASE, True, False)]

"""Requests for workers, as processes and actors make them, and what the holders of leases are told."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import pytest

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import packed
from kernel_processes.head.actor_records import ActorRecord
from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.groups import GroupTable
from kernel_processes.head.lease_manager import LeaseRecord
from kernel_processes.head.lease_requests import LeaseHolders, LeaseRequests
from kernel_processes.head.nodes import NodeRecord, ProcessRecord
from kernel_processes.protocol.head_messages import TO_PROCESS
from kernel_spec.errors import InfeasibleError, KernelError, OptionError
from kernel_spec.ids import ActorId, JobId, LeaseId, NodeId, ProcessId
from kernel_spec.resources import Allocation, amounts
from kernel_spec.scheduling import NOWHERE, Grant, LeaseRequest

LEASE, NODE, WORKER, CPU = LeaseId(b"lease"), NodeId(b"node"), ProcessId(b"worker"), amounts({"CPU": 1})
JOB = JobId(b"job")


class Stage:
    """Holders of leases, a process and actors, and what both are told."""

    def __init__(self) -> None:
        self.received: list[Any] = []
        self.released: list[tuple[LeaseId, bool]] = []
        self.cluster = ClusterTable(NODE)
        self.holder = self.process(b"driver", "driver")
        self.holders = LeaseHolders(self.cluster, self, self)  # type: ignore[arg-type]
        self.request = LeaseRequest(LEASE, JOB, self.holder.id, CPU, "f")

    def process(self, id: bytes, role: str) -> ProcessRecord:
        node: Any = SimpleNamespace(send=self.received.append)
        process = ProcessRecord(ProcessId(id), role, 1, f"/{id.decode()}", JOB, "", {}, node)
        self.cluster.callers[process.id] = process
        return process

    def release(self, lease: LeaseId, broken: bool) -> None:
        self.released.append((lease, broken))

    def lease_served(self, lease: LeaseId, worker: ProcessId) -> None:
        self.received.append(("actor served", lease, worker))

    def lease_refused(self, lease: LeaseId, error: KernelError) -> None:
        self.received.append(("actor refused", lease, error))

    def place_lost(self, lease: LeaseId, reason: str) -> None:
        self.received.append(("place lost", lease, reason))

    def worker_died(self, worker: ProcessId, cause: str, fault: int) -> None:
        self.received.append((worker, cause, fault))

    def record(self, holder: ProcessRecord | None, worker: ProcessId | None = WORKER) -> LeaseRecord:
        return LeaseRecord(self.request, holder, Grant(LEASE, NODE, Allocation(CPU), 0), 1, worker)


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_a_process_hears_where_its_worker_is(stage: Stage) -> None:
    stage.process(WORKER, "worker")
    stage.holders.served(LEASE, stage.record(stage.holder))
    granted = (op.LEASE_GRANTED, LEASE, WORKER, "/worker", CPU, {})
    assert stage.received == [(TO_PROCESS, stage.holder.id, granted)]


def test_a_worker_that_is_gone_by_then_has_no_address(stage: Stage) -> None:
    stage.holders.served(LEASE, stage.record(stage.holder))
    ((_, _, granted),) = stage.received
    assert granted[:4] == (op.LEASE_GRANTED, LEASE, WORKER, "")


def test_nothing_is_said_before_there_is_a_worker(stage: Stage) -> None:
    stage.holders.served(LEASE, stage.record(stage.holder, None))
    stage.holders.served(LEASE, stage.record(None, None))
    assert stage.received == []


def test_the_lease_of_an_actor_is_the_heads_own(stage: Stage) -> None:
    stage.holders.served(LEASE, stage.record(None))
    assert stage.received == [("actor served", LEASE, WORKER)]


@pytest.mark.parametrize("for_actor", [False, True])
def test_who_gets_no_worker_hears_why_and_the_request_is_over(stage: Stage, for_actor: bool) -> None:
    error = OptionError("there never was such a node")
    stage.holders.refuse(stage.request, None if for_actor else stage.holder, error)
    if for_actor:
        assert stage.received == [("actor refused", LEASE, error)]
    else:
        failed = packed(op.LeaseFailed(lease=LEASE, error=pickle.dumps(error)))
        assert stage.received == [(TO_PROCESS, stage.holder.id, failed)]
    assert stage.released == [(LEASE, False)]


def test_while_the_session_is_put_together_again_nobody_is_told_of_workers(stage: Stage) -> None:
    stage.cluster.recovering = True
    stage.holders.served(LEASE, stage.record(stage.holder))
    stage.holders.served(LEASE, stage.record(None))
    assert stage.received == []


def test_the_end_of_a_worker_and_the_loss_of_a_place_are_told(stage: Stage) -> None:
    stage.holders.worker_died(WORKER, "signal 9", op.OUT_OF_MEMORY)
    assert stage.received == [(WORKER, "signal 9", op.OUT_OF_MEMORY)] * 2, "both the leases and the actors"
    stage.received.clear()
    stage.holders.worker_lost(WORKER, "no power")
    assert stage.received == [(WORKER, "no power", op.LOST), (WORKER, "no power", op.DIED)]
    stage.received.clear()
    stage.holders.place_lost(LEASE, "the gang is gone")
    assert stage.received == [("place lost", LEASE, "the gang is gone")]


# -- requests --------------------------------------------------------------------------------------------------------


class Way:
    """The way to a lease manager, for processes on two nodes."""

    def __init__(self) -> None:
        self.asked: list[tuple[LeaseRequest, ProcessRecord | None]] = []
        self.leases: dict[LeaseId, LeaseRecord] = {}
        self.cluster = ClusterTable(NODE)
        for id, address in ((NODE, "near:1"), (NodeId(b"far"), "far:1")):
            record: Any = SimpleNamespace(id=id, address=address, alive=True, client=False)
            self.cluster.nodes[id] = record
        node: NodeRecord = self.cluster.nodes[NODE]
        self.caller = ProcessRecord(ProcessId(b"driver"), "driver", 1, "/driver", JOB, "outer", {}, node)
        self.cluster.callers[self.caller.id] = self.caller
        jobs: Any = SimpleNamespace(environment_for=lambda caller, asked: f"{caller.environment} with {asked}")
        leases: Any = SimpleNamespace(
            request=lambda request, holder: self.asked.append((request, holder)), leases=self.leases
        )
        self.requests = LeaseRequests(self.cluster, GroupTable(), jobs, leases)

    def request(self, strategy: Any = "DEFAULT", **more: Any) -> LeaseRequest:
        shape = (CPU, pickle.dumps((strategy, {"near": 1})), pickle.dumps({"pip": []}), True)
        return self.requests.of_process(self.caller, (op.REQUEST_LEASE, LEASE, shape, "f", more.get("near")))


ELSEWHERE = {"type": "node_affinity", "node": b"gone----".hex(), "soft": False}


def test_what_a_process_asks_for_is_read_with_where_it_is_and_where_its_data_is() -> None:
    way = Way()
    request = way.request(near={"far:1": 7, "unknown:1": 9})
    assert (request.id, request.job, request.requester, request.wanted, request.name) == (
        LEASE, JOB, way.caller.id, CPU, "f"
    )  # fmt: skip
    assert (request.environment, request.origin, request.locality) == ("outer with {'pip': []}", NODE, {b"far": 7})
    assert (request.strategy, request.hints, request.preemptible) == ("DEFAULT", {"near": 1}, True)
    assert not request.for_actor and way.request().locality == {}
    assert (request.group, request.bundle) == (None, -1)


@pytest.mark.parametrize("owner", [b"driver", b"gone"])
def test_what_an_actor_asks_for_comes_from_where_its_owner_is(owner: bytes) -> None:
    said = {
        "class_name": "Counter", "name": "", "wanted": CPU, "environment_key": "key",
        "placing": pickle.dumps(("SPREAD", {})),
    }  # fmt: skip
    record = ActorRecord(ActorId(b"actor"), JOB, ProcessId(owner), said)
    request = Way().requests.of_actor(record, LEASE)
    assert (request.id, request.job, request.requester, request.wanted) == (LEASE, JOB, owner, CPU)
    assert (request.name, request.environment, request.strategy) == ("Counter", "key", "SPREAD")
    assert request.for_actor and request.origin == (NODE if owner == b"driver" else NOWHERE)


def test_what_can_never_be_served_is_not_asked_for() -> None:
    way = Way()
    assert way.requests.ask(request := way.request(), way.caller) is None
    assert way.asked == [(request, way.caller)]
    error = way.requests.ask(way.request(ELSEWHERE), way.caller)
    assert isinstance(error, InfeasibleError) and len(way.asked) == 1


def test_of_what_waits_that_is_hopeless_which_can_never_be_served() -> None:
    way = Way()
    hopeless = LeaseRecord(way.request(ELSEWHERE), way.caller)
    granted = LeaseRecord(hopeless.request, way.caller, Grant(LEASE, NODE, Allocation(CPU), 0))
    way.leases |= {
        LeaseId(b"1"): LeaseRecord(way.request(), way.caller), LeaseId(b"2"): hopeless, LeaseId(b"3"): granted
    }  # fmt: skip
    ((record, error),) = way.requests.hopeless()
    assert record is hopeless and "there never was such a node" in str(error)

"""What holders of leases hear: processes by a message, actors by a call."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import pytest

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import packed
from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.lease_answers import LeaseAnswers
from kernel_processes.head.lease_manager import LeaseRecord
from kernel_processes.head.nodes import ProcessRecord
from kernel_processes.protocol.head_messages import TO_PROCESS
from kernel_spec.errors import OptionError
from kernel_spec.ids import JobId, LeaseId, NodeId, ProcessId
from kernel_spec.resources import Allocation, amounts
from kernel_spec.scheduling import Grant, LeaseRequest

LEASE, NODE, WORKER, CPU = LeaseId(b"lease"), NodeId(b"node"), ProcessId(b"worker"), amounts({"CPU": 1})


class Stage:
    """Answers to one process and to actors, and what both heard."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.released: list[tuple[LeaseId, bool]] = []
        self.cluster = ClusterTable(NODE)
        self.holder = self.process(b"driver", "driver")
        self.answers = LeaseAnswers(self.cluster, self)  # type: ignore[arg-type]
        self.answers.actors = self
        self.request = LeaseRequest(LEASE, JobId(b"job"), self.holder.id, CPU, "f")

    def process(self, id: bytes, role: str) -> ProcessRecord:
        node: Any = SimpleNamespace(send=self.heard.append)
        process = ProcessRecord(ProcessId(id), role, 1, f"/{id.decode()}", JobId(b"job"), "", {}, node)
        self.cluster.callers[process.id] = process
        return process

    def release(self, lease: LeaseId, broken: bool) -> None:
        self.released.append((lease, broken))

    def lease_served(self, lease: LeaseId, worker: ProcessId) -> None:
        self.heard.append(("actor served", lease, worker))

    def lease_refused(self, lease: LeaseId, failure: tuple[int, bytes], cause: str) -> None:
        self.heard.append(("actor refused", lease, failure[0], str(pickle.loads(failure[1])), cause))

    def record(self, holder: ProcessRecord | None, worker: ProcessId | None = WORKER) -> LeaseRecord:
        return LeaseRecord(self.request, holder, Grant(LEASE, NODE, Allocation(CPU), 0), 1, worker)


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_a_process_hears_where_its_worker_is(stage: Stage) -> None:
    stage.process(WORKER, "worker")
    stage.answers.served(LEASE, stage.record(stage.holder))
    granted = (op.LEASE_GRANTED, LEASE, WORKER, "/worker", CPU, {})
    assert stage.heard == [(TO_PROCESS, stage.holder.id, granted)]


def test_a_worker_that_is_gone_by_then_has_no_address(stage: Stage) -> None:
    stage.answers.served(LEASE, stage.record(stage.holder))
    ((_, _, granted),) = stage.heard
    assert granted[:4] == (op.LEASE_GRANTED, LEASE, WORKER, "")


def test_nothing_is_said_before_there_is_a_worker(stage: Stage) -> None:
    stage.answers.served(LEASE, stage.record(stage.holder, None))
    stage.answers.served(LEASE, stage.record(None, None))
    assert stage.heard == []


def test_the_lease_of_an_actor_is_the_heads_own(stage: Stage) -> None:
    stage.answers.served(LEASE, stage.record(None))
    assert stage.heard == [("actor served", LEASE, WORKER)]


@pytest.mark.parametrize("for_actor", [False, True])
def test_who_gets_no_worker_hears_why_and_the_request_is_over(stage: Stage, for_actor: bool) -> None:
    error = OptionError("there never was such a node")
    stage.answers.refuse(stage.request, None if for_actor else stage.holder, error)
    if for_actor:
        assert stage.heard == [("actor refused", LEASE, op.SYSTEM_ERROR, str(error), str(error))]
    else:
        failed = packed(op.LeaseFailed(lease=LEASE, error=pickle.dumps(error)))
        assert stage.heard == [(TO_PROCESS, stage.holder.id, failed)]
    assert stage.released == [(LEASE, False)]

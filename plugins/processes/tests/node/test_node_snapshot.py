"""What a head that takes the place of another hears of a node, and what the commands show of one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import packed
from kernel_processes.node.node_report import NodeReport
from kernel_processes.node.node_snapshot import NodeSnapshot
from kernel_processes.node.open_requests import OpenRequests
from kernel_processes.node.worker_pool import LeasedWork, StartWorker, WorkerPool
from kernel_processes.protocol import head_messages
from kernel_processes.protocol.identity import Peer
from kernel_spec.ids import JobId, LeaseId, NodeId, ProcessId
from kernel_spec.store import StoredObject, StoreUsage

DRIVER = Peer(ProcessId(b"driver-1"), "driver", 10, "here:1", {"job": b"job-1234"})
KEY = (b"job-1234", "environment")


class Bench:
    """A node with a driver, and one worker that is up or has not come up."""

    def __init__(self) -> None:
        self.pool = WorkerPool(lambda: b"worker-1")
        self.requests = OpenRequests()
        self.state: Any = SimpleNamespace(leaving=False, leaves_in=lambda: 5.0)
        self.processes: Any = SimpleNamespace(connections={DRIVER.id: SimpleNamespace(info=DRIVER)})
        self.snapshot = NodeSnapshot(self.state, self.processes, self.pool, self.requests)

    def lease(self, held: bytes = b"held") -> ProcessId:
        [step] = self.pool.want(LeaseId(b"lease--1"), KEY, 0.0, LeasedWork("square"), held)
        assert isinstance(step, StartWorker)
        return step.worker

    def joins(self, worker: ProcessId) -> Peer:
        self.pool.registered(worker, "its connection", 1.0)
        peer = Peer(worker, "worker", 11, "here:2")
        self.processes.connections[worker] = SimpleNamespace(info=peer)
        return peer


def introduced(peer: Peer, environment: str = "") -> Any:
    return packed(
        head_messages.ProcessJoined(
            process=peer.id,
            role=peer.role,
            pid=peer.pid,
            address=peer.address,
            job=JobId(b"job-1234"),
            environment=environment,
            details=peer.details,
        )
    )


def granted(worker: ProcessId, blocked: bool = False) -> Any:
    return packed(head_messages.GrantedBefore(held=b"held", worker=worker, blocked=blocked))


def test_drivers_say_their_job_themselves_and_that_of_workers_is_known() -> None:
    bench = Bench()
    peer = bench.joins(bench.lease())
    assert bench.snapshot.introduction(DRIVER) == introduced(DRIVER)
    assert bench.snapshot.introduction(peer) == introduced(peer, "environment")


def test_a_new_head_hears_of_processes_first_then_of_leases_then_of_requests() -> None:
    bench = Bench()
    peer = bench.joins(bench.lease())
    bench.requests.watch = True
    call = (op.CALL, 7, "jobs", ())
    bench.requests.asked(DRIVER.id, call)
    written = packed(head_messages.ProcessLeft(process=ProcessId(b"process1")))
    assert list(bench.snapshot.messages([written])) == [
        introduced(DRIVER),
        introduced(peer, "environment"),
        granted(peer.id),
        (head_messages.FROM_PROCESS, DRIVER.id, call),
        written,
    ]


def test_a_new_head_hears_first_that_the_node_leaves() -> None:
    bench = Bench()
    bench.state.leaving = True
    first, *_ = bench.snapshot.messages([])
    assert first == packed(head_messages.StillDraining(seconds=5.0))


def test_a_new_head_hears_of_leases_that_wait_for_a_worker() -> None:
    bench = Bench()
    bench.lease()
    assert list(bench.snapshot.messages([])) == [introduced(DRIVER), granted(ProcessId(b""))]


def test_no_new_head_hears_of_leases_that_no_other_head_can_take_over() -> None:
    bench = Bench()
    bench.lease(held=b"")
    assert list(bench.snapshot.messages([])) == [introduced(DRIVER)]


def test_a_new_head_hears_which_workers_wait_and_for_what() -> None:
    bench = Bench()
    worker = bench.pool.workers[bench.joins(bench.lease()).id]
    worker.blocked = True
    assert list(bench.snapshot.messages([]))[2:] == [granted(worker.id, blocked=True)]
    worker.blocked, worker.asks = False, True
    asks = (head_messages.LEASE_BLOCKED, LeaseId(b"lease--1"), False, True)
    assert list(bench.snapshot.messages([]))[2:] == [granted(worker.id), asks]


# -- the report --------------------------------------------------------------------------------------------------------


def test_a_node_reports_its_workers_its_store_and_its_memory() -> None:
    bench = Bench()
    worker = bench.pool.workers[bench.joins(bench.lease()).id]
    worker.pid = 11
    usage = StoreUsage(capacity=100, used=10, reserved=0, pinned=0, spilled=0, objects=1, waiting=0)
    row = StoredObject(b"object-1", DRIVER.id, 10, "sealed", {worker.id: 1}, False)  # type: ignore[arg-type]
    store: Any = SimpleNamespace(server=SimpleNamespace(usage=lambda: usage, objects=lambda: [row]))
    memory: Any = SimpleNamespace(status=lambda: {"guard": "own"}, sizes=lambda pids: dict.fromkeys(pids, 1000))
    report = NodeReport(NodeId(b"node-id1"), bench.processes, bench.pool, store, memory)
    small = report.make(objects=False)
    assert small["workers"] == [
        {
            "worker_id": worker.id.hex(),
            "pid": 11,
            "state": "leased",
            "name": "square",
            "job_id": KEY[0].hex(),
            "node_id": b"node-id1".hex(),
        }
    ]
    assert small["store"]["capacity"] == 100 and small["memory"] == {"guard": "own"}
    assert small["held"] == {} and small["stored"] == []
    worker.actor = "Counter"
    whole = report.make(objects=True)
    assert whole["workers"][0]["name"] == "Counter"
    assert whole["held"] == {10: 1000, 11: 1000}
    assert whole["stored"] == [(b"object-1", DRIVER.id, 10, "sealed", {worker.id: 1}, False)]

"""A head that takes the place of one that died, told by nodes in every order: no lease is lost, none given twice."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernel.plugins import PluginManager
from kernel.testing.faults import wait_until
from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message, number_of, packed
from kernel_processes.head.head import Head, HeadConfig
from kernel_processes.head.nodes import NodeRecord
from kernel_processes.protocol import head_messages
from kernel_processes.transport.reactor import Reactor
from kernel_spec import scheduling as contract
from kernel_spec.ids import JobId, LeaseId, NodeId, ProcessId
from kernel_spec.resources import Allocation, amounts

DRIVER, WORKER, JOB = ProcessId(b"driver".ljust(16)), ProcessId(b"worker".ljust(16)), JobId(b"job1")
LEASE = LeaseId(b"lease")
SHAPE = (amounts({"CPU": 1.0}), pickle.dumps(("", {})), b"", True)
WISH = (op.REQUEST_LEASE, LEASE, SHAPE, "task", None)


class Session:
    """A second head, and two nodes: "near" has the driver, "far" the worker. `said` is what each was told."""

    def __init__(self, directory: Path) -> None:
        self.reactor = Reactor()
        manager = PluginManager.discover({"metadata_store": "sqlite"}, options={})
        config = HeadConfig("here", str(directory), False, (), b"near", str(directory))
        first = Head(config, self.reactor, manager, lambda reason: None)
        for name in ("near", "far"):
            first.journal.node(NodeId(name.encode()))
        first.metadata.close()
        self.head = Head(config, self.reactor, manager, lambda reason: None)
        self.recovery = self.head.recovery
        self.recovery.begin(seconds=1000.0)
        self.said: dict[str, list[Message]] = {"near": [], "far": []}
        self.nodes: dict[str, NodeRecord] = {}
        for name, role, process in (("near", "driver", DRIVER), ("far", "worker", WORKER)):
            node = self.nodes[name] = NodeRecord(
                NodeId(name.encode()), self.said[name].append, {"CPU": 1.0}, {}, ("GPU",), name, f"{name}:1", "", 1, 0.0
            )
            self.head.add_node(node)
            details = {"namespace": "", "cwd": "", "path": (), "variables": {}, "environment": None, "entrypoint": ""}
            self.tell(
                name,
                packed(
                    head_messages.ProcessJoined(
                        process=process,
                        role=role,
                        pid=1,
                        address=f"tcp://{name}:1/x",
                        job=JOB,
                        environment="",
                        details=details,
                    )
                ),
            )

    def tell(self, node: str, *messages: Message) -> None:
        """Have the head hear from a node."""
        for message in messages:
            self.head.dispatcher.handle(self.nodes[node], message)

    def ask(self, message: Message) -> None:
        """Have the head hear from the driver."""
        self.tell("near", (head_messages.FROM_PROCESS, DRIVER, message))

    def hold(self) -> None:
        """Have the far node tell that the worker serves the lease."""
        request = contract.LeaseRequest(LEASE, JOB, DRIVER, SHAPE[0], "task", origin=NodeId(b"near"))
        grant = contract.Grant(LEASE, NodeId(b"far"), Allocation(SHAPE[0]))
        self.tell(
            "far",
            packed(head_messages.GrantedBefore(held=pickle.dumps((request, grant, 1)), worker=WORKER, blocked=False)),
        )

    def to_driver(self, operation: int) -> list[Message]:
        """Return what the driver was told."""
        inner = [message[2] for message in self.said["near"] if message[0] == head_messages.TO_PROCESS]
        return [message for message in inner if message[0] == operation]

    def far(self, word: int) -> list[Message]:
        """Return what the far node was told."""
        return [message for message in self.said["far"] if message[0] == word]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    session = Session(tmp_path)
    yield session
    session.head.metadata.close()
    session.reactor.close()


def all_told(session: Session, *order: str) -> None:
    for name in order:
        session.tell(name, packed(head_messages.AllTold()))
    assert not session.head.cluster.recovering


ORDERS = pytest.mark.parametrize("wish_first", [True, False], ids=["wish first", "lease first"])


@ORDERS
def test_a_lease_whose_holder_has_not_heard_of_it_is_told_and_not_granted_twice(
    session: Session, wish_first: bool
) -> None:
    for step in (session.hold, lambda: session.ask(WISH))[:: -1 if wish_first else 1]:
        step()
    all_told(session, "near", "far")
    assert [message[1:3] for message in session.to_driver(op.LEASE_GRANTED)] == [(LEASE, WORKER)]
    assert session.far(head_messages.FIND_WORKER) == [] and session.far(head_messages.DROP_WORKER) == []
    record = session.head.lease_manager.leases[LEASE]
    assert record.holder is session.head.cluster.callers[DRIVER] and record.worker == WORKER


@ORDERS
def test_a_lease_that_was_given_back_is_over_whoever_says_so_first(session: Session, wish_first: bool) -> None:
    back = (op.RETURN_LEASE, LEASE, False, WORKER)
    for step in (session.hold, lambda: session.ask(back))[:: -1 if wish_first else 1]:
        step()
    all_told(session, "near", "far")
    assert LEASE not in session.head.lease_manager.leases
    assert [message[1:3] for message in session.far(head_messages.DROP_WORKER)] == [(LEASE, False)]


def test_a_worker_found_meanwhile_keeps_its_lease(session: Session) -> None:
    session.hold()
    session.tell("far", (head_messages.WORKER_FOUND, LEASE, 1, WORKER))
    session.ask(WISH)
    all_told(session, "far", "near")
    assert session.far(head_messages.DROP_WORKER) == []
    assert len(session.to_driver(op.LEASE_GRANTED)) == 1


def test_a_lease_that_its_holder_does_not_have_is_released(session: Session) -> None:
    session.hold()
    all_told(session, "far", "near")
    ((_, number, process, method, (leases,)),) = [
        m for m in session.said["near"] if m[0] == number_of(head_messages.AskProcess)
    ]
    assert (process, method, leases) == (DRIVER, "leases_not_held", [LEASE])
    session.tell("near", packed(head_messages.AskAnswered(number=number, value=[LEASE])))
    assert LEASE not in session.head.lease_manager.leases
    assert session.far(head_messages.DROP_WORKER) == [(head_messages.DROP_WORKER, LEASE, True, True)]


def test_who_gave_up_a_worker_whose_end_an_earlier_head_was_told_hears_that_it_ended(session: Session) -> None:
    session.tell("far", packed(head_messages.WorkerDied(worker=WORKER, pid=1, cause="signal 9", fault=op.DIED)))
    session.ask((op.RETURN_LEASE, LEASE, True, WORKER))
    all_told(session, "near", "far")
    ((_, worker, cause, fault),) = session.to_driver(number_of(op.LeasedWorkerDied))
    assert (worker, fault) == (WORKER, op.LOST) and "the head was started again" in cause


def test_a_worker_that_dies_before_all_have_told_is_not_held_by_anybody(session: Session) -> None:
    session.hold()
    session.tell("far", packed(head_messages.WorkerDied(worker=WORKER, pid=1, cause="signal 9", fault=op.DIED)))
    session.ask((op.RETURN_LEASE, LEASE, True, WORKER))
    all_told(session, "near", "far")
    assert LEASE not in session.head.lease_manager.leases
    assert len(session.to_driver(number_of(op.LeasedWorkerDied))) == 1


def test_nodes_that_do_not_come_back_are_mourned_by_those_that_do(session: Session) -> None:
    session.head.journal.node(NodeId(b"third"))
    session.head.journal.address(NodeId(b"third"), "third:1")
    session.recovery.nodes._missing.add(NodeId(b"third"))
    session.tell("near", packed(head_messages.AllTold()))
    session.tell("far", packed(head_messages.AllTold()))
    assert session.head.cluster.recovering
    session.recovery.nodes.give_up()
    for name in ("near", "far"):
        gone = [message for message in session.said[name] if message[0] == number_of(head_messages.ProcessesGone)]
        assert gone == [packed(head_messages.ProcessesGone(processes=[], place="third:1"))]


def test_what_is_asked_for_meanwhile_is_granted_when_all_have_told(session: Session) -> None:
    session.ask(WISH)
    assert session.head.lease_manager.leases == {}
    all_told(session, "near", "far")
    found = [message for said in session.said.values() for message in said if message[0] == head_messages.FIND_WORKER]
    assert [message[1] for message in found] == [LEASE]


def test_nodes_free_what_processes_own_that_were_lost_meanwhile(session: Session) -> None:
    all_told(session, "near", "far")
    ((_, number, method, arguments),) = session.far(number_of(head_messages.AskNode))
    assert (method, arguments) == ("report", (True,))
    gone = ProcessId(b"gone".ljust(16))
    report = {"stored": [(b"object 1", gone), (b"object 2", DRIVER), (b"object 3", gone)]}
    session.tell("far", packed(head_messages.AskAnswered(number=number, value=report)))
    told = packed(head_messages.ProcessesGone(processes=[gone], place=""))
    assert session.far(number_of(head_messages.ProcessesGone)) == [told]


def test_the_next_head_knows_why_nodes_are_gone_and_which_must_come_back(session: Session) -> None:
    session.head.journal.node(NodeId(b"third"), "no power")
    session.recovery.begin(seconds=1000.0)
    assert session.head.cluster.fallen == {NodeId(b"third"): "no power"}
    session.recovery.nodes.give_up()
    assert session.head.cluster.fallen.keys() == {b"near", b"far", b"third"}
    assert session.head.journal.nodes()[NodeId(b"far")] == "it did not come back when the head was started again"


def test_the_wait_for_nodes_that_do_not_come_back_ends(session: Session) -> None:
    session.recovery.begin(seconds=0.01)

    def over() -> bool:
        session.reactor.poll(0.01)
        return not session.head.cluster.recovering

    wait_until(over, 120.0, "the end of the wait")
    assert session.head.cluster.fallen.keys() == {b"near", b"far"}


def test_an_answer_to_an_earlier_head_is_none_to_this_one(session: Session) -> None:
    answers: list[Any] = []
    session.head.cluster.ask_node(session.nodes["near"], "report", answers.append)
    for number in range(10):
        session.tell("near", packed(head_messages.AskAnswered(number=number, value=SimpleNamespace())))
    assert answers == []

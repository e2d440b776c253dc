"""Handle messages about leases: requests and returns of processes, and reports of nodes about leased workers."""

from __future__ import annotations

import pickle

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message, number_of, packed, unpacked
from kernel_processes.head.lease_manager import LeaseManager
from kernel_processes.head.lease_requests import LeaseHolders, LeaseRequests
from kernel_processes.head.message_dispatcher import MessageDispatcher
from kernel_processes.head.nodes import NodeRecord, ProcessRecord
from kernel_processes.head.observation import Observation
from kernel_processes.protocol import head_messages
from kernel_processes.protocol.memory_faults import FAULTS
from kernel_processes.transport.reactor import Reactor
from kernel_spec import observers
from kernel_spec.ids import LeaseId, ProcessId

GRACE_SECONDS = 2.0
"""Seconds for which a broken lease keeps its resources, unless its worker is known to have ended sooner."""


class LeaseService:
    """Passes messages of processes and nodes about leases to `leases` and `holders`. Runs in the head's loop."""

    def __init__(
        self,
        dispatcher: MessageDispatcher,
        requests: LeaseRequests,
        leases: LeaseManager,
        holders: LeaseHolders,
        observation: Observation,
        reactor: Reactor,
    ) -> None:
        self._requests = requests
        self._leases = leases
        self._holders = holders
        self._observation = observation
        self._reactor = reactor
        dispatcher.handlers |= {
            op.REQUEST_LEASE: self._on_request,
            op.CANCEL_LEASE: lambda caller, message: leases.cancel(message[1]),
            op.RETURN_LEASE: self._on_return,
            number_of(op.Backlog): lambda caller, message: leases.note_backlog(*unpacked(op.Backlog, message)),
        }
        dispatcher.methods["explain_lease"] = lambda caller, lease: leases.explain(lease)
        dispatcher.words |= {
            head_messages.WORKER_FOUND: self._worker_found,
            head_messages.LEASE_BLOCKED: lambda node, lease, blocked, asks=False: leases.block(lease, blocked, asks),
        }
        dispatcher.on(head_messages.LeaseUnserved, self._unserved)
        dispatcher.on(head_messages.WorkerDied, self._worker_died)

    # -- processes -------------------------------------------------------------------------------------------------

    def _on_request(self, caller: ProcessRecord, message: Message) -> None:
        request = self._requests.of_process(caller, message)
        known = self._leases.leases.get(request.id)
        if known is not None:  # An earlier head granted it, and died before its holder got the answer.
            self._holders.served(request.id, known)
            return
        error = self._requests.ask(request, caller)
        if error is not None:
            self._holders.refuse(request, caller, error)

    def refuse_the_hopeless(self) -> None:
        """Refuse the waiting requests that can never be served: those for a node that is gone, and for no other."""
        for record, error in self._requests.hopeless():
            self._holders.refuse(record.request, record.holder, error)

    def _on_return(self, caller: ProcessRecord, message: Message) -> None:
        """Take a lease back. A broken worker's resources, such as a device's memory, are free when its process ends."""
        _, id, broken, worker = message
        if not broken:
            self._leases.release(id, broken=False)
        elif id in self._leases.leases:
            self._leases.drop_worker(id)
            self._reactor.call_later(GRACE_SECONDS, lambda: self._leases.release(id, broken=True))
        else:  # An earlier head told it so, or was about to.
            caller.send(
                packed(
                    op.LeasedWorkerDied(
                        worker=worker, cause="how is not known, as the head was started again", fault=op.LOST
                    )
                )
            )

    # -- nodes -----------------------------------------------------------------------------------------------------

    def _worker_found(self, node: NodeRecord, lease: LeaseId, grant: int, worker: ProcessId) -> None:
        record = self._leases.served(lease, grant, worker)
        if record is not None:
            self._holders.served(lease, record)

    def _unserved(self, node: NodeRecord, said: head_messages.LeaseUnserved) -> None:
        record = self._leases.granted(said.lease, said.grant)
        if record is not None:
            self._holders.refuse(record.request, record.holder, pickle.loads(said.error))

    def _worker_died(self, node: NodeRecord, said: head_messages.WorkerDied) -> None:
        detail = {"pid": said.pid, "cause": said.cause, "fault": FAULTS.get(said.fault, "")}
        self._observation.happened(observers.WORKER, observers.DEAD, said.worker, detail)
        self._holders.worker_died(said.worker, said.cause, said.fault)

"""The workers of actors: the head itself asks for them and holds their leases."""

from __future__ import annotations

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import packed
from kernel_processes.head.actor_records import ActorRecord, EndWorker
from kernel_processes.head.lease_manager import LeaseManager
from kernel_processes.head.lease_requests import LeaseRequests
from kernel_processes.head.worker_orders import WorkerOrders
from kernel_processes.protocol import head_messages
from kernel_spec.errors import KernelError
from kernel_spec.ids import LeaseId, ProcessId


class ActorWorkers:
    """Requests workers for actors by `requests`, keeps their leases in `leases`, and sends workers orders by `orders`.

    Runs in the head's loop.
    """

    def __init__(self, requests: LeaseRequests, leases: LeaseManager, orders: WorkerOrders) -> None:
        self._requests = requests
        self._leases = leases
        self._orders = orders

    def ask(self, record: ActorRecord, lease: LeaseId) -> KernelError | None:
        """Ask for a worker, under the id of a new lease; return why there will never be one, None if there may be."""
        return self._requests.ask(self._requests.of_actor(record, lease), None)

    def construct(self, record: ActorRecord) -> None:
        """Have the worker of an actor run its constructor, with what its lease holds."""
        allocation = self._leases.allocation(record.lease)
        held = allocation.amounts, allocation.devices, record.description["group"]
        message = packed(op.BecomeActor(actor=record.id, creation=record.creation, held=held, attempt=record.attempt))
        class_name, restarts = record.description["class_name"], record.restarts_left
        self._orders.tell_node_of(
            record.worker,
            packed(
                head_messages.ConstructActor(
                    worker=record.worker, class_name=class_name, restarts=restarts, message=message
                )
            ),
        )

    def end(self, step: EndWorker) -> None:
        """Have the process of an actor end."""
        self._orders.tell_node_of(
            step.worker,
            packed(
                head_messages.StopWorker(worker=step.worker, reason=step.reason, drain=step.drain, kindly=step.kindly)
            ),
        )

    def release(self, lease: LeaseId) -> None:
        """Withdraw a request, or give a lease back: its worker was an actor, and is nothing else any more."""
        self._leases.release(lease, broken=True)

    def leases(self) -> dict[LeaseId, ProcessId | None]:
        """Return the leases of actors, also those that wait, with the worker of each that has one."""
        records = self._leases.leases.items()
        return {id: record.worker for id, record in records if record.request.for_actor}

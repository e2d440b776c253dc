"""The processes that subscribe to the changes of each actor."""

from __future__ import annotations

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message, number_of, packed, unpacked
from kernel_processes.head import actor_records as control
from kernel_processes.head.actors import ActorTable
from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.message_dispatcher import MessageDispatcher
from kernel_processes.head.nodes import ProcessRecord
from kernel_processes.head.observation import Observation
from kernel_spec import observers
from kernel_spec.ids import ActorId, ProcessId, process_of


class ActorSubscriptions:
    """Sends changes of the actors in `table` to callers and observers. Runs in the head's loop."""

    def __init__(
        self, dispatcher: MessageDispatcher, cluster: ClusterTable, table: ActorTable, observation: Observation
    ) -> None:
        self._cluster = cluster
        self._table = table
        self._observation = observation
        self._subscribers: dict[ActorId, set[ProcessRecord]] = {}
        self._unanswered: list[tuple[ProcessRecord, ActorId]] = []
        dispatcher.handlers[number_of(op.SubscribeActor)] = self._on_subscribe

    def add(self, caller: ProcessRecord, actor: ActorId) -> None:
        """Send an actor's changes to a process from now on."""
        self._subscribers.setdefault(actor, set()).add(caller)

    def process_left(self, caller: ProcessRecord) -> None:
        """A process is gone, and so are its subscriptions."""
        for subscribers in self._subscribers.values():
            subscribers.discard(caller)

    def publish(self, record: control.ActorRecord) -> None:
        """Send a change of an actor to its subscribers and the observers."""
        message = self._state_message(record)
        for caller in list(self._subscribers.get(record.id, ())):
            caller.send(message)
        if record.state == control.DEAD:
            self._subscribers.pop(record.id, None)
        detail = {"name": record.label, "cause": record.cause}
        self._observation.happened(observers.ACTOR, record.state, record.id, detail)

    def answer_waiting(self) -> None:
        """Answer the questions about actors that had to wait until everything an earlier head left was known."""
        unanswered, self._unanswered = self._unanswered, []
        for caller, actor in unanswered:
            self._subscribe(caller, actor)

    def _on_subscribe(self, caller: ProcessRecord, message: Message) -> None:
        actor = unpacked(op.SubscribeActor, message).actor
        owner = self._cluster.callers.get(process_of(actor))
        if actor not in self._table.actors and owner is not None:
            # A handle may arrive before its actor is announced. The owner's answer comes after the announcement.
            self._cluster.ask(owner, "ping", lambda answer: self._subscribe(caller, actor))
        else:
            self._subscribe(caller, actor)

    def _subscribe(self, caller: ProcessRecord, actor: ActorId) -> None:
        if caller.closed:
            return
        record, cluster = self._table.actors.get(actor), self._cluster
        if cluster.recovering and (record is None or (record.worker and record.worker not in cluster.callers)):
            self._unanswered.append((caller, actor))  # The node of its process, or of its owner, has not come back yet.
            return
        if record is None:
            caller.send(
                packed(
                    op.ActorState(
                        actor=actor,
                        state=control.DEAD,
                        worker=ProcessId(b""),
                        address="",
                        attempt=0,
                        cause="it ended long ago",
                        failure=None,
                        crashed=False,
                    )
                )
            )
        else:
            if record.state != control.DEAD:
                self.add(caller, actor)
            caller.send(self._state_message(record))

    def _state_message(self, record: control.ActorRecord) -> Message:
        worker = self._cluster.callers.get(record.worker)
        address = worker.address if worker is not None else ""
        state = control.PENDING if record.state == control.STARTING else record.state
        place = record.worker, address
        return packed(
            op.ActorState(record.id, state, *place, record.attempt, record.cause, record.failure, record.crashed)
        )

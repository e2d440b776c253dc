"""Tell an autoscaler at once that something new waits, so that it does not have to ask over and over."""

from __future__ import annotations

from kernel_processes.head.deferred import Deferred
from kernel_processes.head.lease_manager import LeaseManager
from kernel_processes.head.message_dispatcher import MessageDispatcher
from kernel_processes.head.nodes import ProcessRecord
from kernel_processes.transport.reactor import Reactor
from kernel_spec import scheduling as contract

LONGEST_SECONDS = 60.0
"""For how long one question waits at most, and after how long without a question nothing is counted any more."""


class DemandWatch:
    """Answers "wait_for_demand". Runs in the head's loop.

    Until a process asks, and again once none has asked for a while, the events of leases are not looked at.
    """

    def __init__(self, dispatcher: MessageDispatcher, leases: LeaseManager, reactor: Reactor) -> None:
        self._leases = leases
        self._reactor = reactor
        self._count = 0
        """How many times a need came that could not be met at once."""
        self._asked_at = 0.0
        self._waiting: list[Deferred] = []
        dispatcher.methods["wait_for_demand"] = self._wait

    def note(self) -> None:
        """Count that something new waits, and tell those that have asked."""
        if self._leases.follow is None:
            return
        self._count += 1
        waiting, self._waiting = self._waiting, []
        for deferred in waiting:
            deferred.set(self._count)
        if not waiting and self._reactor.clock() - self._asked_at > LONGEST_SECONDS:
            self._leases.follow = None

    def _wait(self, caller: ProcessRecord, known: int, seconds: float) -> Deferred:
        """Answer with the count once it is another than `known`, and after `seconds` whatever it is."""
        self._asked_at = self._reactor.clock()
        self._leases.follow = self._happened
        deferred = Deferred()
        if known != self._count:
            deferred.set(self._count)
            return deferred
        self._waiting.append(deferred)
        self._reactor.call_later(min(seconds, LONGEST_SECONDS), lambda: self._give_up(deferred))
        return deferred

    def _give_up(self, deferred: Deferred) -> None:
        if deferred in self._waiting:
            self._waiting.remove(deferred)
            deferred.set(self._count)

    def _happened(self, event: contract.Event) -> None:
        """The scheduler has handled an event: note it if something waits because of it."""
        match event:
            case contract.LeaseRequested(request):
                record = self._leases.leases.get(request.id)
                if record is not None and record.grant is None:
                    self.note()
            case contract.GroupRequested() | contract.NodeRemoved():
                self.note()

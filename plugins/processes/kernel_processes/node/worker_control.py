"""Give orders to workers: become an actor, retire, end. A worker that does not end is killed."""

from __future__ import annotations

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message, packed
from kernel_processes.node.head_client import HeadClient
from kernel_processes.node.process_table import ProcessTable
from kernel_processes.node.worker_pool import ENDING, WorkerPool, WorkerRecord
from kernel_processes.protocol import head_messages
from kernel_processes.system.processes import kill
from kernel_processes.transport.reactor import Reactor
from kernel_spec.ids import JobId, ProcessId

GRACE_SECONDS = 2.0
"""Seconds for a worker that was ordered to end to run its exit handlers."""


class WorkerControl:
    """Reaches the workers in `pool`, for the head and for the parts of the agent. Runs in the agent's loop."""

    def __init__(self, head: HeadClient, pool: WorkerPool, processes: ProcessTable, reactor: Reactor) -> None:
        self._pool = pool
        self._processes = processes
        self._reactor = reactor
        head.on(head_messages.ConstructActor, lambda said: self._construct(*said))
        head.on(head_messages.StopWorker, lambda said: self.end(*said))
        head.on(head_messages.KillWorker, lambda said: self.kill(*said))

    def _construct(self, id: ProcessId, class_name: str, restarts: int, message: Message) -> None:
        """Make a leased worker an actor."""
        worker = self._pool.workers.get(id)
        if worker is None or worker.peer is None or worker.state == ENDING or worker.actor:
            return  # Its end is reported to the head, or the order came twice.
        self._pool.becomes_actor(id)
        worker.actor, worker.restarts = class_name, restarts
        self._processes.send(id, message)

    def end(self, id: ProcessId, reason: str, drain: bool, kindly: bool = True) -> None:
        """Order a worker to end; kill it if it does not (unless it may finish its calls first)."""
        worker = self._pool.ends(id, reason)
        if worker is None:
            return
        if worker.peer is not None and not worker.peer.closed:
            worker.peer.send(packed(op.EndProcess(reason=reason, drain=drain, kindly=kindly)))
            worker.peer.flush()
        elif worker.pid:
            kill(worker.pid)
        if not drain:
            self._reactor.call_later(GRACE_SECONDS, lambda: self._make_sure(id))

    def kill(self, id: ProcessId, reason: str) -> None:
        """Kill a worker at once; its error gives the reason."""
        worker = self._pool.ends(id, reason)
        if worker is not None and worker.pid:
            kill(worker.pid)

    def end_all_of(self, job: JobId, reason: str) -> None:
        """Order the workers of a job to end."""
        for worker in [worker for worker in self._pool.workers.values() if worker.key[0] == job]:
            self.end(worker.id, reason, drain=False)

    def retire_idle(self, keep: int, after: float) -> None:
        """Ask the idle workers beyond `keep` to retire that have been idle for `after` seconds."""
        for worker in self._pool.to_retire(self._reactor.clock(), keep, after):
            self.ask_to_retire(worker)

    def ask_to_retire(self, worker: WorkerRecord) -> None:
        """Have an idle worker end, unless it says that another process needs objects that it owns."""

        def answered(goes: bool | None) -> None:
            if goes:
                self._pool.ends(worker.id, "it had nothing to do")
                self._reactor.call_later(GRACE_SECONDS, lambda: self._make_sure(worker.id))
            else:
                self._pool.stays(worker)

        self._processes.ask(worker.peer, "retire", answered)

    def _make_sure(self, id: ProcessId) -> None:
        worker = self._pool.workers.get(id)
        if worker is not None and worker.pid:
            kill(worker.pid)

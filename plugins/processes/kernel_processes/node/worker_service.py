"""Start the worker processes of a node, watch them, and report when one has died. In the agent's loop."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from contextlib import suppress

from kernel.logs import Logger
from kernel_engine.messages.named_messages import packed
from kernel_processes.node.failed_starts import FAILED_STARTS
from kernel_processes.node.head_client import HeadClient
from kernel_processes.node.template_link import TemplateLink
from kernel_processes.node.worker_exits import WorkerExits
from kernel_processes.node.worker_forks import WorkerForks
from kernel_processes.node.worker_pool import (
    ENDING,
    RefuseLeases,
    Replacement,
    StartWorker,
    UnservedLease,
    WorkerPool,
    WorkerRecord,
)
from kernel_processes.protocol import head_messages
from kernel_processes.protocol.identity import Peer
from kernel_processes.system.processes import describe_code, end_orphans, is_alive, kill, reap_adopted
from kernel_processes.transport.reactor import Reactor
from kernel_spec.errors import KernelError, RuntimeEnvError, SessionEndedError, WorkerDiedError
from kernel_spec.ids import ProcessId

_START_LOOK_SECONDS = 0.05
_RETRY_SECONDS = 0.5
"""Seconds for which a worker that could not be forked still counts, before another is started."""
_EXIT_SECONDS = 1.0
"""Seconds for which a worker that closed its connection may take to exit."""
_STAND_IN_EXIT_SECONDS = 10.0
"""The same for the process that was forked for a worker and runs it elsewhere: it may have a container to remove."""


class WorkerService:
    """Carries out what the worker pool decides, and tells it what happens to workers."""

    def __init__(
        self, head: HeadClient, pool: WorkerPool, forks: WorkerForks, exits: WorkerExits, reactor: Reactor
    ) -> None:
        self._head = head
        self._pool = pool
        self._forks = forks
        self._exits = exits
        self._reactor = reactor
        self._log = Logger("kernel.node")
        self._ending: str | None = None
        """Why the session ends, None while it does not."""

    def session_ends(self, reason: str) -> None:
        """From now on no template takes the place of one that died."""
        self._ending = self._ending or reason

    # -- what the pool decides -------------------------------------------------------------------------------------

    def carry_out(self, instructions: Sequence[Replacement]) -> None:
        """Start workers, and refuse leases that get none."""
        for step in instructions:
            if isinstance(step, StartWorker):
                self._forks.start(step, self._environment_failed, self.on_fork_failed)
            else:
                self._give_up(step)

    def _environment_failed(self, worker: ProcessId, error: RuntimeEnvError) -> None:
        self._refuse(self._pool.could_not_start(worker), error)

    def _give_up(self, step: RefuseLeases) -> None:
        if self._ending is not None:  # Without its directory, say, no worker comes up.
            self._refuse(step.leases, SessionEndedError(f"the session ended: {self._ending}"))
            return
        text = f"{step.reason}; the last: {step.worker.cause}"
        self._log.error(text)
        self._refuse(step.leases, WorkerDiedError(text))

    def _refuse(self, leases: Sequence[UnservedLease], error: KernelError) -> None:
        """Report to the head that these leases get no worker."""
        for lease, grant in leases:
            self._head.send(packed(head_messages.LeaseUnserved(lease=lease, grant=grant, error=pickle.dumps(error))))

    # -- reports of the template -----------------------------------------------------------------------------------

    def on_forked(self, id: bytes, pid: int) -> None:
        """The template forked a worker."""
        worker = self._pool.workers.get(ProcessId(id))
        if worker is None:
            kill(pid)
            return
        worker.pid = pid
        if worker.state == ENDING:
            kill(pid)

    def on_fork_failed(self, id: bytes, reason: str) -> None:
        """The template could not fork, or was not even asked to: try again soon."""
        self._log.error("a worker could not be started", reason=reason)
        worker = self._pool.workers.get(ProcessId(id))
        if worker is not None:
            worker.cause = worker.cause or reason
        self._reactor.call_later(_RETRY_SECONDS, lambda: self._gone(ProcessId(id), reason))

    def on_exited(self, pid: int, status: int) -> None:
        """A worker exited."""
        worker = next((w for w in self._pool.workers.values() if w.pid == pid), None)
        if worker is None:
            return
        self._exits.note(pid, status)
        if worker.peer is None:
            self._exits.look_for_directory(
                lambda missing: self._gone(worker.id, missing or self._exits.cause(worker, status))
            )

    def on_template_lost(self) -> None:
        """The template died: its workers go on as our children, and another template takes its place."""
        template = self._forks.template
        if self._ending is not None or template is None:
            return
        starting = [worker for worker in self._pool.workers.values() if worker.peer is None]
        unborn = [worker for worker in starting if not worker.pid]
        if template.failures < FAILED_STARTS:
            self._log.warning("the template process died; starting another")
            with suppress(OSError):
                template.start()  # If it fails, the next request for a worker tries again, and reports why.
            for worker in unborn:
                self._gone(worker.id, "the template process died before it was forked")
        else:
            self._give_up_forking(unborn, template)
        for worker in starting:
            if worker.pid:
                self._await_start(worker)

    def _give_up_forking(self, unborn: Sequence[WorkerRecord], template: TemplateLink) -> None:
        text = (
            f"no worker can be started: {template.failures} templates (from which workers are forked) in a row ended "
            f"before they had forked one, the last like this: {describe_code(template.status)}; "
            f"look for the cause at the end of {self._exits.template_log}"
        )

        def give_up(end: str | Exception) -> None:
            self._log.error(f"{text}{end}")
            for worker in unborn:
                self._refuse(self._pool.could_not_start(worker.id), WorkerDiedError(f"{text}{end}"))

        self._exits.template_output(give_up)

    def _await_start(self, worker: WorkerRecord) -> None:
        """Watch a worker until it has joined: without its template, no other process reports its death."""
        if worker.peer is not None or self._pool.workers.get(worker.id) is not worker:
            return
        if is_alive(worker.pid):
            self._reactor.call_later(_START_LOOK_SECONDS, lambda: self._await_start(worker))
        else:
            self.reap()
            self._gone(worker.id, worker.cause or "it died before it had joined, and so did the template")

    # -- their end -------------------------------------------------------------------------------------------------

    def reap(self) -> None:
        """Note the ends of workers whose template is gone, and clear away what such workers had started."""
        for pid, status in reap_adopted({worker.pid for worker in self._pool.workers.values()}):
            self.on_exited(pid, status)

    def left(self, peer: Peer) -> None:
        """A worker's connection closed: find out how it died, then report its end."""
        worker = self._pool.workers.get(peer.id)
        if worker is None:
            return
        worker.pid = worker.pid or peer.pid
        self._pool.ends(worker.id, "")  # So that no lease gets it.
        seconds = _EXIT_SECONDS if peer.pid == worker.pid else _STAND_IN_EXIT_SECONDS
        self._await_status(worker, self._reactor.clock() + seconds)

    def _await_status(self, worker: WorkerRecord, deadline: float) -> None:
        if self._pool.workers.get(worker.id) is not worker:
            return
        status = self._exits.take(worker.pid)
        if status is not None:
            self._gone(worker.id, self._exits.cause(worker, status))
        elif self._reactor.clock() > deadline:
            kill(worker.pid)
            self._gone(worker.id, worker.cause or "it closed its connection and was ended")
        else:
            self._reactor.call_later(0.002, lambda: self._await_status(worker, deadline))

    def _gone(self, id: ProcessId, cause: str) -> None:
        known = self._pool.workers.get(id)
        killed = known is not None and self._exits.was_killed(known.pid)
        worker, instructions = self._pool.died(id, self._reactor.clock() if killed else None)
        if worker is None:
            return
        worker.cause = cause
        self._exits.take(worker.pid)
        if worker.pid:
            end_orphans({worker.pid}, {w.pid for w in self._pool.workers.values()})
        self._head.send(packed(head_messages.WorkerDied(worker=id, pid=worker.pid, cause=cause, fault=worker.fault)))
        self._exits.remove_files(worker)
        self.carry_out(instructions)

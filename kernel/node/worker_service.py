"""The life of a node's workers: forked by the template, handed to leases, ended, mourned. Runs in the agent's loop."""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kernel.node.last_words import last_words
from kernel.node.lease_desk import LeaseRecord, grant_message
from kernel.node.processes import describe_status, end_orphans, is_alive, kill
from kernel.node.template_link import TemplateLink
from kernel.node.worker_pool import (
    ENDING,
    FAILED_STARTS,
    Assign,
    GiveUp,
    Instruction,
    StartWorker,
    WorkerPool,
    WorkerRecord,
)
from kernel.runtime import operations as op
from kernel.runtime.process import Peer
from kernel.transport.connection import Connection
from kernel_spec.errors import KernelError, RuntimeEnvError, WorkerDiedError
from kernel_spec.ids import LeaseId, ProcessId

if TYPE_CHECKING:
    from kernel.node.agent import Agent

GRACE_SECONDS = 2.0
"""How long a worker that was told to end may run its exit handlers."""
_START_LOOK_SECONDS = 0.05


class WorkerService:
    """The shell around the worker pool."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.pool = WorkerPool(lambda: os.urandom(8))
        self.template: TemplateLink | None = None
        self._exit_statuses: dict[int, int] = {}

    def carry_out(self, instructions: list[Instruction]) -> None:
        """Do what the pool decided."""
        for step in instructions:
            if isinstance(step, StartWorker):
                self._start_worker(step)
            elif isinstance(step, Assign):
                self._assign(step)
            else:
                self._give_up(step)

    def _start_worker(self, step: StartWorker) -> None:
        job = self._agent.jobs.get(step.key[0])
        try:
            variables, cwd, paths = self._agent.environments.worker_settings(step.key[1])
        except RuntimeEnvError as error:
            self._no_worker(step, error)
            return
        descriptors = self._agent.logs.open(step.worker)
        worker = {
            "id": step.worker,
            "job": step.key[0],
            "variables": {**job.variables, **variables},
            "unset": [],
            "cwd": cwd or job.cwd,
            "path": [*paths, *job.path],
            "namespace": job.namespace,
        }
        assert self.template is not None
        self.template.fork(worker, descriptors)

    def _no_worker(self, step: StartWorker, error: KernelError) -> None:
        waiting = self.pool.waiting_leases(step.key)
        self.pool.ends(step.worker, str(error))
        self.pool.died(step.worker)
        self._fail_leases(waiting, error)

    def _give_up(self, step: GiveUp) -> None:
        text = f"{FAILED_STARTS} workers in a row died before they were up, the last like this: {step.worker.cause}"
        self._agent.log.error(text)
        self._fail_leases(step.leases, WorkerDiedError(text))

    def _fail_leases(self, leases: Sequence[LeaseId], error: KernelError) -> None:
        """Tell those who wait for a worker that there will be none."""
        for lease in leases:
            record = self._agent.desk.leases.get(lease)
            if record is not None and record.holder is not None:
                record.holder.send((op.LEASE_FAILED, lease, pickle.dumps(error)))
                record.holder.flush()
            failure = (op.SYSTEM_ERROR, pickle.dumps(error))
            self._agent.actors.carry_out(self._agent.actors.table.lease_failed(lease, failure, str(error)))
            self._agent.desk.release(lease, broken=False)

    def _assign(self, step: Assign) -> None:
        record = self._agent.desk.leases[step.lease]
        record.worker = step.worker
        worker = self.pool.workers[step.worker]
        worker.name = record.request.name
        if record.holder is None:
            self._agent.actors.lease_served(step.lease, record)
        else:
            worker.holder = record.holder
            record.holder.send(grant_message(step.lease, record, self._agent.socket_path(step.worker)))
            record.holder.flush()

    def find(self, lease: LeaseId, record: LeaseRecord) -> None:
        """A lease was granted: find it a worker."""
        self.carry_out(self.pool.want(lease, (record.request.job, record.request.environment)))

    def drop(self, lease: LeaseId, record: LeaseRecord, broken: bool) -> None:
        """A lease is over: use its worker again, or (broken) end it."""
        self.pool.unwant(lease)
        if record.worker is None:
            return
        worker = self.pool.workers.get(record.worker)
        if worker is None or worker.lease != lease:
            return
        if broken:
            # Often it is dead already and its holder was the first to notice: the exit status will say how.
            holder_lives = record.holder is not None and not record.holder.closed
            if worker.state != ENDING:
                self.end(worker.id, "" if holder_lives else "its caller ended", drain=holder_lives)
        else:
            self.carry_out(self.pool.released(worker.id, self._agent.reactor.clock()))

    def end(self, id: ProcessId, reason: str, drain: bool) -> None:
        """Tell a worker to end; kill it if it does not (unless it may finish its calls first)."""
        worker = self.pool.ends(id, reason)
        if worker is None:
            return
        if worker.peer is not None and not worker.peer.closed:
            worker.peer.send((op.EXIT, reason, drain))
            worker.peer.flush()
        elif worker.pid:
            kill(worker.pid)
        if not drain:
            self._agent.reactor.call_later(GRACE_SECONDS, lambda: self._make_sure(id))

    def ask_to_retire(self, worker: WorkerRecord) -> None:
        """Let an idle worker end, unless it says that somebody needs what it owns."""

        def answered(goes: bool | None) -> None:
            if goes:
                self.pool.ends(worker.id, "it had nothing to do")
                self._agent.reactor.call_later(GRACE_SECONDS, lambda: self._make_sure(worker.id))
            else:
                self.pool.stays(worker)

        self._agent.ask(worker.peer, "retire", answered)

    def _make_sure(self, id: ProcessId) -> None:
        worker = self.pool.workers.get(id)
        if worker is not None and worker.pid:
            kill(worker.pid)

    def kill(self, connection: Connection, id: ProcessId, reason: str) -> None:
        """Kill a worker because a process asked for it."""
        worker = self.pool.ends(id, reason)
        if worker is not None and worker.pid:
            kill(worker.pid)

    def on_forked(self, id: bytes, pid: int) -> None:
        """The template forked a worker."""
        worker = self.pool.workers.get(ProcessId(id))
        if worker is None:
            kill(pid)
            return
        worker.pid = pid
        if worker.state == ENDING:
            kill(pid)

    def on_fork_failed(self, id: bytes, reason: str) -> None:
        """The template could not fork."""
        self._agent.log.error("a worker could not be started", reason=reason)
        self._agent.reactor.call_later(0.5, lambda: self._gone(ProcessId(id), reason))

    def on_exited(self, pid: int, status: int) -> None:
        """A worker exited."""
        worker = next((w for w in self.pool.workers.values() if w.pid == pid), None)
        if worker is None:
            return
        self._exit_statuses[pid] = status
        if worker.peer is None:
            self._gone(worker.id, self._cause(worker, status))

    def on_template_lost(self) -> None:
        """The template died: its workers go on as our children, and another template takes its place."""
        if self._agent.ending is None and self.template is not None:
            self._agent.log.warning("the template process died; starting another")
            starting = [w for w in self.pool.workers.values() if w.peer is None]
            self.template.start()
            for worker in starting:
                if worker.pid:
                    self._await_start(worker)
                else:
                    self._gone(worker.id, "the template process died before it was forked")

    def _await_start(self, worker: WorkerRecord) -> None:
        """Look after a worker until it has joined: with its template gone, nobody else tells when it dies."""
        if worker.peer is not None or self.pool.workers.get(worker.id) is not worker:
            return
        status = self._exit_statuses.pop(worker.pid, None)
        if status is None:
            status = _wait_child(worker.pid)
        if status is not None:
            self._gone(worker.id, self._cause(worker, status))
        elif not is_alive(worker.pid):
            self._gone(worker.id, worker.cause or "it died before it had joined, and so did the template")
        else:
            self._agent.reactor.call_later(_START_LOOK_SECONDS, lambda: self._await_start(worker))

    def left(self, peer: Peer) -> None:
        """A worker's connection closed: find out how it died, then tell everybody."""
        worker = self.pool.workers.get(peer.id)
        if worker is None:
            return
        worker.pid = worker.pid or peer.pid
        self._await_status(worker, self._agent.reactor.clock() + 1.0)

    def _await_status(self, worker: WorkerRecord, deadline: float) -> None:
        status = self._exit_statuses.pop(worker.pid, None)
        if status is None:
            status = _wait_child(worker.pid)
        if status is not None:
            self._gone(worker.id, self._cause(worker, status))
        elif self._agent.reactor.clock() > deadline:
            kill(worker.pid)
            self._gone(worker.id, worker.cause or "it closed its connection and was ended")
        else:
            self._agent.reactor.call_later(0.002, lambda: self._await_status(worker, deadline))

    def _cause(self, worker: WorkerRecord, status: int) -> str:
        if worker.cause:
            return worker.cause
        text = f"{describe_status(status)} (pid {worker.pid}, node {self._agent.node.hex()[:8]})"
        tail = last_words(self._agent.logs.tail(worker.id))
        if tail and status:
            text += "; the last it wrote to stderr:\n  " + "\n  ".join(tail)
        return text

    def _gone(self, id: ProcessId, cause: str) -> None:
        worker, instructions = self.pool.died(id)
        if worker is None:
            return
        worker.cause = cause
        self._agent.observe("worker", "DEAD", id, {"pid": worker.pid, "cause": cause})
        self._exit_statuses.pop(worker.pid, None)
        if worker.pid:
            end_orphans({worker.pid}, {w.pid for w in self.pool.workers.values()})
        if worker.holder is not None and not worker.holder.closed:
            worker.holder.send((op.PROCESS_DIED, id, cause))
            worker.holder.flush()
        if worker.lease is not None:
            self._agent.desk.release(worker.lease, broken=True)
        self._agent.actors.worker_died(id, cause)
        path = self._agent.socket_path(id)
        if os.path.exists(path):
            os.unlink(path)
        self.carry_out(instructions)


def _wait_child(pid: int) -> int | None:
    """Reap a worker that became our child when its template died."""
    try:
        found, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return None
    return status if found else None

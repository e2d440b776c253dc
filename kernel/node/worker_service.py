"""The life of a node's workers: forked by the template, handed to leases, ended, mourned. Runs in the agent's loop."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kernel.node.crash_output import agent_crash_output, crash_output
from kernel.node.failed_starts import FAILED_STARTS
from kernel.node.template_link import TemplateLink
from kernel.node.worker_pool import (
    ENDING,
    NO_WORK,
    Assign,
    Instruction,
    LeasedWork,
    RefuseLeases,
    StartWorker,
    WorkerPool,
    WorkerRecord,
)
from kernel.protocol import head_messages
from kernel.protocol import process_messages as op
from kernel.protocol.identity import Peer
from kernel.protocol.named_messages import packed
from kernel.system.descriptor_limit import check_room, describe_shortage
from kernel.system.processes import describe_code, describe_status, end_orphans, is_alive, kill, reap_adopted
from kernel.transport import socket_receiver
from kernel.transport.connection import Message
from kernel_spec.errors import KernelError, RuntimeEnvError, SessionEndedError, WorkerDiedError
from kernel_spec.ids import JobId, LeaseId, ProcessId

if TYPE_CHECKING:
    from kernel.node.agent import Agent

_NO_SURROUNDINGS: Mapping[str, Any] = {"namespace": "", "cwd": "", "path": (), "variables": {}}
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
        self._works: dict[LeaseId, LeasedWork] = {}
        """What leases that have no worker yet are for."""
        self.held: dict[LeaseId, bytes] = {}
        """What a head that comes after this one must know of each lease here."""

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
        """Start a worker once everything that its environment is made of is on this node."""

        def ready(error: RuntimeEnvError | None) -> None:
            if step.worker not in self.pool.workers:
                return  # it is not wanted any more
            if error is not None:
                self._fail_leases(self.pool.could_not_start(step.worker), error)
            else:
                self._fork(step)

        self._agent.package_fetcher.fetch(step.key[1], ready)

    def _fork(self, step: StartWorker) -> None:
        job = self._agent.jobs.get(JobId(step.key[0]), _NO_SURROUNDINGS)
        variables, cwd, paths = self._agent.packages.worker_settings(step.key[1])
        try:
            joining = sum(worker.peer is None for worker in self.pool.workers.values())
            check_room(self._agent.reactor.watched + joining)
            descriptors = self._agent.logs.open(step.worker)
        except OSError as error:
            self.on_fork_failed(step.worker, describe_shortage(error))
            return
        worker = {
            "id": step.worker,
            "job": step.key[0],
            "variables": job["variables"],
            "env_vars": variables,
            "cwd": cwd,
            "program_cwd": job["cwd"],
            "path": [*paths, *job["path"]],
            "namespace": job["namespace"],
        }
        assert self.template is not None
        self.template.fork(worker, descriptors)

    def _give_up(self, step: RefuseLeases) -> None:
        if self._agent.ending is not None:  # its directory was removed, say, without which no worker comes up
            self._fail_leases(step.leases, SessionEndedError(f"the session ended: {self._agent.ending}"))
            return
        text = f"{step.reason}; the last: {step.worker.cause}"
        self._agent.log.error(text)
        self._fail_leases(step.leases, WorkerDiedError(text))

    def _fail_leases(self, leases: Sequence[LeaseId], error: KernelError) -> None:
        """Say that those who wait for a worker get none."""
        for lease in leases:
            work = self._works.pop(lease, NO_WORK)
            self.held.pop(lease, None)
            self._agent.head_link.send(
                packed(head_messages.LeaseUnserved(lease=lease, grant=work.grant, error=pickle.dumps(error)))
            )

    def _assign(self, step: Assign) -> None:
        worker = self.pool.workers[step.worker]
        worker.work, worker.leased_at = self._works.pop(step.lease, NO_WORK), self._agent.reactor.clock()
        self._agent.store.quotas.limit_worker(worker)
        self._agent.head_link.send((head_messages.WORKER_FOUND, step.lease, worker.work.grant, step.worker))

    def find(self, lease: LeaseId, job: JobId, environment: str, work: tuple[Any, ...], held: bytes) -> None:
        """A lease was granted here, for `work`: find it a worker."""
        self._works[lease] = LeasedWork(*work)
        if held:
            self.held[lease] = held
        self.carry_out(self.pool.want(lease, (job, environment), self._works[lease].devices))

    def drop(self, lease: LeaseId, broken: bool, holder_lives: bool) -> None:
        """A lease is over: use its worker again, or (broken) end it."""
        self._works.pop(lease, None)
        self.held.pop(lease, None)
        self.pool.unwant(lease)
        worker = self.pool.of_lease(lease)
        if worker is None:
            return
        if not broken:
            self.carry_out(self.pool.released(worker.id, self._agent.reactor.clock()))
        elif worker.state != ENDING:
            # Often it is dead already and its holder was the first to notice: the exit status will say how.
            self.end(worker.id, "" if holder_lives else "its caller ended", drain=holder_lives)

    def construct(self, id: ProcessId, class_name: str, restarts: int, message: Message) -> None:
        """Make a leased worker an actor."""
        worker = self.pool.workers.get(id)
        if worker is None or worker.peer is None or worker.state == ENDING or worker.actor:
            return  # the head hears of its end, or is told twice
        self.pool.becomes_actor(id)
        worker.actor, worker.restarts = class_name, restarts
        self._agent.processes.send(id, message)

    def end(self, id: ProcessId, reason: str, drain: bool, kindly: bool = True) -> None:
        """Tell a worker to end; kill it if it does not (unless it may finish its calls first)."""
        worker = self.pool.ends(id, reason)
        if worker is None:
            return
        if worker.peer is not None and not worker.peer.closed:
            worker.peer.send(packed(op.EndProcess(reason=reason, drain=drain, kindly=kindly)))
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

        self._agent.processes.ask(worker.peer, "retire", answered)

    def _make_sure(self, id: ProcessId) -> None:
        worker = self.pool.workers.get(id)
        if worker is not None and worker.pid:
            kill(worker.pid)

    def kill(self, id: ProcessId, reason: str) -> None:
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
        """The template could not fork, or was not even asked to: try again soon."""
        self._agent.log.error("a worker could not be started", reason=reason)
        worker = self.pool.workers.get(ProcessId(id))
        if worker is not None:
            worker.cause = worker.cause or reason
        self._agent.reactor.call_later(0.5, lambda: self._gone(ProcessId(id), reason))

    def on_exited(self, pid: int, status: int) -> None:
        """A worker exited."""
        worker = next((w for w in self.pool.workers.values() if w.pid == pid), None)
        if worker is None:
            return
        self._exit_statuses[pid] = status
        if worker.peer is None:
            self._agent.directory.look(lambda missing: self._gone(worker.id, missing or self._cause(worker, status)))

    def on_template_lost(self) -> None:
        """The template died: its workers go on as our children, and another template takes its place."""
        template = self.template
        if self._agent.ending is not None or template is None:
            return
        starting = [worker for worker in self.pool.workers.values() if worker.peer is None]
        unborn = [worker for worker in starting if not worker.pid]
        if template.failures < FAILED_STARTS:
            self._agent.log.warning("the template process died; starting another")
            with suppress(OSError):
                template.start()  # else the next worker that is asked for tries again, and says why not
            for worker in unborn:
                self._gone(worker.id, "the template process died before it was forked")
        else:
            self._give_up_forking(unborn, template)
        for worker in starting:
            if worker.pid:
                self._await_start(worker)

    def _give_up_forking(self, unborn: Sequence[WorkerRecord], template: TemplateLink) -> None:
        directory = self._agent.config.directory
        text = (
            f"no worker can be started: {template.failures} templates (from which workers are forked) in a row ended "
            f"before they had forked one, the last like this: {describe_code(template.status)}; "
            f"look for the cause at the end of {directory}/logs/agent.err"
        )

        def give_up(end: str | Exception) -> None:
            self._agent.log.error(f"{text}{end}")
            for worker in unborn:
                self._fail_leases(self.pool.could_not_start(worker.id), WorkerDiedError(f"{text}{end}"))

        self._agent.tidying.do(lambda: agent_crash_output(directory), give_up)

    def _await_start(self, worker: WorkerRecord) -> None:
        """Look after a worker until it has joined: with its template gone, nobody else tells when it dies."""
        if worker.peer is not None or self.pool.workers.get(worker.id) is not worker:
            return
        if is_alive(worker.pid):
            self._agent.reactor.call_later(_START_LOOK_SECONDS, lambda: self._await_start(worker))
        else:
            self.reap()
            self._gone(worker.id, worker.cause or "it died before it had joined, and so did the template")

    def reap(self) -> None:
        """Note the ends of workers whose template is gone, and clear away what such workers had started."""
        for pid, status in reap_adopted({worker.pid for worker in self.pool.workers.values()}):
            self.on_exited(pid, status)

    def left(self, peer: Peer) -> None:
        """A worker's connection closed: find out how it died, then tell everybody."""
        worker = self.pool.workers.get(peer.id)
        if worker is None:
            return
        worker.pid = worker.pid or peer.pid
        self.pool.ends(worker.id, "")  # nobody else is to get it
        self._await_status(worker, self._agent.reactor.clock() + 1.0)

    def _await_status(self, worker: WorkerRecord, deadline: float) -> None:
        if self.pool.workers.get(worker.id) is not worker:
            return
        status = self._exit_statuses.pop(worker.pid, None)
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
        if os.waitstatus_to_exitcode(status) == -signal.SIGKILL and (text := self._agent.memory.note_kill(worker)):
            return text
        text = f"{describe_status(status)} (pid {worker.pid}, node {self._agent.node.hex()[:8]})"
        tail = crash_output(self._agent.logs.tail(worker.id))
        if tail and status:
            text += "; the last it wrote to stderr:\n  " + "\n  ".join(tail)
        return text

    def _killed_at(self, id: ProcessId) -> float | None:
        """Return the time now if a worker is known to have been killed."""
        worker = self.pool.workers.get(id)
        status = self._exit_statuses.get(worker.pid) if worker is not None else None
        killed = status is not None and os.waitstatus_to_exitcode(status) == -signal.SIGKILL
        return self._agent.reactor.clock() if killed else None

    def _gone(self, id: ProcessId, cause: str) -> None:
        worker, instructions = self.pool.died(id, self._killed_at(id))
        if worker is None:
            return
        worker.cause = cause
        self._exit_statuses.pop(worker.pid, None)
        if worker.pid:
            end_orphans({worker.pid}, {w.pid for w in self.pool.workers.values()})
        if worker.lease is not None:
            self.held.pop(worker.lease, None)
        self._agent.head_link.send(
            packed(head_messages.WorkerDied(worker=id, pid=worker.pid, cause=cause, fault=worker.fault))
        )
        socket = os.path.join(self._agent.config.directory, "sockets", id.hex())
        self._agent.tidying.do(lambda: _remove_files(socket, socket + socket_receiver.SUFFIX))
        self.carry_out(instructions)


def _remove_files(*paths: str) -> None:
    for path in paths:
        with suppress(OSError):
            os.unlink(path)

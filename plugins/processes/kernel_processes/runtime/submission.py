"""Send tasks to leased workers: the shell around `leasing`. Runs under the process's lock."""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from typing import Any

from kernel.runtime.definitions import FunctionDefinition, Shape, group_of
from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message, number_of, packed, unpacked
from kernel_engine.tasks.task import Task, cancelled_error
from kernel_engine.tasks.tasks import TaskTable
from kernel_processes.runtime.lease_pools import LeasePools
from kernel_processes.runtime.leasing import WINDOW_SECONDS, LeasePool, WorkerLease
from kernel_processes.runtime.locality import bytes_near
from kernel_processes.runtime.memory_retries import MemoryRetries
from kernel_processes.runtime.process import Peer, Process
from kernel_processes.runtime.task_recovery import LostTasks, TaskRecovery
from kernel_processes.transport.addresses import gateway_of
from kernel_processes.transport.connection import Connection
from kernel_spec.errors import KernelError
from kernel_spec.ids import LeaseId, ProcessId

_HOUSEKEEPING_SECONDS = 0.05


class TaskSubmitter:
    """Queues tasks by shape, asks for leases, and sends tasks to the leased workers."""

    def __init__(self, process: Process, table: TaskTable) -> None:
        self._process = process
        self._table = table
        self._arguments = table.arguments
        self._pools = LeasePools(lambda: process.identity.gateway)
        self._leases: dict[LeaseId, WorkerLease] = {}
        self._by_worker: dict[ProcessId, WorkerLease] = {}
        self._pool_of_request: dict[LeaseId, LeasePool] = {}
        self._estimates: dict[bytes, float] = {}
        self._known: dict[tuple[ProcessId, bytes], bool] = {}
        self._touched: set[LeasePool] = set()
        self._memory_retries = MemoryRetries(process, table, self._run_again)
        self._recovery = TaskRecovery(
            table, self._memory_retries, self.retry, lambda function: self._estimates.pop(function, None)
        )
        self._least_estimates: dict[bytes, float] = {}
        self._to_kill: set[Task] = set()
        self._reclaimed_early: set[LeaseId] = set()
        self._timer = False
        process.handlers |= {
            op.LEASE_GRANTED: self._on_granted,
            number_of(op.LeaseFailed): self._on_lease_failed,
            op.RECLAIM_LEASE: self._on_reclaim,
            op.RETURNED: self._on_returned,
            op.TOOK: self._on_took,
            number_of(op.WornOut): self._on_worn_out,
        }
        process.methods["leases_not_held"] = self._not_held
        process.on_peer_lost.append(self._on_peer_lost)
        process.after_batch(self._touched, self.dispatch)

    # -- in --------------------------------------------------------------------------------------------------------

    def accept(self, task: Task) -> None:
        """Take a new task: run it as soon as its arguments are there and a worker is free."""
        self._table.register(task)
        if self._arguments.resolve(task, self._arguments_ready):
            self._arguments_ready(task, dispatch=True)

    def retry(self, task: Task) -> None:
        """Queue a task that must run again."""
        if self._arguments.resolve(task, self._arguments_ready):
            self._arguments_ready(task)

    def _run_again(self, task: Task) -> None:
        self.retry(task)
        self.dispatch()

    def _arguments_ready(self, task: Task, dispatch: bool = False) -> None:
        if task.cancelled:
            return
        failure = self._arguments.failure(task) if task.slots is not None else None
        if failure is not None:
            self._table.fail_in_turn(task, failure)
            return
        definition: FunctionDefinition = task.definition  # type: ignore[assignment]
        pool = self._pools.plain.get((definition.shape.key, task.retries != 0)) if task.holds is None else None
        if pool is None:
            pool = self._pools.of(task)
        if dispatch and not pool.queue:
            lease = pool.pick() or self._pools.lend(pool)
            if lease is not None:
                self._start(pool, lease, task)
                return
        pool.push(task, self._estimates.get(definition.id, WINDOW_SECONDS))
        if dispatch and len(pool.requested) < 16:
            self._ask(pool)
        elif not dispatch:
            self._touched.add(pool)

    # -- out -------------------------------------------------------------------------------------------------------

    def dispatch(self) -> None:
        """Send the tasks that can be sent, on pools that have changed."""
        while self._touched:
            pool = self._touched.pop()
            while pool.queue:
                lease = pool.pick() or self._pools.lend(pool)
                if lease is None:
                    break
                task = pool.pop()
                if task is None:
                    break
                if task.slots is not None and self._arguments.is_lacking(task):
                    self.retry(task)
                else:
                    self._start(pool, lease, task)
            self._ask(pool)
            for lease in [lease for lease in pool.leases if lease.reclaimed and not lease.in_flight]:
                self._give_back(lease, broken=lease.worn_out)

    def _start(self, pool: LeasePool, lease: WorkerLease, task: Task) -> None:
        definition: FunctionDefinition = task.definition  # type: ignore[assignment]
        connection = lease.connection
        key = (lease.worker, definition.id)
        if key not in self._known:
            self._known[key] = True
            self._process.send(connection, (op.FUNCTION, definition.id, definition.blob, {"name": definition.name}))
            if definition.max_calls:  # The worker will run no more than these.
                self._least_estimates[definition.id] = WINDOW_SECONDS / definition.max_calls
        pool.start(lease, task, self._estimates.get(definition.id, WINDOW_SECONDS))
        if len(lease.in_flight) == 1:
            lease.progress_at = self._process.reactor.clock()
        table = self._table
        table.running[task.id] = task
        slots = self._arguments.message(task) if task.slots is not None else ()
        extra: Any = None
        if task.attempt or definition.backpressure or definition.max_calls or task.retries == 0:
            extra = _extra_of(task, definition)
        self._process.send(
            connection, (op.TASK, task.id, definition.id, task.arguments, slots, definition.returns, extra)
        )

    def _ask(self, pool: LeasePool) -> None:
        missing = pool.missing_requests()
        if missing and pool.home:  # Free leases there that would be given back soon anyway.
            for lease in self._pools.idle_at(pool.home):
                self._give_back(lease, broken=lease.worn_out)
        for _ in range(missing):
            id = LeaseId(os.urandom(8))
            pool.requested[id] = self._process.reactor.clock()
            self._pool_of_request[id] = pool
            first = pool.queue[0]
            near = bytes_near(first) if pool.home else None
            shape = describe_shape(pool.shape, pool.repeatable)
            self._process.tell_agent((op.REQUEST_LEASE, id, shape, first.definition.name, near))
        if (pool.leases or pool.requested) and not self._timer:
            self._timer = True
            self._process.reactor.call_later(_HOUSEKEEPING_SECONDS, self._housekeeping)

    def _give_back(self, lease: WorkerLease, broken: bool = False) -> None:
        lease.pool.leases.remove(lease)
        self._leases.pop(lease.id, None)
        self._by_worker.pop(lease.worker, None)
        self._process.tell_agent((op.RETURN_LEASE, lease.id, broken, lease.worker))

    def _housekeeping(self) -> None:
        with self._process.lock:
            self._timer = False
            if self._process.closing:
                return
            now = self._process.reactor.clock()
            again = False
            for pool in self._pools:
                for lease in pool.to_return(now):
                    self._give_back(lease, broken=lease.worn_out)
                for lease in pool.to_rebalance(now):
                    self._process.send(lease.connection, (op.GIVE_BACK, len(lease.in_flight) // 2))
                if pool.drop_cancelled() or (not pool.queue and pool.requested):
                    self._withdraw(pool, len(pool.queue))
                first = pool.queue[0].definition if pool.queue else None
                report = pool.backlog_report(now, first is not None and first.id in self._estimates)
                if report is not None:
                    self._process.tell_agent(
                        packed(op.Backlog(lease=report.lease, tasks=report.tasks, seconds=report.seconds))
                    )
                again = again or bool(pool.leases or pool.requested)
            self._pools.tidy()
            for task in list(self._to_kill):
                self._kill_when_running(task)
            if again:
                self._timer = True
                self._process.reactor.call_later(_HOUSEKEEPING_SECONDS, self._housekeeping)
        self._process.flush()

    def _withdraw(self, pool: LeasePool, needed: int = 0) -> None:
        """Withdraw the requests of a pool but for as many as are needed."""
        for id in list(pool.requested)[needed:]:
            self._process.tell_agent((op.CANCEL_LEASE, id))
            del pool.requested[id]
            self._pool_of_request.pop(id, None)
            self._reclaimed_early.discard(id)

    # -- the agent's answers ---------------------------------------------------------------------------------------

    def _on_granted(self, connection: Connection, message: Message) -> None:
        _, id, worker, address, resources, devices = message
        if id in self._leases:
            return  # A restarted head may send a grant again.
        pool = self._pool_of_request.pop(id, None)
        if pool is None:  # withdrawn meanwhile
            self._process.tell_agent((op.RETURN_LEASE, id, False, worker))
            return
        pool.requested.pop(id, None)
        self._recovery.worker_is_new(worker)
        try:
            peer = self._process.peer(worker, address)
        except OSError:
            self._process.tell_agent((op.RETURN_LEASE, id, True, worker))
            self._touched.add(pool)
            return
        now = self._process.reactor.clock()
        place = gateway_of(address) or self._process.identity.gateway
        lease = WorkerLease(id, pool, worker, peer, idle_since=now, progress_at=now, place=place)
        if id in self._reclaimed_early:
            self._reclaimed_early.discard(id)
            lease.reclaimed = True
        pool.leases.append(lease)
        self._leases[id] = lease
        self._by_worker[worker] = lease
        self._process.send(peer, (op.ACTIVATE, id, resources, devices, group_of(pool.shape.strategy)))
        self._touched.add(pool)

    def _not_held(self, ids: Sequence[LeaseId]) -> list[LeaseId]:
        """Return which of these leases this process neither has nor waits for."""
        return [id for id in ids if id not in self._leases and id not in self._pool_of_request]

    def _on_lease_failed(self, connection: Connection, message: Message) -> None:
        said = unpacked(op.LeaseFailed, message)
        self._reclaimed_early.discard(said.lease)
        pool = self._pool_of_request.pop(said.lease, None)
        if pool is None:
            return
        pool.requested.pop(said.lease, None)
        if pool.leases:
            return  # The present workers go on with the tasks.
        error: KernelError = pickle.loads(said.error)
        while (task := pool.pop()) is not None:
            self._table.fail_with(task, error)

    def _on_reclaim(self, connection: Connection, message: Message) -> None:
        lease = self._leases.get(message[1])
        if lease is None and message[1] in self._pool_of_request:
            self._reclaimed_early.add(message[1])  # The lease is granted, but its worker is still starting.
        if lease is not None:
            lease.reclaimed = True
            self._touched.add(lease.pool)
            if len(lease.in_flight) > 1:
                self._process.send(lease.connection, (op.GIVE_BACK, len(lease.in_flight) - 1))

    # -- the worker's answers --------------------------------------------------------------------------------------

    def finished(self, task: Task) -> None:
        """A task of a lease ended, one way or another."""
        lease: WorkerLease = task.place
        pool = lease.pool
        pool.finish(task, self._process.reactor.clock())
        if pool.queue or lease.reclaimed:
            self._touched.add(pool)

    def _on_returned(self, connection: Connection, message: Message) -> None:
        for id in reversed(message[1]):
            task = self._table.running.pop(id, None)
            if task is None or not isinstance(task.place, WorkerLease):
                continue
            pool = task.place.pool
            pool.returned(task, self._process.reactor.clock())
            self._touched.add(pool)
            if task.cancelled:
                self._table.fail_with(task, cancelled_error(task))

    def _on_worn_out(self, connection: Connection, message: Message) -> None:
        lease = self._by_worker.get(connection.info.id)
        if lease is not None:
            lease.reclaimed = lease.worn_out = True
            self._touched.add(lease.pool)

    def _on_took(self, connection: Connection, message: Message) -> None:
        _, function, seconds = message
        seconds = max(seconds, self._least_estimates.get(function, 0.0))
        before = self._estimates.get(function)
        self._estimates[function] = seconds if before is None else (before + seconds) / 2

    # -- death of workers ------------------------------------------------------------------------------------------

    def _on_peer_lost(self, peer: Peer, reason: str) -> None:
        lease = self._by_worker.pop(peer.id, None)
        for key in [key for key in self._known if key[0] == peer.id]:
            del self._known[key]
        if lease is None:
            return
        tasks = lease.pool.lost(lease)
        unsent = {message[1] for message in lease.connection.outbox if message[0] == op.TASK}
        self._leases.pop(lease.id, None)
        self._process.tell_agent((op.RETURN_LEASE, lease.id, True, lease.worker))
        self._touched.add(lease.pool)
        self._recovery.worker_lost(peer.id, LostTasks(tasks, unsent, lease.place))

    def worker_died(self, worker: ProcessId, cause: str, fault: int = op.DIED) -> None:
        """The agent says how a worker died; what it held can be run again or failed now."""
        self._recovery.worker_died(worker, cause, fault, worker in self._by_worker)
        self.dispatch()

    # -- cancelling and questions ----------------------------------------------------------------------------------

    def cancel(self, task: Task, force: bool, recursive: bool) -> None:
        """Cancel a task of this process."""
        if task.cancelled and not force:
            return
        task.cancelled = True
        lease: WorkerLease | None = task.place
        if lease is None:
            pool = self._pools.find(task)
            if pool is not None:
                pool.has_cancelled = True
            self._table.fail_with(task, cancelled_error(task))
        else:
            self._process.send(lease.connection, packed(op.CancelTask(task=task.id, recursive=recursive)))
            if force:
                self._to_kill.add(task)
                self._kill_when_running(task)

    def _kill_when_running(self, task: Task) -> None:
        """End the worker of a task that is cancelled by force, but not while it runs another one before it."""
        lease = task.place
        if not isinstance(lease, WorkerLease) or task.id not in lease.in_flight:
            self._to_kill.discard(task)
        elif next(iter(lease.in_flight)) == task.id:
            self._to_kill.discard(task)
            agent = self._process.agent
            if agent is not None:
                self._process.request(agent, "kill_worker", lease.worker, f"{task.name}() was cancelled")

    def explain(self, task: Task) -> str:
        """Say what a task is waiting for, as far as this process knows; ends with a lease id to ask the agent about."""
        waiting = [entry for _, entry in task.slots or () if entry.state == 0]
        if task.place is None and waiting:
            names = ", ".join(f"{e.task.name}() ({e.id.hex()[:12]})" if e.task else e.id.hex() for e in waiting[:3])
            return f"{task.name}() waits for {len(waiting)} of its arguments: {names}"
        if isinstance(task.place, WorkerLease):
            lease = task.place
            first = next(iter(lease.in_flight), None)
            where = f"worker {lease.worker.hex()[:8]}"
            if first == task.id:
                return f"{task.name}() is running on {where}"
            return f"{task.name}() was sent to {where} and is behind {len(lease.in_flight) - 1} other tasks there"
        return self._memory_retries.explain(task) or f"{task.name}() waits for a worker"

    def request_for(self, task: Task) -> LeaseId | None:
        """Return a lease request that would serve a waiting task."""
        pool = self._pools.find(task)
        return next(iter(pool.requested), None) if pool is not None else None

    def has_idle(self, resource: str, units: int) -> bool:
        """Return whether a leased worker of this node has nothing to do, and so much of a resource."""
        idle = self._pools.idle_at(self._process.identity.gateway)
        return any(lease.pool.shape.wanted.get(resource, 0) >= units for lease in idle)

    def close(self) -> None:
        """Give every lease back."""
        for lease in list(self._leases.values()):
            self._give_back(lease, broken=bool(lease.in_flight))
        for pool in self._pools:
            self._withdraw(pool)


def _extra_of(task: Task, definition: FunctionDefinition) -> dict[str, Any]:
    """Return the details of an unusual task for its worker.

    One that may not run twice is `alone`: results of others must not be lost with its worker, nor its own with
    theirs, so that it is always known whether it had begun.
    """
    return {
        "attempt": task.attempt,
        "backpressure": definition.backpressure,
        "max_calls": definition.max_calls,
        "alone": task.retries == 0,
    }


def describe_shape(shape: Shape, repeatable: bool) -> tuple[Any, ...]:
    """Return a shape as it is sent to the head."""
    return shape.wanted, pickle.dumps((shape.strategy, dict(shape.hints))), shape.environment, repeatable

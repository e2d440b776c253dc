"""Lend a worker's CPU to others while its call waits, and take it back before the call goes on.

The worker reports to the agent when a wait begins and ends. If other workers use the CPU meanwhile, the head sends a
message, and the call goes on when another message says that they are done. It never waits for that beyond the deadline
of its wait, nor for ever: those workers may be waiting for this call undetectably (through a file or a socket).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from kernel.runtime.object_entry import ObjectEntry
from kernel.runtime.waiter import Waiter
from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message
from kernel_engine.objects.ownership import Ownership
from kernel_processes.runtime.peer_requests import PeerRequest
from kernel_processes.runtime.process import Process
from kernel_processes.transport.connection import Connection
from kernel_processes.worker.executor import Executor
from kernel_spec.errors import KernelError

if TYPE_CHECKING:
    import asyncio

CPU_SECONDS = 30.0
"""Maximum time in seconds that a call waits for its CPU. Then it, and later waits of its lease, go on without one."""

_OWNER_SECONDS = 0.2
"""Seconds for an owner to report whether it has a value, before the CPU is lent anyway."""


class CpuLending:
    """Lends the CPU of the lease while all threads of a call wait. Any thread may call it.

    `is_actor()` says whether this process is an actor, whose CPU is its own again at once. `has_idle_cpu()` says
    whether this process holds, for tasks of its own, a worker that is idle and has as much CPU here.
    """

    def __init__(
        self,
        process: Process,
        ownership: Ownership,
        executor: Executor,
        is_actor: Callable[[], bool],
        has_idle_cpu: Callable[[], bool],
    ) -> None:
        self._process = process
        self._ownership = ownership
        self._executor = executor
        self._is_actor = is_actor
        self._has_idle_cpu = has_idle_cpu
        self._waiting = 0
        self._is_taken = False
        self._permission: Waiter | None = None
        self._patience = CPU_SECONDS
        self._awaits: dict[asyncio.AbstractEventLoop, _Awaits] = {}
        process.handlers |= {op.CPU_TAKEN: self._on_taken, op.GO_ON: self._on_go_on}

    def leased(self) -> None:
        """Another lease begins."""
        self._patience = CPU_SECONDS
        self._is_taken = False

    # -- threads that wait -----------------------------------------------------------------------------------------

    def before_block(self, waiter: Waiter | None = None, pending: list[ObjectEntry] | None = None) -> bool:
        """A thread is about to wait for `pending`; return whether that gave the lease's CPU back.

        A wait in a thread that a task has started counts, because the task may wait for the thread. A thread of an
        actor may wait all its life, and does not count. A value that its owner has ready is no reason to lend the CPU.
        """
        executor = self._executor
        if not executor.in_call() and (self._is_actor() or not executor.is_running):
            return False
        if waiter is not None and pending is not None and self._is_at_hand(waiter, pending):
            return False
        with self._process.lock:
            if self._permission is not None:
                return False  # Another thread of the call is taking the CPU back.
            self._waiting += 1
            if self._waiting == 1:
                if not self._is_actor():
                    executor.refuses_tasks = True
                    executor.give_back()
                self._process.tell_agent((op.BLOCKED,))
        return True

    def after_block(self, deadline: float | None = None) -> None:
        """A thread waits no longer: take the CPU back, waiting for it until `deadline` (monotonic seconds) at most."""
        with self._process.lock:
            self._waiting -= 1
            if self._waiting:
                return
            self._executor.refuses_tasks = self._executor.worn_out
            end = time.monotonic() + self._patience
            end = end if deadline is None else min(end, deadline)
            permission = Waiter(1) if self._must_ask() and end > time.monotonic() else None
            self._permission = permission
            self._process.tell_agent((op.UNBLOCKED, permission is not None))
        if permission is not None:
            self._await(permission, end, deadline)

    def _must_ask(self) -> bool:
        return self._is_taken and not self._is_actor() and not self._has_idle_cpu()

    def _await(self, permission: Waiter, end: float, deadline: float | None) -> None:
        done = False
        try:
            done = self._process.pump.wait(permission, end)
        finally:
            with self._process.lock:
                self._permission = None
                if not done:
                    self._process.tell_agent((op.UNBLOCKED, False))
        if not done and (deadline is None or end < deadline) and self._process.ended is None:
            self._patience = 0.0
            self._process.log.warning(
                "a task goes on though others use the CPU that it lent while it waited", waited_seconds=CPU_SECONDS
            )

    def _on_taken(self, connection: Connection, message: Message) -> None:
        self._is_taken = True

    def _on_go_on(self, connection: Connection, message: Message) -> None:
        self._is_taken = False
        if self._permission is not None:
            self._permission.complete()

    def _is_at_hand(self, waiter: Waiter, pending: list[ObjectEntry]) -> bool:
        """Return whether `waiter` has nothing left once the owners of `pending` have said what they have.

        They were asked already, and answer in order: after an echo there is no more to come at once.
        """
        owners = {}
        for entry in pending:
            details = entry.details
            if details is None or details.owner is None:
                return False  # A call of this process makes it.
            owners[details.owner] = details.address
        echoes: list[PeerRequest] = []
        try:
            with self._process.lock:
                for owner, address in owners.items():
                    echoes.append(self._process.request(self._process.peer(owner, address), "ping"))
            end = time.monotonic() + _OWNER_SECONDS
            for echo in echoes:
                if waiter.remaining > 0:
                    self._process.result(echo, max(0.0, end - time.monotonic()))
        except (KernelError, OSError):  # The owner is gone, or too busy.
            return waiter.remaining <= 0
        return waiter.remaining <= 0

    # -- event loops -----------------------------------------------------------------------------------------------

    def begin_await(self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[object]) -> None:
        """A task awaits `future` in a loop of its own: the CPU is lent while the loop has nothing else to do.

        In the loop's thread. The loop does nothing while the CPU is being taken back.
        """
        if self._is_actor() or not self._executor.in_call():
            return
        awaits = self._awaits.get(loop)
        if awaits is None:
            awaits = self._awaits[loop] = _Awaits(self, loop)
            self._executor.loose_ends.append(self._forget_loops)
        awaits.begin(future)

    def _forget_loops(self) -> None:
        """The call has ended: whatever its loops still awaited, nothing waits any more."""
        while self._awaits:
            self._awaits.popitem()[1].give_up()


class _Awaits:
    """Holds the awaited futures of one loop. Used in its thread."""

    def __init__(self, lending: CpuLending, loop: asyncio.AbstractEventLoop) -> None:
        self._lending = lending
        self._loop = loop
        self._open = 0
        self._lent = False

    def begin(self, future: asyncio.Future[object]) -> None:
        self._open += 1
        future.add_done_callback(self._end)
        self._loop.call_soon(self._lend)

    def _lend(self) -> None:
        if self._open and not self._lent:
            self._lent = self._lending.before_block()

    def _end(self, future: object) -> None:
        """Before what awaited the future goes on: that was added to it later."""
        self._open -= 1
        if self._lent:
            self._lent = False
            self._lending.after_block()
        if self._open:
            self._loop.call_soon(self._lend)

    def give_up(self) -> None:
        self._open = 0
        if self._lent:
            self._lent = False
            self._lending.after_block(0.0)

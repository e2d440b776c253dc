"""Locks and semaphores that any process can hold by their name."""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from typing import Any

import kernel
from kernel.exceptions import ActorUnavailableError, TaskError
from kernel_parallel.coordination.base import Named, check_timeout
from kernel_parallel.coordination.errors import CoordinationError, LeaseLostError
from kernel_parallel.coordination.leases import interval, renewer

DEFAULT_LEASE_SECONDS = 10.0
_RETRY_SECONDS = 0.05


class _Permit:
    """A permit that this process holds: its token, its fence, and when it is to be renewed."""

    __slots__ = ("answer", "due", "fence", "token")

    def __init__(self, token: str, fence: int, due: float) -> None:
        self.token = token
        self.fence = fence
        self.due = due
        self.answer: Any = None


class Semaphore(Named):
    """`value` permits, each held by one process at a time. Use it as `with Semaphore("gpu-license", 3): ...`

    Those who wait get permits in the order in which they came. A permit is a lease of `lease` seconds, renewed by a
    thread of the process that holds it: when that process dies, the permit is free `lease` seconds later at the
    latest. `async with` and the methods with `_async` do the same without blocking the event loop.
    """

    kind = "semaphore"

    def __init__(self, name: str, value: int = 1, *, lease: float = DEFAULT_LEASE_SECONDS) -> None:
        super().__init__(name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise CoordinationError(f"{self._key} needs at least one permit, not {value!r}")
        if not lease > 0:
            raise CoordinationError(f"the lease of {self._key} is a number of seconds above 0, not {lease!r}")
        self.value = value
        self.lease = lease
        self._held: list[_Permit] = []
        self._guard = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_held": [], "_guard": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._guard = threading.Lock()

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Wait for a permit; return whether there was one within `timeout` seconds (None or -1: no limit)."""
        limit = check_timeout(timeout) if blocking else 0.0
        token, deadline = uuid.uuid4().hex, _deadline(limit)
        while True:
            try:
                return self._keep(token, kernel.get(self._ask_for(token, deadline)))
            except BaseException as error:
                if not _is_away(error) or _over(deadline):
                    self._withdraw(token)
                    raise
            time.sleep(_RETRY_SECONDS)

    async def acquire_async(self, timeout: float | None = None) -> bool:
        """Do what `acquire` does in a coroutine."""
        token, deadline = uuid.uuid4().hex, _deadline(check_timeout(timeout))
        try:
            return self._keep(token, await self._ask_for(token, deadline))
        except BaseException:
            self._withdraw(token)
            raise

    def release(self) -> None:
        """Give the permit back. Raises LeaseLostError when it was given to another meanwhile, CoordinationError when
        this object holds none.
        """
        permit = self._pop()
        self._check_released(kernel.get(self._call("release", self._key, permit.token)))

    async def release_async(self) -> None:
        """Do what `release` does in a coroutine."""
        permit = self._pop()
        self._check_released(await self._call("release", self._key, permit.token))

    def held(self) -> bool:
        """Return whether this object holds a permit, as far as this process knows."""
        return bool(self._held)

    @property
    def fence(self) -> int:
        """A number that is higher than that of every holder before.

        Give it to a storage which refuses lower ones, and a holder that stood still for too long can do no harm.
        """
        return self._last().fence

    def owners(self) -> list[str]:
        """Return who holds permits: actor or task, process and machine of each."""
        found: list[str] = self._ask("owners", self._key)
        return found

    def __enter__(self) -> Any:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    async def __aenter__(self) -> Any:
        await self.acquire_async()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.release_async()

    def renew_due(self, now: float) -> float | None:
        """Renew the leases that are due; return when the next is, None when nothing is held."""
        with self._guard:
            for permit in list(self._held):
                if permit.answer is not None and _says_no(permit.answer):
                    self._held.remove(permit)
                elif permit.due <= now:
                    permit.due = now + interval(self.lease)
                    permit.answer = self._call("renew", self._key, permit.token)
            return min((permit.due for permit in self._held), default=None)

    def _ask_for(self, token: str, deadline: float | None) -> Any:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        return self._call("acquire", self._key, self.value, token, _who(), self.lease, left)

    def _keep(self, token: str, fence: int | None) -> bool:
        if fence is None:
            return False
        with self._guard:
            self._held.append(_Permit(token, fence, time.monotonic() + interval(self.lease)))
        renewer.add(self)
        return True

    def _withdraw(self, token: str) -> None:
        """Leave the line, after an interruption; nobody waits for the answer."""
        try:
            self._call("release", self._key, token)
        except Exception:  # the first error is the one to raise
            return

    def _last(self) -> _Permit:
        if not self._held:
            raise CoordinationError(
                f"this object holds no permit of {self._key}: acquire() it first, and release() it by the same object "
                f"in the same process (or its lease of {self.lease:g} s was lost)"
            )
        return self._held[-1]

    def _pop(self) -> _Permit:
        with self._guard:
            self._last()
            return self._held.pop()

    def _check_released(self, still_held: bool) -> None:
        if not still_held:
            raise LeaseLostError(
                f"{self._key} was not held any more when it was released: its lease of {self.lease:g} s ended without "
                "a renewal, so another may have held it meanwhile; check what was done under it, or give it a longer "
                "lease"
            )


class Lock(Semaphore):
    """A lock that one process holds at a time: `with Lock("table"): ...`, in any task, actor or program.

    It is not reentrant: a holder that acquires it again waits for itself. Everything else is as in Semaphore.
    """

    kind = "lock"

    def __init__(self, name: str, *, lease: float = DEFAULT_LEASE_SECONDS) -> None:
        super().__init__(name, 1, lease=lease)

    def locked(self) -> bool:
        """Return whether anybody holds it."""
        return bool(self.owners())

    def owner(self) -> str | None:
        """Return who holds it: actor or task, process and machine; None when nobody does."""
        owners = self.owners()
        return owners[0] if owners else None


def _who() -> str:
    context = kernel.get_runtime_context()
    actor, task = context.get_actor_id(), context.get_task_name()
    what = f"actor {actor[:12]}" if actor else f"task {task}" if task else "a program"
    return f"{what}, process {os.getpid()} on {socket.gethostname()}"


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout


def _over(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline


def _is_away(error: BaseException) -> bool:
    """Return whether the registry is being started again: asking once more, with the same token, can do no harm."""
    return isinstance(error, ActorUnavailableError) and not isinstance(error, TaskError)


def _says_no(answer: Any) -> bool:
    """Return whether the answer to a renewal is here and says that the lease is lost."""
    ready, _ = kernel.wait([answer], timeout=0)
    if not ready:
        return False
    try:
        return kernel.get(answer) is False
    except kernel.exceptions.KernelError:
        return False  # the registry is away: the next renewal tells

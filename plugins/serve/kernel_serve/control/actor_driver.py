"""Create, find, check and end actors by id, and report their events: what replicas and proxies have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import kernel
from kernel_serve.errors import said_by
from kernel_serve.logs import logger
from kernel_serve.values import NAMESPACE
from kernel_spec.errors import ActorDiedError, ActorNotFoundError, KernelError, NameTakenError

_log = logger()

AWAY_SECONDS = 1.0
"""Seconds between two attempts to call an actor that can't be reached but may be alive."""
CONCURRENCY = 100_000
"""The number of calls that each actor runs at once: so many that no call waits for another one."""

Told = Callable[..., None]


class ActorDriver:
    """Actors of one kind. Their events are reported as `told(event, id, ...)`. All methods are for the event loop.

    The kernel's API blocks while it asks the head, so it is called in `threads`.
    """

    kind = "actor"

    def __init__(self, actor_class: type, told: Told, threads: ThreadPoolExecutor) -> None:
        self.handles: dict[str, Any] = {}
        self._class = kernel.remote(actor_class)
        self._told = told
        self._threads = threads
        self._making: dict[str, asyncio.Future[Any]] = {}
        self._doomed: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def name_of(self, id: str) -> str:
        """Return the name of an actor. A restarted controller finds the actor by it."""
        return f"serve {self.kind} {id}"

    async def adopt(self, id: str) -> bool:
        """Take over an actor that an earlier process of the controller created; return whether it exists."""
        try:
            self.handles[id] = await self.in_thread(kernel.get_actor, self.name_of(id), NAMESPACE)
        except ActorNotFoundError:
            return False
        self.run(self._watch_end(id))
        return True

    async def make(self, id: str, resume: bool, options: dict[str, Any], *arguments: Any) -> Any:
        """Return the handle of a new actor, or of the existing one of the same name. `resume`: it may exist already."""

        def make() -> Any:
            try:
                if resume:
                    return kernel.get_actor(self.name_of(id), NAMESPACE)
            except ActorNotFoundError:
                pass  # The controller's earlier process ended before it created the actor.
            try:
                return self._class.options(**options).remote(*arguments)
            except NameTakenError:
                return kernel.get_actor(self.name_of(id), NAMESPACE)

        ours = {
            "name": self.name_of(id),
            "namespace": NAMESPACE,
            "lifetime": "detached",
            "max_restarts": 0,
            "max_concurrency": CONCURRENCY,
        }
        options = {**options, **ours}
        making = self._making[id] = asyncio.ensure_future(self.in_thread(make))
        try:
            handle = self.handles[id] = await making
        finally:
            del self._making[id]
        self.run(self._watch_end(id))
        return handle

    async def end(self, id: str) -> None:
        """End an actor at once, also while it is still being created."""
        self._doomed.add(id)
        try:
            if id in self._making:
                await asyncio.wait([self._making[id]])
            handle = self.handles.pop(id, None)
            if handle is None:
                handle = await self.in_thread(kernel.get_actor, self.name_of(id), NAMESPACE)
            await self.in_thread(kernel.kill, handle)
        except KernelError:
            pass  # The actor has ended already.
        finally:
            self._doomed.discard(id)

    def is_doomed(self, id: str) -> bool:
        """Return whether an actor is being ended here, so that its reports no longer count."""
        return id in self._doomed

    async def in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return what `function` returns. It runs in a thread, since it may block."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: function(*arguments))

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the background. Log its error, if it raises one."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    async def _watch_end(self, id: str) -> None:
        """Report it when the process of an actor has ended."""
        while id in self.handles:
            try:
                await self.handles[id].stand_by.remote()
            except ActorDiedError as error:
                if self.handles.pop(id, None) is not None:
                    self._told("ended", id, said_by(error))
            except KernelError as error:
                self._told("suspect", id, said_by(error))
                await asyncio.sleep(AWAY_SECONDS)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("the controller could not carry something out", exc_info=task.exception())

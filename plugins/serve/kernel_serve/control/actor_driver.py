"""Actors by id: finding them, ending them, hearing of their end. What replicas and proxies have in common."""

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
"""How long to wait before an actor that can't be reached, and may live, is asked again."""
CONCURRENCY = 100_000
"""Of the calls of an actor that wait, so that none of them keeps another from being heard."""

Told = Callable[..., None]


class ActorDriver:
    """Actors of one kind. `told(event, id, ...)` hears what happens to them. All methods are for the event loop.

    The kernel's verbs ask the head and wait, so they run in `threads`.
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
        """Return the name by which an actor is found, also by another life of the controller."""
        return f"serve {self.kind} {id}"

    async def adopt(self, id: str) -> bool:
        """Take on an actor that an earlier life of the controller made; return whether there is one."""
        try:
            self.handles[id] = await self.in_thread(kernel.get_actor, self.name_of(id), NAMESPACE)
        except ActorNotFoundError:
            return False
        self.run(self._watch_end(id))
        return True

    async def make(self, id: str, resume: bool, options: dict[str, Any], *arguments: Any) -> Any:
        """Return the handle of a new actor, or of the one that there is."""

        def make() -> Any:
            try:
                if resume:
                    return kernel.get_actor(self.name_of(id), NAMESPACE)
            except ActorNotFoundError:
                pass  # the earlier life of the controller did not come to that
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
        """End an actor at once, also one that is only being made."""
        self._doomed.add(id)
        try:
            if id in self._making:
                await asyncio.wait([self._making[id]])
            handle = self.handles.pop(id, None)
            if handle is None:
                handle = await self.in_thread(kernel.get_actor, self.name_of(id), NAMESPACE)
            await self.in_thread(kernel.kill, handle)
        except KernelError:
            pass  # it is gone already
        finally:
            self._doomed.discard(id)

    def is_doomed(self, id: str) -> bool:
        """Return whether an actor is being ended here, so that what it says no longer counts."""
        return id in self._doomed

    async def in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return what `function` returns, which may block."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: function(*arguments))

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside the rest; an error of it is logged."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    async def _watch_end(self, id: str) -> None:
        """Tell when the process of an actor has ended."""
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

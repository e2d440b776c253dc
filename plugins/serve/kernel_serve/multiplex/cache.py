"""The models of one instance: load them, lend them to requests, and unload them, as the table decides."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Hashable, Sequence
from contextvars import copy_context
from functools import partial
from itertools import count
from time import monotonic
from typing import Any

from kernel_serve.context import current_request
from kernel_serve.logs import logger
from kernel_serve.metrics.models import ModelMetrics
from kernel_serve.multiplex import loaded
from kernel_serve.multiplex.calls import let_go, load
from kernel_serve.multiplex.table import GrantModel, Instruction, LoadModel, ModelTable, Unload

_log = logger()


class ModelCache:
    """Up to `limit` models that `loader` makes (None: any number), on the running event loop."""

    def __init__(self, name: str, loader: Callable[[str], Any], limit: int | None) -> None:
        self.loop = asyncio.get_running_loop()
        self._name = name
        self._loader = loader
        self._table = ModelTable(limit)
        self._tickets = count()
        self._askers: dict[int, asyncio.Future[Any]] = {}
        self._models: dict[str, list[Any]] = {}  # each is the only item of a list, which can be emptied elsewhere
        self._users: set[Hashable] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._metrics = ModelMetrics(name)
        loaded.caches.add(self)
        weakref.finalize(self, loaded.forget, id(self))

    async def get(self, model_id: str) -> Any:
        """Return a model, which stays until the request, or else the task, that asks for it has ended.

        Raises what the loader raises.
        """
        self._metrics.gets.value += 1
        ticket = next(self._tickets)
        future = self._askers[ticket] = self.loop.create_future()
        self._do(self._table.ask(ticket, self._user(), model_id))
        try:
            return await future
        except asyncio.CancelledError:
            self._do(self._table.withdraw(ticket))
            raise
        finally:
            del self._askers[ticket]

    async def clear(self) -> None:
        """Unload all models that no request uses, and wait until they are gone."""
        self._do(self._table.clear())
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    def _user(self) -> Hashable:
        """Return the user of a model, and have the table notified when that user has ended."""
        request = current_request()
        if request.at_end is not None:
            if request not in self._users:
                self._users.add(request)
                request.at_end.append(partial(self._released, request))
            return request
        task = asyncio.current_task()
        assert task is not None, "a model is awaited, so there is a task"
        if task not in self._users:
            self._users.add(task)
            task.add_done_callback(self._released)
        return task

    def _released(self, user: Hashable) -> None:
        self._users.discard(user)
        if not self.loop.is_closed():
            self._do(self._table.released(user))

    def _do(self, instructions: Sequence[Instruction]) -> None:
        for each in instructions:
            if isinstance(each, GrantModel):
                asker = self._askers.get(each.ticket)
                if asker is not None and not asker.done():
                    asker.set_result(self._models[each.model_id][0])
            elif isinstance(each, LoadModel):
                self._begin(self._load(each.model_id))
            elif isinstance(each, Unload):
                self._begin(self._unload(each.model_id))
        loaded.note(id(self), self._table.ids())

    def _begin(self, work: Any) -> None:
        task = copy_context().run(self.loop.create_task, work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _load(self, model_id: str) -> None:
        begun = monotonic()
        try:
            self._models[model_id] = [await load(self._loader, model_id)]
        except BaseException as error:
            self._metrics.failures.value += 1
            tickets, instructions = self._table.failed(model_id)
            for ticket in tickets:
                if not (asker := self._askers[ticket]).done():
                    asker.set_exception(error)
            self._do(instructions)
        else:
            self._metrics.loads.value += 1
            self._metrics.times.observe((monotonic() - begun) * 1e3)
            self._do(self._table.loaded(model_id))

    async def _unload(self, model_id: str) -> None:
        try:
            await let_go(self._models.pop(model_id))
        except Exception:
            _log.exception("the unload() of a model raised", loader=self._name, model=model_id)
        finally:
            self._metrics.unloads.value += 1
            self._do(self._table.unloaded(model_id))

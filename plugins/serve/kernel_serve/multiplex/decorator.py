"""`@serve.multiplexed`: a loader of models that keeps those used last."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from typing import Any

from kernel_serve.context import get_multiplexed_model_id
from kernel_serve.errors import DeploymentError
from kernel_serve.methods import InstanceMethod, is_method
from kernel_serve.multiplex.cache import ModelCache

UNLIMITED = -1


def multiplexed(function: Callable[..., Any] | None = None, /, *, max_num_models_per_replica: int = 3) -> Any:
    """Make the decorated loader keep the models that were asked for last, and load each once for all requests.

    The loader takes the id of a model and returns the model: `async def`, or `def`, which runs in a thread. Await the
    decorated loader in both cases: with an id, or without one for the model that the request asks for
    (`serve.get_multiplexed_model_id()`). A replica has up to `max_num_models_per_replica` models (-1: any number). A
    further one replaces the one that was asked for longest ago, once the requests that use that have ended: its
    `unload()` is called, and its `__del__` runs, in a thread. Requests for a model go to a replica that has it, unless
    that is too busy.

    `await loader.clear()` unloads all models that are not in use. Raises DeploymentError for a bad limit, and for a
    function that can't be a loader.
    """
    limit = max_num_models_per_replica
    if not isinstance(limit, int) or isinstance(limit, bool) or (limit < 1 and limit != UNLIMITED):
        raise DeploymentError(
            f"max_num_models_per_replica is a whole number from 1 on, or -1 for any number, not {limit!r}"
        )

    def decorate(function: Callable[..., Any]) -> Any:
        if not inspect.isfunction(function):
            raise DeploymentError(
                f"@serve.multiplexed takes a function or a method, not {function!r}: "
                "put it closest to `def`, below other decorators"
            )
        method = is_method(function)
        count = len(inspect.signature(function).parameters) - method
        if count != 1 or inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise DeploymentError(
                f"{function.__qualname__} is a loader of models: it takes the id of one and returns it, "
                f"but it takes {count} arguments{'' if count != 1 else ' and yields'}"
            )
        return MultiplexedMethod(function, limit) if method else bound_to(function, function, limit)

    return decorate if function is None else decorate(function)


class MultiplexedMethod(InstanceMethod):
    """Wraps a loader that is a method; each instance has models of its own."""

    def __init__(self, function: Callable[..., Any], limit: int) -> None:
        super().__init__(function)
        self._limit = limit

    def made_for(self, handler: Callable[..., Any]) -> Any:
        return bound_to(self.function, handler, self._limit)

    def __reduce__(self) -> Any:
        return MultiplexedMethod, (self.function, self._limit)


class Caches:
    """Holds the caches of one loader of one instance, one for each event loop."""

    def __init__(self, name: str, loader: Callable[[str], Any], limit: int) -> None:
        self._made_of = (name, loader, limit)
        self._latest: ModelCache | None = None

    def here(self) -> ModelCache:
        """Return the cache of the running event loop."""
        if self._latest is None or self._latest.loop is not asyncio.get_running_loop():
            name, loader, limit = self._made_of
            self._latest = ModelCache(name, loader, None if limit == UNLIMITED else limit)
        return self._latest

    def __reduce__(self) -> Any:
        return Caches, self._made_of  # models stay where they are


def bound_to(function: Callable[..., Any], loader: Callable[[str], Any], limit: int) -> Any:
    """Return `function` as a loader that keeps models: `loader` is `function` itself or bound to an instance."""
    name = function.__qualname__
    caches = Caches(name, loader, limit)

    @functools.wraps(function)
    async def get(model_id: str = "") -> Any:
        wanted = model_id or get_multiplexed_model_id()
        if not isinstance(wanted, str) or not wanted:
            raise DeploymentError(
                f"{name} needs the id of a model, not {wanted!r}: give one, or let the request ask for one "
                "(header `serve_multiplexed_model_id`, or `handle.options(multiplexed_model_id=...)`)"
            )
        return await caches.here().get(wanted)

    async def clear() -> None:
        await caches.here().clear()

    wrapper: Any = get
    wrapper.clear = clear
    return wrapper

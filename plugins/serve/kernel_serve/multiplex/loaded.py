"""The models that this process has loaded, and listeners for changes: a replica reports them to its routers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Protocol
from weakref import WeakSet

Listener = Callable[[tuple[str, ...]], None]

_listeners: list[Listener] = []
_by_cache: dict[Hashable, tuple[str, ...]] = {}


class Cache(Protocol):
    """Is a cache with the models of one event loop."""

    loop: asyncio.AbstractEventLoop

    def clear(self) -> Awaitable[None]:
        """Unload all models that no request uses, and wait until they are gone."""


caches: WeakSet[Cache] = WeakSet()
"""All caches of the process."""


async def clear() -> None:
    """Unload all models of the running event loop that no request uses, and wait until they are gone."""
    here = [cache for cache in caches if cache.loop is asyncio.get_running_loop()]
    await asyncio.gather(*(cache.clear() for cache in here))


def models() -> tuple[str, ...]:
    """Return the ids of all loaded models, each once."""
    return tuple(dict.fromkeys(model_id for ids in _by_cache.values() for model_id in ids))


def listen(listener: Listener) -> Callable[[], None]:
    """Call `listener` with the ids of all loaded models after each change, in the thread of the change.

    Returns a function that ends that.
    """
    _listeners.append(listener)
    return lambda: _listeners.remove(listener)


def note(cache: Hashable, ids: tuple[str, ...]) -> None:
    """Set the models of `cache` to `ids`, and call the listeners if that is a change."""
    before = models()
    if ids:
        _by_cache[cache] = ids
    else:
        _by_cache.pop(cache, None)
    after = models()
    if set(after) != set(before):
        for listener in list(_listeners):
            listener(after)


def forget(cache: Hashable) -> None:
    """Forget a cache that has ended. Listeners are not called: its replica takes no more requests."""
    _by_cache.pop(cache, None)

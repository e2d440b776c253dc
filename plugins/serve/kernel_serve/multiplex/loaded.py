"""Which models this process has loaded, and who wants to know: a replica tells its routers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Protocol
from weakref import WeakSet

Listener = Callable[[tuple[str, ...]], None]

_listeners: list[Listener] = []
_by_cache: dict[Hashable, tuple[str, ...]] = {}


class Cache(Protocol):
    """What has models of one event loop."""

    loop: asyncio.AbstractEventLoop

    def clear(self) -> Awaitable[None]:
        """Let all models go that no request uses, and wait until they are gone."""


caches: WeakSet[Cache] = WeakSet()
"""All that there are."""


async def clear() -> None:
    """Let all models of the running event loop go that no request uses, and wait until they are gone."""
    here = [cache for cache in caches if cache.loop is asyncio.get_running_loop()]
    await asyncio.gather(*(cache.clear() for cache in here))


def models() -> tuple[str, ...]:
    """Return the ids of all loaded models, each once."""
    return tuple(dict.fromkeys(model_id for ids in _by_cache.values() for model_id in ids))


def listen(listener: Listener) -> Callable[[], None]:
    """Call `listener` with the ids of all loaded models after each change, in the thread of the change.

    Returns what ends that.
    """
    _listeners.append(listener)
    return lambda: _listeners.remove(listener)


def note(cache: Hashable, ids: tuple[str, ...]) -> None:
    """Note that the models of `cache` are `ids` now, and tell the listeners if that is new."""
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
    """Forget a cache that is gone. Nobody is told: what has it no more takes no requests."""
    _by_cache.pop(cache, None)

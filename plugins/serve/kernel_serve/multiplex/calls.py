"""Call the user's loader of a model, and unload a model."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any


async def load(loader: Callable[[str], Any], model_id: str) -> Any:
    """Return the model that `loader` makes; a plain function runs in a thread."""
    if inspect.iscoroutinefunction(loader):
        return await loader(model_id)
    model = await asyncio.to_thread(_without_stop, loader, model_id)
    return await model if inspect.isawaitable(model) else model


async def let_go(models: list[Any]) -> None:
    """Empty `models`, a list of one: call the model's `unload()` if it has one, then drop it, in a thread.

    The list is the only owner, so that the model's `__del__` runs in the thread too, and once. A `__del__` that is an
    `async def` is awaited, as Python would not do it. Raises what `unload` raises, after the model was dropped.
    """
    try:
        unload = getattr(models[0], "unload", None)
        if inspect.iscoroutinefunction(unload):
            await unload()
        elif callable(unload):
            result = await asyncio.to_thread(_without_stop, unload)
            if inspect.isawaitable(result):
                await result
        elif inspect.iscoroutinefunction(delete := getattr(models[0], "__del__", None)):
            await delete()
    finally:
        unload = delete = None
        await asyncio.to_thread(models.clear)


def _without_stop(function: Callable[..., Any], *args: Any) -> Any:
    """Call `function`. Raises RuntimeError in place of StopIteration, which a future can't carry."""
    try:
        return function(*args)
    except StopIteration as error:
        raise RuntimeError(f"{getattr(function, '__qualname__', function)} raised {error!r}") from error

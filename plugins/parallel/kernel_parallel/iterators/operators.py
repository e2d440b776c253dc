"""The operators of iterators, each a function from an iterable to an iterator.

`NextValueNotReady` passes through all of them. They are applied in the worker of a shard (by a parallel iterator) or in
the process that reads (by a local one): the same code.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import kernel
from kernel_parallel.iterators.metrics import CURRENT, SharedMetrics
from kernel_parallel.iterators.readiness import NextValueNotReady

FETCH_HOOK = "_on_fetch_start"
"""A function with a method of this name has it called whenever the next item begins to be fetched for it."""


def for_each(items: Iterable[Any], function: Callable[[Any], Any], metrics: SharedMetrics) -> Iterator[Any]:
    """Yield `function(item)` for each item; a result that is not ready yet is asked for again."""
    for item in items:
        if isinstance(item, NextValueNotReady):
            yield item
            continue
        while True:
            before, CURRENT.metrics = CURRENT.metrics, metrics.metrics  # as `entered`, without its price for each item
            try:
                result = function(item)
            finally:
                CURRENT.metrics = before
            yield result
            if not isinstance(result, NextValueNotReady):
                break


def for_each_at_once(
    items: Iterable[Any], function: Callable[[Any], Any], limit: int, options: Mapping[str, Any]
) -> Iterator[Any]:
    """Yield the results of tasks that run `function` on the items, as they finish; at most `limit` at once (0: all)."""
    task = kernel.remote(_apply).options(**options)
    shared = kernel.put(function)
    running: list[Any] = []
    for item in items:
        if isinstance(item, NextValueNotReady):
            yield item
            continue
        if limit and len(running) >= limit:
            done, running = kernel.wait(running)
            yield from kernel.get(done)
        running.append(task.remote(shared, item))
    while running:
        done, running = kernel.wait(running)
        yield from kernel.get(done)


def with_fetch_hook(items: Iterable[Any], hook: Callable[[], None], metrics: SharedMetrics) -> Iterator[Any]:
    """Call the hook before each item is asked for, once for an item however often it is not ready."""
    source, fresh = iter(items), True
    while True:
        if fresh:
            with metrics.entered():
                hook()
        try:
            item = next(source)
        except StopIteration:
            return
        fresh = not isinstance(item, NextValueNotReady)
        yield item


def filter_items(items: Iterable[Any], function: Callable[[Any], bool], metrics: SharedMetrics) -> Iterator[Any]:
    """Yield the items for which the function is true."""
    for item in items:
        if isinstance(item, NextValueNotReady):
            yield item
            continue
        before, CURRENT.metrics = CURRENT.metrics, metrics.metrics
        try:
            keep = function(item)
        finally:
            CURRENT.metrics = before
        if keep:
            yield item


def batch(items: Iterable[Any], size: int) -> Iterator[Any]:
    """Yield lists of `size` items, the last one with what is left."""
    gathered: list[Any] = []
    for item in items:
        if isinstance(item, NextValueNotReady):
            yield item
            continue
        gathered.append(item)
        if len(gathered) >= size:
            yield gathered
            gathered = []
    if gathered:
        yield gathered


def flatten(items: Iterable[Any]) -> Iterator[Any]:
    """Yield the items of the items."""
    for item in items:
        if isinstance(item, NextValueNotReady):
            yield item
        else:
            yield from item


def shuffle(items: Iterable[Any], buffer_size: int, seed: int | None) -> Iterator[Any]:
    """Yield the items in an order drawn from a buffer: what is drawn from it is replaced by the next item."""
    generator = random.Random(seed)
    buffer: list[Any] = []
    for item in items:
        if isinstance(item, NextValueNotReady):
            yield item
            continue
        buffer.append(item)
        if len(buffer) >= buffer_size:
            yield _draw(buffer, generator)
    while buffer:
        yield _draw(buffer, generator)


def transform(items: Iterable[Any], function: Callable[[Iterable[Any]], Iterable[Any]]) -> Iterator[Any]:
    """Yield what a function makes of all the items."""
    yield from function(items)


def _apply(function: Callable[[Any], Any], item: Any) -> Any:
    return function(item)


def _draw(buffer: list[Any], generator: random.Random) -> Any:
    index = generator.randrange(len(buffer))
    buffer[index], buffer[-1] = buffer[-1], buffer[index]
    return buffer.pop()

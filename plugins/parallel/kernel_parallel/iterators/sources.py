"""Where parallel iterators come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import kernel
from kernel.exceptions import OptionError
from kernel_parallel.iterators.checks import check_count
from kernel_parallel.iterators.parallel import ActorSet, ParallelIterator
from kernel_parallel.iterators.worker import ParallelIteratorWorker

T = TypeVar("T")
_PLAIN = (list, tuple, range, str, bytes)
"""Iterables that run no code of users and can be gone through again."""


def from_items(items: Sequence[T], num_shards: int = 2, repeat: bool = False) -> ParallelIterator[T]:
    """Return a parallel iterator over items, dealt in turn to `num_shards` worker actors.

    repeat: each shard goes through its items for ever.
    """
    check_count("num_shards", num_shards, 1)
    items = list(items)
    shards = [items[index::num_shards] for index in range(num_shards)]
    kind = type(items[0]).__name__ if items else "None"
    name = f"from_items[{kind}, {len(items)}, shards={num_shards}{_repeated(repeat)}]"
    return from_iterators(shards, repeat=repeat, name=name)


def from_range(n: int, num_shards: int = 2, repeat: bool = False) -> ParallelIterator[int]:
    """Return a parallel iterator over 0 to n - 1, in equal stretches; the last of the worker actors has the remainder.

    repeat: each shard goes through its stretch for ever.
    """
    check_count("n", n, 0)
    check_count("num_shards", num_shards, 1)
    size = n // num_shards
    ends = [*(size * number for number in range(1, num_shards)), n]
    shards = [range(size * number, end) for number, end in enumerate(ends)]
    return from_iterators(shards, repeat=repeat, name=f"from_range[{n}, shards={num_shards}{_repeated(repeat)}]")


def from_iterators(
    generators: Sequence[Iterable[T] | Callable[[], Iterable[T]]], repeat: bool = False, name: str | None = None
) -> ParallelIterator[T]:
    """Return a parallel iterator with a worker actor for each of these iterables.

    One that can't be sent to another process, such as a generator, is given as a function that returns it.
    repeat: go through it, or call it, for ever. name: what `repr` shows.
    """
    generators = list(generators)
    if not generators:
        raise OptionError("from_iterators() needs at least one iterable: each is a shard")
    worker = kernel.remote(ParallelIteratorWorker)
    actors = tuple(worker.remote(generator, repeat) for generator in generators)
    unseen = not repeat and all(type(generator) in _PLAIN for generator in generators)
    name = name or f"from_iterators[shards={len(generators)}{_repeated(repeat)}]"
    return ParallelIterator([ActorSet(actors, (), unseen)], name, [])


def from_actors(actors: Sequence[Any], name: str | None = None) -> ParallelIterator[Any]:
    """Return a parallel iterator over actors of yours, whose class inherits from ParallelIteratorWorker.

    name: what `repr` shows.
    """
    actors = tuple(actors)
    for index, actor in enumerate(actors):
        if not hasattr(actor, "par_iter_init"):
            raise OptionError(
                f"actors[{index}], {actor!r}, can't be a shard: its class must inherit from ParallelIteratorWorker"
            )
    if not actors:
        raise OptionError("from_actors() needs at least one actor: each is a shard")
    return ParallelIterator([ActorSet(actors)], name or f"from_actors[shards={len(actors)}]", [])


def _repeated(repeat: bool) -> str:
    return ", repeat=True" if repeat else ""

"""How the items of several shards come to one process: the base iterators of local iterators.

Fetch ordering: the next request goes to a shard only when its item has been used, that is when the reader asks for
another. Batchings other than ONE_BY_ONE let a shard run ahead, and are used where nobody can tell or somebody asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import kernel
from kernel_parallel.iterators.batches import Batching
from kernel_parallel.iterators.metrics import SharedMetrics
from kernel_parallel.iterators.readiness import NextValueNotReady
from kernel_parallel.iterators.reading import ShardReader, begin
from kernel_spec.dataclass import dataclass


@dataclass(frozen=True)
class Shard:
    """A shard of a parallel iterator: its actor, its name, the steps its worker applies, how it may be read."""

    actor: Any
    name: str
    steps: tuple[Any, ...]
    batching: Batching


def readers_of(shards: Sequence[Shard]) -> list[ShardReader]:
    """Begin the iteration of these shards and return a reader of each."""
    readers = [ShardReader(shard.actor, shard.name, shard.batching) for shard in shards]
    begin(readers, [shard.steps for shard in shards])
    return readers


def rounds(readers: Iterable[ShardReader], timeout: float | None) -> Iterator[Any]:
    """Yield lists of the readers that have an item, round by round; all shards are asked before any is waited for."""
    active = list(readers)
    while active:
        for reader in active:
            reader.ask_when_idle()
        for reader in active:
            while not reader.has_items and not reader.over:
                if reader.receive(timeout):
                    reader.ask_early()
                else:
                    yield NextValueNotReady(reader.refs)
        active = [reader for reader in active if not reader.over]
        if active:
            yield active


@dataclass(frozen=True)
class InRounds:
    """One item of every shard in turn, in the order of shards: `gather_sync`."""

    shards: tuple[Shard, ...]
    metrics: SharedMetrics

    def __call__(self, timeout: float | None = None) -> Iterator[Any]:
        for found in rounds(readers_of(self.shards), timeout):
            if isinstance(found, NextValueNotReady):
                yield found
                continue
            for reader in found:
                item = reader.take()
                self.metrics.get().current_actor = reader.actor
                yield item


@dataclass(frozen=True)
class AcrossShards:
    """Lists with one item of every shard that has one: `batch_across_shards`."""

    shards: tuple[Shard, ...]

    def __call__(self, timeout: float | None = None) -> Iterator[Any]:
        for found in rounds(readers_of(self.shards), timeout):
            yield found if isinstance(found, NextValueNotReady) else [reader.take() for reader in found]


@dataclass(frozen=True)
class AsReady:
    """Items of all shards as they are ready, with up to `depth` requests on their way to each: `gather_async`."""

    shards: tuple[Shard, ...]
    metrics: SharedMetrics
    depth: int

    def __call__(self, timeout: float | None = None) -> Iterator[Any]:
        readers = readers_of(self.shards)
        asked = {reader.ask(): reader for _ in range(self.depth) for reader in readers}
        while asked:
            ready, others = kernel.wait(list(asked), num_returns=1, timeout=timeout)
            if self.depth > 1 and ready and others:
                ready += kernel.wait(others, num_returns=len(others), timeout=0)[0]
            if not ready:
                yield NextValueNotReady(list(asked))
            for reader in [asked.pop(ref) for ref in ready]:
                reader.receive()
                if (early := reader.ask_early()) is not None:
                    asked[early] = reader
                for item in reader.take_all():
                    self.metrics.get().current_actor = reader.actor
                    yield item
                if (late := reader.ask_late()) is not None:
                    asked[late] = reader


@dataclass(frozen=True)
class OneShard:
    """The items of one shard, with up to `depth` requests on their way: `get_shard`."""

    shard: Shard
    metrics: SharedMetrics
    depth: int = 1

    def __call__(self, timeout: float | None = None) -> Iterator[Any]:
        reader = readers_of([self.shard])[0]
        for _ in range(self.depth):
            reader.ask()
        while not reader.over:
            if not reader.receive(timeout):
                yield NextValueNotReady(reader.refs)
                continue
            reader.ask_early()
            for item in reader.take_all():
                self.metrics.get().current_actor = reader.actor
                yield item
            reader.ask_late()


@dataclass(frozen=True)
class FetchedPart:
    """Every `step`-th item from `start` on of each shard, one of each shard in turn: a shard after `repartition`.

    It runs in the worker of the new shard. The iteration of the old shards has been begun by `repartition`.
    """

    shards: tuple[Shard, ...]
    step: int
    start: int

    def __call__(self) -> Iterator[Any]:
        readers = [ShardReader(shard.actor, shard.name, shard.batching, self._request(shard)) for shard in self.shards]
        for found in rounds(readers, None):
            for reader in found:
                yield reader.take()

    def _request(self, shard: Shard) -> Any:
        ask = shard.actor.par_iter_slice_batch.remote
        return lambda most, seconds: ask(self.step, self.start, most, seconds)

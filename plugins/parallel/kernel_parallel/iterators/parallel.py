"""Parallel iterators: shards, each the items of a worker actor, and the operators that its worker applies to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, NoReturn, TypeVar

import kernel
from kernel.exceptions import OptionError
from kernel_parallel.iterators.batches import UNSEEN, Batching, for_milliseconds, for_prefetch
from kernel_parallel.iterators.checks import check_count
from kernel_parallel.iterators.errors import IterationError
from kernel_parallel.iterators.fetching import AcrossShards, AsReady, FetchedPart, InRounds, OneShard, Shard
from kernel_parallel.iterators.local import LocalIterator
from kernel_parallel.iterators.metrics import SharedMetrics
from kernel_parallel.iterators.reading import ShardReader, begin
from kernel_parallel.iterators.worker import ParallelIteratorWorker
from kernel_spec.dataclass import dataclass

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True)
class OperatorStep:
    """An operator for shards: a method of the worker's local iterator, by its name, and its arguments."""

    method: str
    arguments: tuple[Any, ...] = ()

    def __call__(self, items: LocalIterator[Any]) -> LocalIterator[Any]:
        changed: LocalIterator[Any] = getattr(items, self.method)(*self.arguments)
        return changed


@dataclass(frozen=True)
class ActorSet:
    """Worker actors that apply the same steps.

    unseen: no code of users runs in them, nobody else has them, and they start from the beginning whenever an iterator
    over them is read anew: so nobody can tell when their items were fetched.
    """

    actors: tuple[Any, ...]
    steps: tuple[Any, ...] = ()
    unseen: bool = False


class ParallelIterator(Generic[T]):
    """An iterator over the items of worker actors, its shards; the operators run in them, in parallel.

    Nothing happens before items are read: through a local iterator (`gather_sync`, `gather_async`,
    `batch_across_shards`), or shard by shard (`shards`). It can be passed to tasks and actors; a shard is to be read by
    one process at a time.
    """

    def __init__(
        self, actor_sets: Sequence[ActorSet], name: str, parent_iterators: Sequence[ParallelIterator[Any]]
    ) -> None:
        """Make an iterator; usually `from_items` and its like do.

        parent_iterators: those whose shards these shards read, so that they live as long.
        """
        self.actor_sets = list(actor_sets)
        self.name = name
        self.parent_iterators = list(parent_iterators)

    def __iter__(self) -> NoReturn:
        raise IterationError(
            f"{self} has no order of its own to go through: read it.gather_sync() for items of all shards in turn, or "
            "it.gather_async() for items as they are ready"
        )

    def __repr__(self) -> str:
        return f"ParallelIterator[{self.name}]"

    # -- operators ---------------------------------------------------------------------------------------------------

    def for_each(
        self, fn: Callable[[T], U], max_concurrency: int = 1, resources: Mapping[str, Any] | None = None
    ) -> ParallelIterator[U]:
        """Apply `fn` to each item, in the worker of its shard. A callable object keeps its state, one copy per shard.

        max_concurrency: above 1, tasks with these `resources` (options of `kernel.remote`) apply it, so many at once
        for each shard, and results come in the order in which they are ready; 0 sets no limit.
        """
        check_count("max_concurrency", max_concurrency, 0)
        return self._then(OperatorStep("for_each", (fn, max_concurrency, resources)), ".for_each()", seen=True)

    foreach = for_each

    def filter(self, fn: Callable[[T], bool]) -> ParallelIterator[T]:
        """Keep the items for which `fn` is true."""
        return self._then(OperatorStep("filter", (fn,)), ".filter()", seen=True)

    def batch(self, n: int) -> ParallelIterator[list[T]]:
        """Gather items of a shard into lists of `n`; the last one has what is left."""
        check_count("n", n, 1)
        return self._then(OperatorStep("batch", (n,)), f".batch({n})")

    def flatten(self) -> ParallelIterator[Any]:
        """Yield the items of the items: the inverse of `batch`."""
        return self._then(OperatorStep("flatten"), ".flatten()")

    def combine(self, fn: Callable[[T], Iterable[U]]) -> ParallelIterator[U]:
        """Apply `fn`, which returns lists, and yield their items: `for_each(fn).flatten()`."""
        return self._then(OperatorStep("combine", (fn,)), ".combine()", seen=True)

    def transform(self, fn: Callable[[Iterable[T]], Iterable[U]]) -> ParallelIterator[U]:
        """Apply `fn` to all items of a shard at once: it is called once for each shard, with an iterable."""
        return self._then(OperatorStep("transform", (fn,)), ".transform()", seen=True)

    def local_shuffle(self, shuffle_buffer_size: int, seed: int | None = None) -> ParallelIterator[T]:
        """Draw the items of each shard at random from a buffer of this size; one as large as the shard is perfect.

        seed: the same one gives the same order again; None another one each time.
        """
        check_count("shuffle_buffer_size", shuffle_buffer_size, 1)
        suffix = f".local_shuffle(shuffle_buffer_size={shuffle_buffer_size}, seed={seed})"
        return self._then(OperatorStep("shuffle", (shuffle_buffer_size, seed)), suffix)

    def _then(self, step: OperatorStep, suffix: str, *, seen: bool = False) -> ParallelIterator[Any]:
        sets = [ActorSet(one.actors, (*one.steps, step), one.unseen and not seen) for one in self.actor_sets]
        return ParallelIterator(sets, self.name + suffix, self.parent_iterators)

    # -- shards ------------------------------------------------------------------------------------------------------

    def repartition(self, num_partitions: int, batch_ms: float = 0) -> ParallelIterator[T]:
        """Return an iterator over the same items in `num_partitions` shards, dealt to them in turn.

        New shard `i` has every `num_partitions`-th item from the `i`-th on of each old shard, one of each old shard in
        turn. Items that the others have not fetched yet wait in the old workers, so read all new shards at a similar
        pace. batch_ms: fetch from the old shards what they make in so many milliseconds, instead of item by item.
        """
        check_count("num_partitions", num_partitions, 1)
        old = self._shards(_batching(batch_ms, 0))
        begin([ShardReader(shard.actor, shard.name, shard.batching) for shard in old], [shard.steps for shard in old])
        worker = kernel.remote(ParallelIteratorWorker)
        actors = tuple(worker.remote(FetchedPart(old, num_partitions, index)) for index in range(num_partitions))
        name = f"{self.name}.repartition[num_partitions={num_partitions}]"
        return ParallelIterator([ActorSet(actors)], name, [self])

    def union(self, other: ParallelIterator[T]) -> ParallelIterator[T]:
        """Return an iterator over the shards of both."""
        if not isinstance(other, ParallelIterator):
            raise IterationError(f"a parallel iterator is joined with another one, not with a {type(other).__name__}")
        name = f"ParallelUnion[{self}, {other}]"
        parents = [*self.parent_iterators, *other.parent_iterators]
        return ParallelIterator([*self.actor_sets, *other.actor_sets], name, parents)

    def select_shards(self, shards_to_keep: Sequence[int]) -> ParallelIterator[T]:
        """Return an iterator over some of the shards, by their numbers. See to it that no other reads the same ones."""
        if len(self.actor_sets) > 1:
            raise IterationError("select_shards() works on one set of shards: select before union()")
        only = self.actor_sets[0]
        wanted = sorted(set(shards_to_keep))
        if not wanted or wanted[0] < 0 or wanted[-1] >= len(only.actors):
            raise OptionError(f"select_shards() takes numbers from 0 to {len(only.actors) - 1}, not {shards_to_keep!r}")
        kept = ActorSet(tuple(only.actors[index] for index in wanted), only.steps, only.unseen)
        return ParallelIterator([kept], f"{self}.select_shards({len(wanted)} total)", self.parent_iterators)

    def num_shards(self) -> int:
        """Return how many shards there are."""
        return sum(len(one.actors) for one in self.actor_sets)

    def shards(self) -> list[LocalIterator[T]]:
        """Return a local iterator for each shard."""
        return [self.get_shard(index) for index in range(self.num_shards())]

    def get_shard(
        self,
        shard_index: int,
        batch_ms: float = 0,
        async_queue_depth: int = 1,
        *,
        prefetch: int = 0,
        num_async: int | None = None,
    ) -> LocalIterator[T]:
        """Return a local iterator over one shard, which can be passed to tasks and actors.

        async_queue_depth (also spelled num_async): requests on their way at once. batch_ms, prefetch: see
        `gather_async` and `gather_sync`.
        """
        depth = async_queue_depth if num_async is None else num_async
        check_count("async_queue_depth", depth, 1)
        shards = self._shards(_batching(batch_ms, prefetch))
        if not 0 <= shard_index < len(shards):
            raise OptionError(f"{self} has the shards 0 to {len(shards) - 1}, and no shard {shard_index}")
        metrics = SharedMetrics()
        base = OneShard(shards[shard_index], metrics, depth)
        return LocalIterator(partial(_keeping, base, self), metrics, name=f"{self.name}.shard[{shard_index}]")

    # -- reading -----------------------------------------------------------------------------------------------------

    def gather_sync(self, *, prefetch: int = 0) -> LocalIterator[T]:
        """Return a local iterator that takes one item of each shard in turn: the same order every time.

        A round is fetched from all shards at once, when the one before has been used: what follows in the chain has
        seen an item before the next of its shard is fetched. prefetch: give that up for speed, and let each shard run
        ahead by about twice so many items.
        """
        metrics = SharedMetrics()
        base = InRounds(self._shards(_batching(0, prefetch)), metrics)
        return LocalIterator(partial(_keeping, base, self), metrics, name=f"{self}.gather_sync()")

    def batch_across_shards(self) -> LocalIterator[list[T]]:
        """Return a local iterator of lists: one item of every shard, fetched in parallel."""
        base = AcrossShards(self._shards(None))
        return LocalIterator(partial(_keeping, base, self), SharedMetrics(), name=f"{self}.batch_across_shards()")

    def gather_async(
        self,
        async_queue_depth: int = 1,
        *,
        batch_ms: float = 0,
        prefetch: int = 0,
        num_async: int | None = None,
    ) -> LocalIterator[T]:
        """Return a local iterator that takes items as they are ready, in no particular order.

        async_queue_depth (also spelled num_async): requests on their way to each shard; with 1, what follows in the
        chain has seen an item before the next of its shard is fetched, with n before the n-th after it. batch_ms: each
        request gathers what its shard makes in so many milliseconds. prefetch: as in `gather_sync`.
        """
        depth = async_queue_depth if num_async is None else num_async
        check_count("async_queue_depth", depth, 1)
        metrics = SharedMetrics()
        base = AsReady(self._shards(_batching(batch_ms, prefetch)), metrics, depth)
        return LocalIterator(partial(_keeping, base, self), metrics, name=f"{self}.gather_async()")

    def take(self, n: int) -> list[T]:
        """Return the first `n` items of `gather_sync()`, or as many as there are."""
        return self.gather_sync().take(n)

    def show(self, n: int = 20) -> None:
        """Print the first `n` items of `gather_sync()`."""
        self.gather_sync().show(n)

    def _shards(self, batching: Batching | None) -> tuple[Shard, ...]:
        """Return the shards in order; `batching` as somebody asked for it, None: as far ahead as nobody can tell."""
        rows = [(actor, one) for one in self.actor_sets for actor in one.actors]
        return tuple(
            Shard(actor, f"{self.name}.shard[{index}]", one.steps, batching or (UNSEEN if one.unseen else Batching()))
            for index, (actor, one) in enumerate(rows)
        )


def _batching(batch_ms: float, prefetch: int) -> Batching | None:
    check_count("prefetch", prefetch, 0)
    if batch_ms < 0:
        raise OptionError(f"batch_ms is a number of milliseconds from 0 on, not {batch_ms!r}")
    if batch_ms:
        return for_milliseconds(batch_ms)
    return for_prefetch(prefetch) if prefetch else None


def _keeping(base: Callable[[float | None], Iterable[Any]], owner: ParallelIterator[Any], timeout: float | None) -> Any:
    """Return what the base makes; `owner` is here so that the actors of its parents live as long as the iterator."""
    return base(timeout)

"""Local iterators: items are fetched from shards, or made here, and the operators run in the process that reads."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Generic, TypeVar

import kernel_parallel.iterators.operators as operators
from kernel.exceptions import SerializationError
from kernel_parallel.iterators.checks import check_count
from kernel_parallel.iterators.errors import IterationError
from kernel_parallel.iterators.joining import Copies, Union
from kernel_parallel.iterators.metrics import MetricsContext, SharedMetrics, current_metrics
from kernel_parallel.iterators.readiness import until_ready

T = TypeVar("T")
U = TypeVar("U")
Operator = Callable[[Iterable[Any]], Iterable[Any]]


class LocalIterator(Generic[T]):
    """An iterator whose operators run in the process that reads it. Use it as any Python iterator.

    It can be passed to tasks and actors until its first item is read, and is to be read by one process only.
    """

    def __init__(
        self,
        base_iterator: Callable[..., Iterable[T]],
        shared_metrics: SharedMetrics,
        local_transforms: Sequence[Operator] | None = None,
        timeout: float | None = None,
        name: str | None = None,
    ) -> None:
        """Make an iterator; usually a parallel iterator makes it, by `gather_sync()` and its like.

        base_iterator: called with `timeout` (or with nothing, if it takes nothing) to make the items, once the first
        is wanted. shared_metrics: what all iterators of a chain share. local_transforms: functions from iterable to
        iterable, applied in order. timeout: seconds after which `NextValueNotReady` stands in for an item that is not
        there yet; None waits for it. name: what `repr` shows.
        """
        self.base_iterator = base_iterator
        self.shared_metrics = shared_metrics
        self.local_transforms = list(local_transforms or ())
        self.timeout = timeout
        self.name = name or "unknown"
        self._built: Iterator[Any] | None = None

    @staticmethod
    def get_metrics() -> MetricsContext:
        """Return the metrics of the iterator whose function runs. Raises IterationError outside of one."""
        return current_metrics()

    def __iter__(self) -> Iterator[T]:
        return self._build()

    def __next__(self) -> T:
        item: T = next(self._build())
        return item

    def __repr__(self) -> str:
        return f"LocalIterator[{self.name}]"

    def __getstate__(self) -> dict[str, Any]:
        if self._built is not None:
            raise SerializationError(
                f"can't send {self}: this process has begun to read it, and only one may; send it before its first "
                "item is read, or send what you read"
            )
        return self.__dict__

    def _build(self) -> Iterator[Any]:
        if self._built is None:
            items: Iterable[Any] = _call_base(self.base_iterator, self.timeout)
            for operator in self.local_transforms:
                items = operator(items)
            self._built = until_ready(items) if self.timeout is None else iter(items)
        return self._built

    def with_timeout(self, timeout: float | None) -> LocalIterator[T]:
        """Return this iterator from its beginning, waiting `timeout` seconds for an item (see `__init__`)."""
        return LocalIterator(self.base_iterator, self.shared_metrics, self.local_transforms, timeout, self.name)

    def _then(self, operator: Operator, suffix: str) -> LocalIterator[Any]:
        operators_now = [*self.local_transforms, operator]
        return LocalIterator(self.base_iterator, self.shared_metrics, operators_now, name=self.name + suffix)

    # -- operators ---------------------------------------------------------------------------------------------------

    def for_each(
        self, fn: Callable[[T], U], max_concurrency: int = 1, resources: Mapping[str, Any] | None = None
    ) -> LocalIterator[U]:
        """Apply `fn` to each item, here and before the next is fetched.

        max_concurrency: above 1, tasks with these `resources` (options of `kernel.remote`) apply it, so many at once,
        and results come in the order in which they are ready; 0 sets no limit.
        """
        check_count("max_concurrency", max_concurrency, 0)
        if max_concurrency == 1:
            operator: Operator = partial(operators.for_each, function=fn, metrics=self.shared_metrics)
        else:
            options = dict(resources or {})
            operator = partial(operators.for_each_at_once, function=fn, limit=max_concurrency, options=options)
        hook = getattr(fn, operators.FETCH_HOOK, None)
        if hook is None:
            return self._then(operator, ".for_each()")
        hooked = partial(operators.with_fetch_hook, hook=hook, metrics=self.shared_metrics)
        return self._then(partial(_in_turn, [operator, hooked]), ".for_each()")

    foreach = for_each

    def filter(self, fn: Callable[[T], bool]) -> LocalIterator[T]:
        """Keep the items for which `fn` is true."""
        return self._then(partial(operators.filter_items, function=fn, metrics=self.shared_metrics), ".filter()")

    def batch(self, n: int) -> LocalIterator[list[T]]:
        """Gather items into lists of `n`; the last one has what is left."""
        check_count("n", n, 1)
        return self._then(partial(operators.batch, size=n), f".batch({n})")

    def flatten(self) -> LocalIterator[Any]:
        """Yield the items of the items: the inverse of `batch`."""
        return self._then(operators.flatten, ".flatten()")

    def combine(self, fn: Callable[[T], Iterable[U]]) -> LocalIterator[U]:
        """Apply `fn`, which returns lists, and yield their items: `for_each(fn).flatten()`."""
        return self._renamed(self.for_each(fn).flatten(), ".combine()")

    def shuffle(self, shuffle_buffer_size: int, seed: int | None = None) -> LocalIterator[T]:
        """Draw items at random from a buffer of this size; one that holds all items shuffles perfectly.

        seed: the same one gives the same order again; None another one each time.
        """
        check_count("shuffle_buffer_size", shuffle_buffer_size, 1)
        operator = partial(operators.shuffle, buffer_size=shuffle_buffer_size, seed=seed)
        return self._then(operator, f".shuffle(shuffle_buffer_size={shuffle_buffer_size}, seed={seed})")

    def transform(self, fn: Callable[[Iterable[T]], Iterable[U]]) -> LocalIterator[U]:
        """Apply `fn` to the whole iterator, once. It passes on every `NextValueNotReady` that it meets."""
        return self._then(partial(operators.transform, function=fn), ".transform()")

    def zip_with_source_actor(self) -> LocalIterator[tuple[Any, T]]:
        """Yield `(actor, item)`, where the handle is that of the shard's worker actor.

        Raises IterationError while it is read, where an item is not from one actor.
        """
        return self._renamed(self.for_each(_with_source), ".zip_with_source_actor()")

    def _renamed(self, changed: LocalIterator[Any], suffix: str) -> LocalIterator[Any]:
        changed.name = self.name + suffix
        return changed

    # -- several -----------------------------------------------------------------------------------------------------

    def duplicate(self, n: int) -> list[LocalIterator[T]]:
        """Return `n` iterators that each yield all the items, whichever is read first.

        What one has read and another has not is kept in memory. In a union, those that are behind come first.
        """
        check_count("n", n, 2)
        copies: Copies = Copies(self, n)
        return [
            LocalIterator(copies.reader(index), self.shared_metrics, name=f"{self.name}.duplicate[{index}]")
            for index in range(n)
        ]

    def union(
        self,
        *others: LocalIterator[T],
        deterministic: bool = False,
        round_robin_weights: Sequence[float | str] | None = None,
    ) -> LocalIterator[T]:
        """Return an iterator over the items of all of these, which then share their metrics.

        deterministic: take one of each in turn; otherwise what is ready. round_robin_weights: how many to take of each
        in a turn, as in `[2, 1]`; `"*"` takes what is ready without waiting.
        """
        members = [self, *others]
        for member in members:
            check_local(member)
        metrics = SharedMetrics(parents=[member.shared_metrics for member in members])
        base = Union(members, metrics, deterministic, round_robin_weights)
        return LocalIterator(base, metrics, name=f"LocalUnion[{', '.join(map(str, members))}]")

    # -- reading -----------------------------------------------------------------------------------------------------

    def take(self, n: int) -> list[T]:
        """Return the next `n` items, or as many as there are."""
        return list(islice(self, n))

    def show(self, n: int = 20) -> None:
        """Print the next `n` items."""
        for item in islice(self, n):
            print(item)


def check_local(value: object) -> None:
    """Raise IterationError unless this is a local iterator."""
    if not isinstance(value, LocalIterator):
        raise IterationError(
            f"a local iterator is joined with local iterators, not with a {type(value).__name__}; "
            "gather_sync() or gather_async() makes one of a parallel iterator"
        )


def _call_base(base: Callable[..., Iterable[Any]], timeout: float | None) -> Iterable[Any]:
    try:
        takes_nothing = not inspect.signature(base).parameters
    except (TypeError, ValueError):
        takes_nothing = False
    return base() if takes_nothing else base(timeout)


def _in_turn(steps: Sequence[Operator], items: Iterable[Any]) -> Iterable[Any]:
    for step in steps:
        items = step(items)
    return items


def _with_source(item: Any) -> tuple[Any, Any]:
    actor = current_metrics().current_actor
    if actor is None:
        raise IterationError(
            "the source actor of an item is not known here; use gather_sync(), gather_async() or get_shard(), "
            "and no operator in between that joins items of several shards"
        )
    return actor, item

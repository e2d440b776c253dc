"""Parallel iterators over real processes: what comes out of each source and operator, and how iterators are shown."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from kernel_parallel.iterators import (
    IterationError,
    LocalIterator,
    ParallelIteratorWorker,
    from_actors,
    from_items,
    from_iterators,
    from_range,
)

import kernel
from kernel.exceptions import OptionError


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    kernel.shutdown()
    with kernel.init(num_cpus=2):
        yield


class CumulativeSum:
    def __init__(self) -> None:
        self.total = 0

    def __call__(self, x: int) -> tuple[int, int]:
        self.total += x
        return self.total, x


# -- sources and their names -----------------------------------------------------------------------------------------


def test_from_items_deals_in_turn() -> None:
    it = from_items([1, 2, 3, 4, 5], num_shards=2)
    assert [list(shard) for shard in it.shards()] == [[1, 3, 5], [2, 4]]
    assert repr(from_items([1, 2, 3, 4])) == "ParallelIterator[from_items[int, 4, shards=2]]"
    assert repr(from_items([], 1, repeat=True)) == "ParallelIterator[from_items[None, 0, shards=1, repeat=True]]"
    assert list(from_items([], 2, repeat=True).gather_sync()) == []


def test_from_range_gives_the_remainder_to_the_last_shard() -> None:
    it = from_range(10, 3)
    assert [list(shard) for shard in it.shards()] == [[0, 1, 2], [3, 4, 5], [6, 7, 8, 9]]
    assert repr(it) == str(it) == "ParallelIterator[from_range[10, shards=3]]"
    assert repr(it.get_shard(0)) == "LocalIterator[from_range[10, shards=3].shard[0]]"
    assert it.num_shards() == 3 and len(it.shards()) == 3


def test_from_iterators_takes_iterables_and_functions_that_return_them() -> None:
    it = from_iterators([range(3), lambda: (c for c in "abc")])
    assert list(it.gather_sync()) == [0, "a", 1, "b", 2, "c"]
    assert repr(it) == "ParallelIterator[from_iterators[shards=2]]"
    assert repr(from_iterators([range(2)], name="mine")) == "ParallelIterator[mine]"


def test_from_actors_reads_subclasses_of_the_worker() -> None:
    @kernel.remote
    class Source(ParallelIteratorWorker):
        def __init__(self, start: int) -> None:
            super().__init__(self.make, False)
            self.step = 1
            self.value = start

        def make(self) -> Iterator[int]:
            while True:
                yield self.value
                self.value += self.step

        def set_step(self, step: int) -> None:
            self.step = step

    actors = [Source.remote(0), Source.remote(100)]
    it = from_actors(actors)
    assert repr(it) == "ParallelIterator[from_actors[shards=2]]"
    steps = []
    for item in it.gather_sync().for_each(lambda x: x):
        steps.append(item)
        if len(steps) == 4:
            kernel.get([actor.set_step.remote(10) for actor in actors])
        if len(steps) == 8:
            break
    assert steps == [0, 100, 1, 101, 11, 111, 21, 121]  # a change made between two items is seen by the very next


def test_an_infinite_stream_is_read_as_far_as_wanted() -> None:
    it = from_range(3, num_shards=1, repeat=True)
    assert repr(it) == "ParallelIterator[from_range[3, shards=1, repeat=True]]"
    assert it.for_each(lambda x: x * 10).gather_sync().take(7) == [0, 10, 20, 0, 10, 20, 0]
    endless = from_iterators([lambda: iter(range(2))], repeat=True)
    assert endless.take(5) == [0, 1, 0, 1, 0]


def test_an_iterator_can_not_be_repeated() -> None:
    class Once:
        def __init__(self) -> None:
            self.left = [3, 2, 1]

        def __iter__(self) -> Iterator[int]:
            return self

        def __next__(self) -> int:
            if not self.left:
                raise StopIteration
            return self.left.pop()

    assert list(from_iterators([Once()]).gather_sync()) == [1, 2, 3]
    with pytest.raises(IterationError, match="can be gone through only once"):
        from_iterators([Once()], repeat=True).take(1)


# -- operators -------------------------------------------------------------------------------------------------------


def test_names_of_operators_are_appended_in_order() -> None:
    it = from_range(4).for_each(str).batch(32).filter(len).flatten().combine(list).transform(iter)
    assert repr(it) == (
        "ParallelIterator[from_range[4, shards=2].for_each().batch(32).filter().flatten().combine().transform()]"
    )
    shuffled = from_range(4, 1).local_shuffle(2, seed=3)
    assert repr(shuffled) == "ParallelIterator[from_range[4, shards=1].local_shuffle(shuffle_buffer_size=2, seed=3)]"
    local = from_range(1000000, 1).gather_sync()
    assert repr(local) == "LocalIterator[ParallelIterator[from_range[1000000, shards=1]].gather_sync()]"
    local = local.for_each(str).filter(len).batch(2).flatten().shuffle(9).combine(list).zip_with_source_actor()
    assert repr(local).endswith(
        ".gather_sync().for_each().filter().batch(2).flatten().shuffle(shuffle_buffer_size=9, seed=None)"
        ".combine().zip_with_source_actor()]"
    )
    both = from_range(2, 1).union(from_range(3, 1))
    assert repr(both) == (
        "ParallelIterator[ParallelUnion[ParallelIterator[from_range[2, shards=1]], "
        "ParallelIterator[from_range[3, shards=1]]]]"
    )


@pytest.mark.parametrize("where", ["in the shards", "here"])
def test_operators_do_the_same_in_the_shards_and_here(where: str) -> None:
    def read(change: Any) -> list[Any]:
        it = from_range(7, 1)
        return list(change(it).gather_sync() if where == "in the shards" else change(it.gather_sync()))

    assert read(lambda it: it.for_each(lambda x: x * x)) == [0, 1, 4, 9, 16, 25, 36]
    assert read(lambda it: it.foreach(lambda x: -x).filter(lambda x: x % 2)) == [-1, -3, -5]
    assert read(lambda it: it.batch(3)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert read(lambda it: it.batch(3).flatten()) == list(range(7))
    assert read(lambda it: it.combine(lambda x: [x] * (x % 3))) == [1, 2, 2, 4, 5, 5]
    assert read(lambda it: it.transform(lambda items: islice(items, 1, 3))) == [1, 2]
    assert read(lambda it: it.for_each(CumulativeSum()))[:3] == [(0, 0), (1, 1), (3, 2)]
    assert sorted(read(lambda it: it.for_each(lambda x: x + 1, max_concurrency=2, resources={"num_cpus": 0.5}))) == [
        *range(1, 8)
    ]


def test_shuffles_keep_all_items_and_repeat_by_their_seed() -> None:
    def order(size: int, seed: int | None) -> list[int]:
        return list(from_range(100, 1).local_shuffle(size, seed).gather_sync())

    first = order(100, 7)
    assert sorted(first) == list(range(100)) and first != list(range(100))
    assert order(100, 7) == first and order(100, 8) != first
    assert order(1, 7) == list(range(100))
    assert all(item <= place + 9 for place, item in enumerate(order(10, 7)))  # nothing comes before it is in the buffer
    assert sorted(from_range(9, 1).gather_sync().shuffle(4, seed=1)) == list(range(9))
    halves = from_range(20, 2).local_shuffle(20, 5).shards()
    assert [sorted(half) for half in halves] == [list(range(10)), list(range(10, 20))]


def test_state_of_an_operator_is_kept_for_each_shard() -> None:
    sums = from_range(6, 2).for_each(CumulativeSum())
    assert list(sums.gather_sync()) == [(0, 0), (3, 3), (1, 1), (7, 4), (3, 2), (12, 5)]


def test_repartition_deals_the_items_of_each_shard_in_turn() -> None:
    it = from_range(8, 2).repartition(3)
    assert [list(shard) for shard in it.shards()] == [[0, 4, 3, 7], [1, 5], [2, 6]]
    assert repr(it) == "ParallelIterator[from_range[8, shards=2].repartition[num_partitions=3]]"
    squares = from_range(20, 3).for_each(lambda x: x * x).repartition(2, batch_ms=5).for_each(lambda x: x + 1)
    assert sorted(squares.gather_async()) == [x * x + 1 for x in range(20)]


def test_a_repartitioned_iterator_keeps_the_shards_it_reads() -> None:
    def made() -> LocalIterator[int]:
        return from_range(12, 2).repartition(3).union(from_range(2, 1)).gather_sync()

    assert sorted(made()) == sorted([*range(12), 0, 1])


def test_union_and_select_shards() -> None:
    both = from_range(4, 2).for_each(lambda x: -x).union(from_items(["a", "b"], 1))
    assert both.num_shards() == 3
    assert [list(shard) for shard in both.shards()] == [[0, -1], [-2, -3], ["a", "b"]]
    some = from_range(9, 3).select_shards([0, 2])
    assert repr(some) == "ParallelIterator[ParallelIterator[from_range[9, shards=3]].select_shards(2 total)]"
    assert list(some.gather_sync()) == [0, 6, 1, 7, 2, 8]
    with pytest.raises(IterationError, match="select before union"):
        both.select_shards([0])
    with pytest.raises(OptionError, match="from 0 to 2, not"):
        from_range(9, 3).select_shards([3])

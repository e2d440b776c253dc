"""Parallel iterators over real processes: reading them, in which order and when items are fetched, and what fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernel_parallel import iterators
from kernel_parallel.iterators import (
    IterationError,
    LocalIterator,
    NextValueNotReady,
    ParallelIterator,
    ParallelIteratorWorker,
    SharedMetrics,
    from_actors,
    from_items,
    from_iterators,
    from_range,
)

import kernel
from kernel.exceptions import SerializationError


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    kernel.shutdown()
    with kernel.init(num_cpus=2):
        yield


class Notebook:
    """Lines that processes have written, in order: what happened where, without a clock."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, line: object) -> None:
        with open(self.path, "a") as file:
            file.write(f"{line}\n")

    def lines(self) -> list[str]:
        return self.path.read_text().split() if self.path.exists() else []


@pytest.fixture
def notebook(tmp_path: Path) -> Notebook:
    return Notebook(tmp_path / "notes")


# -- reading ---------------------------------------------------------------------------------------------------------


def test_gather_sync_takes_turns_also_when_shards_end_early() -> None:
    it = from_iterators([range(3), range(10, 11), range(20, 22)])
    assert list(it.gather_sync()) == [0, 10, 20, 1, 21, 2]
    assert list(it.batch_across_shards()) == [[0, 10, 20], [1, 21], [2]]
    assert list(it.batch_across_shards().flatten()) == list(it.gather_sync())


@pytest.mark.parametrize("options", [{}, {"async_queue_depth": 4}, {"num_async": 3}, {"batch_ms": 1}, {"prefetch": 7}])
def test_gather_async_gives_every_item_once_and_shards_in_their_order(options: dict[str, Any]) -> None:
    items = list(from_range(400, 4).for_each(lambda x: x).gather_async(**options))
    assert sorted(items) == list(range(400))
    for shard in range(4):
        assert [item for item in items if item // 100 == shard] == [*range(100 * shard, 100 * shard + 100)]


def test_reading_anew_starts_a_range_at_its_beginning_and_goes_on_with_a_generator() -> None:
    it = from_range(1000, 1).gather_sync()
    assert it.take(5) == [0, 1, 2, 3, 4]
    assert it.filter(lambda x: x % 2 == 0).take(5) == [0, 2, 4, 6, 8]
    assert (next(it), it.take(2), it.take(0)) == (5, [6, 7], [])
    once = from_iterators([lambda: iter(range(10))])
    assert (once.take(3), once.take(3)) == ([0, 1, 2], [3, 4, 5])


def test_a_parallel_iterator_says_how_it_is_read() -> None:
    with pytest.raises(TypeError, match=r"read it.gather_sync\(\) for items of all shards in turn"):
        iter(from_range(2))


def test_show_prints_items(capsys: pytest.CaptureFixture[str]) -> None:
    from_range(100, 1).show(3)
    from_range(100, 1).gather_sync().for_each(str).show(1)
    assert capsys.readouterr().out == "0\n1\n2\n0\n"


def test_shards_and_iterators_travel_to_tasks_and_actors() -> None:
    @kernel.remote
    def total(items: Any) -> int:
        return sum(items)

    @kernel.remote
    class Trainer:
        def train(self, shard: LocalIterator[list[int]]) -> list[int]:
            return [sum(batch) for batch in shard.take(2)]

    it = from_range(10000, 3)
    assert kernel.get([total.remote(shard) for shard in it.shards()]) == [5552778, 16661667, 27780555]
    squares = from_range(4, 2).for_each(lambda x: x * x).gather_sync().for_each(lambda x: x + 1).filter(lambda x: x > 1)
    assert kernel.get(total.remote(squares)) == 2 + 5 + 10

    @kernel.remote
    def read(parallel: ParallelIterator[int]) -> list[int]:
        return list(parallel.gather_sync())

    assert kernel.get(read.remote(from_range(4, 2))) == [0, 2, 1, 3]
    batches = from_range(1000, num_shards=2, repeat=True).batch(4)
    trainers = [Trainer.remote() for _ in range(2)]
    found = [trainer.train.remote(shard) for trainer, shard in zip(trainers, batches.shards(), strict=True)]
    assert kernel.get(found) == [[6, 22], [2006, 2022]]


def test_an_iterator_that_is_being_read_stays_where_it_is() -> None:
    it = from_range(4).gather_sync()
    next(it)
    with pytest.raises(SerializationError, match="this process has begun to read it"):
        kernel.put(it)
    with pytest.raises(SerializationError, match="can't send a duplicate"):
        kernel.put(from_range(4).gather_sync().duplicate(2)[0])


# -- several local iterators -----------------------------------------------------------------------------------------


def test_duplicates_each_give_everything() -> None:
    first, second, third = from_range(6, 2).gather_sync().duplicate(3)
    assert (first.take(2), list(second), list(first), list(third)) == (
        [0, 3],
        [0, 3, 1, 4, 2, 5],
        [1, 4, 2, 5],
        [0, 3, 1, 4, 2, 5],
    )
    one, two = from_range(50, 1).gather_async().duplicate(2)
    joined = list(one.for_each(lambda x: ("one", x)).union(two.for_each(lambda x: ("two", x))))
    assert Counter(joined) == Counter((name, x) for name in ("one", "two") for x in range(50))
    assert repr(one).endswith(".gather_async().duplicate[0]]")


def test_a_deterministic_union_takes_turns() -> None:
    one, two = from_range(3, 1).gather_sync(), from_range(5, 1).gather_sync().for_each(lambda x: x + 10)
    both = one.union(two, deterministic=True)
    assert list(both) == [0, 10, 1, 11, 2, 12, 13, 14]
    assert repr(both).startswith("LocalIterator[LocalUnion[LocalIterator[ParallelIterator[from_range[3, shards=1]]")
    weighted = from_range(4, 1).gather_sync().union(from_items("abcd", 1).gather_sync(), round_robin_weights=[2, 1])
    assert list(weighted) == [0, 1, "a", 2, 3, "b", "c", "d"]


def test_another_union_takes_what_is_ready(tmp_path: Path) -> None:
    gate = tmp_path / "gate"

    def wait(x: int) -> int:
        while not gate.exists():
            pass
        return x

    slow = from_range(2, 1).for_each(wait).gather_sync()
    quick = from_range(20, 1).for_each(lambda x: x + 100).gather_async()
    both = slow.union(quick)
    assert both.take(20) == list(range(100, 120))  # although the slow one comes first, and has nothing
    gate.touch()
    assert list(both) == [0, 1]


def test_a_union_mixes_what_must_and_what_must_not_wait() -> None:
    star = from_range(30, 1).gather_async()
    both = from_range(3, 1).gather_sync().for_each(lambda x: -1 - x).union(star, round_robin_weights=[1, "*"])
    items = list(both)
    assert sorted(items) == [-3, -2, -1, *range(30)] and items[0] == -1


def test_a_function_may_say_that_it_has_nothing_yet() -> None:
    tries: Counter[int] = Counter()

    def later(x: int) -> Any:
        tries[x] += 1
        return x if tries[x] > 2 else NextValueNotReady()

    assert list(from_range(3, 1).gather_sync().for_each(later)) == [0, 1, 2]
    assert tries == {0: 3, 1: 3, 2: 3}


# -- metrics ---------------------------------------------------------------------------------------------------------


def test_functions_of_a_chain_share_metrics() -> None:
    def count(x: int) -> int:
        LocalIterator.get_metrics().counters["seen"] += 1
        return x

    def seen(x: int) -> tuple[int, int]:
        return x, LocalIterator.get_metrics().counters["seen"]

    assert list(from_range(3, 1).gather_sync().for_each(count).for_each(seen)) == [(0, 1), (1, 2), (2, 3)]
    assert list(from_range(3, 1).for_each(count).for_each(seen).gather_sync()) == [(0, 1), (1, 2), (2, 3)]
    left, right = from_range(2, 1).gather_sync().for_each(count), from_range(2, 1).gather_sync().for_each(count)
    assert [n for _, n in left.union(right, deterministic=True).for_each(seen)] == [1, 2, 3, 4]
    with pytest.raises(ValueError, match="only inside a function of an iterator"):
        LocalIterator.get_metrics()


def test_metrics_are_saved_and_restored() -> None:
    shared = SharedMetrics()
    metrics = shared.get()
    metrics.counters["a"] += 2
    metrics.info["b"] = [1]
    with metrics.timers["t"]:
        pass
    metrics.timers["t"].push_units_processed(5)
    assert metrics.timers["t"].count == 1 and metrics.timers["t"].mean_throughput > 0
    saved = metrics.save()
    metrics.counters["a"] += 1
    metrics.restore(saved)
    assert metrics.counters == {"a": 2} and metrics.info == {"b": [1]} and not metrics.timers


def test_items_know_their_source_actor() -> None:
    workers = [kernel.remote(ParallelIteratorWorker).remote([index], False) for index in range(2)]
    for read in (lambda it: it.gather_async(), lambda it: it.gather_sync()):
        pairs = list(read(from_actors(workers)).zip_with_source_actor())
        assert {item: actor for actor, item in pairs} == dict(enumerate(workers))
    assert list(from_actors(workers).get_shard(1).zip_with_source_actor()) == [(workers[1], 1)]
    with pytest.raises(IterationError, match="source actor of an item is not known"):
        from_range(2).batch_across_shards().zip_with_source_actor().take(1)


def test_a_function_hears_when_its_next_item_begins_to_be_fetched(notebook: Notebook) -> None:
    class Watching:
        def __call__(self, x: int) -> int:
            notebook(f"item-{x}")
            return x

        def _on_fetch_start(self) -> None:
            notebook("fetch")

    assert list(from_range(2, 1).gather_sync().for_each(Watching())) == [0, 1]
    assert notebook.lines() == ["fetch", "item-0", "fetch", "item-1", "fetch"]


# -- order of fetching -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("read", ["gather_sync", "gather_async", "get_shard"])
def test_an_item_is_used_before_the_next_of_its_shard_is_fetched(read: str, notebook: Notebook) -> None:
    def made(x: int) -> int:
        notebook(f"make-{x}")
        return x

    def use(x: int) -> int:
        notebook(f"use-{x}")
        return x

    it = from_range(20, 1).for_each(made)
    local = it.get_shard(0) if read == "get_shard" else getattr(it, read)()
    assert local.for_each(use).filter(lambda x: x % 2).take(4) == [1, 3, 5, 7]
    assert notebook.lines() == [f"{verb}-{x}" for x in range(8) for verb in ("make", "use")]


def test_a_queue_of_depth_n_and_prefetching_run_ahead_when_asked(notebook: Notebook) -> None:
    def made(x: int) -> int:
        notebook(x)
        return x

    next(from_range(100, 1).for_each(made).gather_async(3))
    assert len(notebook.lines()) <= 3
    ahead = from_range(1000, 1).for_each(made).gather_sync(prefetch=50)
    assert list(ahead) == list(range(1000))


def test_nothing_happens_before_it_is_asked_for(notebook: Notebook) -> None:
    def source() -> Iterator[int]:
        notebook("begun")
        yield from range(10)

    it = from_iterators([source]).for_each(lambda x: x).batch(2)
    local = it.gather_async().flatten()
    assert it.num_shards() == 1 and notebook.lines() == []
    assert next(local) == 0 and notebook.lines() == ["begun"]


def test_large_items_are_not_fetched_far_ahead() -> None:
    numpy = pytest.importorskip("numpy")
    arrays = [numpy.full(200_000, index) for index in range(8)]
    assert [int(array[0]) for array in from_items(arrays, 2).gather_sync()] == list(range(8))


# -- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"prefetch": 64}])
def test_what_a_function_raises_comes_after_the_items_before_it(options: dict[str, int]) -> None:
    def check(x: int) -> float:
        return 1 / (5 - x)

    it = from_range(10, 1).for_each(check).gather_sync(**options)
    assert len(it.take(5)) == 5
    with pytest.raises(ZeroDivisionError):
        next(it)


@pytest.mark.parametrize("read", ["gather_sync", "gather_async", "batch_across_shards"])
def test_a_dead_shard_is_named(read: str) -> None:
    actors = [kernel.remote(ParallelIteratorWorker).remote(range(1000), False) for _ in range(2)]
    it = getattr(from_actors(actors, name="mine"), read)()
    it.take(4)
    kernel.kill(actors[1])
    with pytest.raises(iterators.ShardDiedError, match=r"mine\.shard\[1\] died after \d+ items were read") as caught:
        list(it)
    assert caught.value.shard == "mine.shard[1]"


def test_a_dead_shard_is_named_through_repartition() -> None:
    actors = [kernel.remote(ParallelIteratorWorker).remote(range(1000), False) for _ in range(2)]
    it = from_actors(actors).repartition(2).gather_sync()
    next(it)
    kernel.kill(actors[0])
    with pytest.raises(iterators.ShardDiedError, match=r"from_actors\[shards=2\]\.shard\[0\] died"):
        list(it)


def test_bad_arguments_are_refused_where_they_are_given() -> None:
    it = from_range(4)
    for call, words in [
        (lambda: it.gather_async(0), "async_queue_depth must be an integer of at least 1, not 0"),
        (lambda: it.gather_async(batch_ms=-1), "batch_ms is a number of milliseconds from 0 on"),
        (lambda: it.batch(0), "n must be an integer of at least 1"),
        (lambda: it.get_shard(2), "has the shards 0 to 1, and no shard 2"),
        (lambda: it.for_each(str, max_concurrency=-1), "max_concurrency must be an integer of at least 0"),
        (lambda: it.union([1]), "joined with another one, not with a list"),
        (lambda: it.gather_sync().union(it), "joined with local iterators, not with a ParallelIterator"),
        (lambda: it.gather_sync().duplicate(1), "n must be an integer of at least 2"),
        (lambda: from_range(4, 0), "num_shards must be an integer of at least 1"),
        (lambda: from_actors([object()]), "its class must inherit from ParallelIteratorWorker"),
        (lambda: from_iterators([]), "needs at least one iterable"),
    ]:
        with pytest.raises(ValueError, match=words):
            call()

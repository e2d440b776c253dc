"""02, lines 23988-24264: parallel iterators: made, chained lazily, gathered, and handed to tasks."""

import ray
from ray.util.iter import from_items, from_iterators, from_range

ray.init()
numbers = from_range(1000, num_shards=4)
print(list(numbers.for_each(lambda number: number * 2).gather_sync().take(5)))
print(from_items([1, 2, 3, 4]).filter(lambda number: number % 2 == 0).gather_sync().take(2))
print(sorted(from_iterators([range(2), lambda: range(10, 12)]).gather_async()))
print(sorted(from_items([0, 1, 2, 3], num_shards=2).batch(2).flatten().gather_sync()))


@ray.remote
def total(shard):
    return sum(shard)


print(sum(ray.get([total.remote(shard) for shard in numbers.shards()])))


class Running:
    def __init__(self):
        self.total = 0

    def __call__(self, number):
        self.total += number
        return self.total, number


print(*from_range(5, 1).for_each(Running()).gather_sync())
print(sorted(from_items([1, 2]).union(from_items([3])).gather_sync()))

# prints:
# [0, 500, 1000, 1500, 2]
# [2, 4]
# [0, 1, 10, 11]
# [0, 1, 2, 3]
# 499500
# (0, 0) (1, 1) (3, 2) (6, 3) (10, 4)
# [1, 2, 3]

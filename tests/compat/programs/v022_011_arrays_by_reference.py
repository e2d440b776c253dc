"""V022-007, V022-011, V022-010: a tree of sums over arrays, arrays sent by value and by reference, and mappings."""

import numpy as np
import ray

ray.init()


@ray.remote
def make(size):
    return np.ones(size)


@ray.remote
def add(left, right):
    return left + right


level = [make.remote(1000) for _ in range(100)]
while len(level) > 1:
    level = [*level[2:], add.remote(level[0], level[1])]
(total,) = ray.get(level)
print(total.shape, total[0])

array = np.zeros(1_000_000)
reference = ray.put(array)
print(ray.get([add.remote(array, 1) for _ in range(2)])[0].sum() == ray.get(add.remote(reference, 1)).sum())


@ray.remote
def describe(count):
    return {"count": count, "squares": [number**2 for number in range(count)]}


print(ray.get([describe.remote(count) for count in (1, 3)]))

# prints:
# (1000,) 100.0
# True
# [{'count': 1, 'squares': [0]}, {'count': 3, 'squares': [0, 1, 4]}]

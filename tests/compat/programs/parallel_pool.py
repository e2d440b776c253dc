"""02, lines 23879-23922: a pool with the standard library's surface, started in every way."""

import ray
from ray.util.multiprocessing import Pool
from ray.util.multiprocessing.pool import Pool as SamePool


def square(number):
    return number * number


def add(left, right):
    return left + right


with Pool(2) as pool:
    results = pool.map(square, range(100))
    print(results == [number**2 for number in range(100)], ray.is_initialized())
    print(pool.apply(add, (1, 2)), pool.apply_async(add, (3, 4)).get(120), pool.starmap(add, [(1, 1), (2, 2)]))
    print(list(pool.imap(square, range(5), chunksize=2)), sorted(pool.imap_unordered(square, range(5))))
print(SamePool is Pool)

# prints:
# True True
# 3 7 [2, 4]
# [0, 1, 4, 9, 16] [0, 1, 4, 9, 16]
# True

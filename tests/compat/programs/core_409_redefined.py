"""CORE-409, V022-044, BOOK-048: the newest definition is the one that runs."""

import ray

ray.init()


@ray.remote
def f():
    return 1


assert ray.get(f.remote()) == 1


@ray.remote
def f():
    return 2


print(ray.get(f.remote()))

# prints:
# 2

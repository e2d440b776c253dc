"""CORE-401, V022-066: a worker that ends after so many calls of a function."""

import os

import ray

ray.init()


@ray.remote(max_calls=1)
def once():
    return os.getpid()


first = ray.get(once.remote())
second = ray.get(once.remote())
print(first != second)

# prints:
# True

"""CORE-382, V022-003, V022-006: a reference as an argument is a dependency, whose value arrives."""

import ray

ray.init()


@ray.remote
def first():
    return 1


@ray.remote
def next_one(value, step=1):
    return value + step


begin = first.remote()
assert ray.get(begin) == 1
second = next_one.remote(begin)
assert ray.get(second) == 2
third = next_one.remote(second, step=ray.put(5))
print(ray.get([begin, second, third]), ray.get(next_one.remote(1, 2)), ray.get(next_one.remote(ray.put(1), 2)))

# prints:
# [1, 2, 7] 3 3

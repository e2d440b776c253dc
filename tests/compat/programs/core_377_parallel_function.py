"""CORE-377, V022-001: one function on four values, in parallel."""

import ray

ray.init()


@ray.remote
def square(number):
    return number**2


print(ray.get([square.remote(number) for number in range(4)]))

# prints:
# [0, 1, 4, 9]

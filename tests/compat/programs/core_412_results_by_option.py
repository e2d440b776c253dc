"""CORE-412, CREF-097: how many results a call has is said where it is made; a list may be split."""

import ray

ray.init()


@ray.remote
def numbers(count):
    return list(range(count))


zero, one = numbers.options(num_returns=2).remote(2)
print(ray.get(zero), ray.get(one), ray.get(numbers.remote(3)))
print(ray.get(numbers._remote(args=[2], num_returns=2)), ray.get(numbers._remote(kwargs={"count": 1})))

# prints:
# 0 1 [0, 1, 2]
# [0, 1] [0]

"""CORE-390, 02 `@ray.method`: a method with two results, and one call with fewer."""

import warnings

import ray

warnings.simplefilter("ignore")
ray.init()


@ray.remote
class Splitter:
    @ray.method(num_return_vals=2)
    def halves(self, number):
        return number // 2, number - number // 2


splitter = Splitter.remote()
low, high = splitter.halves.remote(7)
print(ray.get(low), ray.get(high))
print(ray.get(splitter.halves.options(num_return_vals=1).remote(7)))
print(ray.get(splitter.halves.options(num_returns=1).remote(9)))

# prints:
# 3 4
# (3, 4)
# (4, 5)

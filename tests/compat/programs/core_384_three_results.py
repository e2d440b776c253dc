"""CORE-384, V022-005: several results, in the old spelling and in today's."""

import warnings

import ray

ray.init()
warnings.simplefilter("error")
try:
    ray.remote(num_return_vals=3)(lambda: (1, 2, 3))
    raise SystemExit("an old spelling must warn")
except DeprecationWarning as warning:
    print(warning)
warnings.simplefilter("ignore")


@ray.remote(num_return_vals=3)
def old():
    return 1, 2, 3


@ray.remote(num_returns=2)
def new():
    return "a", "b"


a, b, c = old.remote()
print(ray.get([a, b, c]), ray.get(new.remote()))


@ray.remote
def together():
    return 1, 2, 3


print(ray.get(together.remote()))

# prints:
# num_return_vals is an old name; use num_returns
# [1, 2, 3] ['a', 'b']
# (1, 2, 3)

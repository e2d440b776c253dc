"""CORE-405: the five ways in which an object is kept, each until nothing holds it."""

import numpy as np
import ray

ray.init()


@ray.remote
def wait_for(argument):
    return ray.get(argument[0]) if isinstance(argument, list) else argument


local = ray.put(1)
array = ray.get(ray.put(np.zeros(200_000)))  # the array holds its object, whose reference is gone
pending = wait_for.remote(ray.put("by value"))
nested = wait_for.remote([ray.put("by reference")])
captured = ray.put([ray.put(None)])
del captured
captured = ray.put([ray.put("inside")])
print(ray.get(local), array.sum(), ray.get(pending), ray.get(nested), ray.get(ray.get(captured)[0]))
assert not array.flags.writeable

# prints:
# 1 0.0 by value by reference inside

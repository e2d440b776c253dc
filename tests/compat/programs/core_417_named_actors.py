"""CORE-417, CORE-139 to CORE-142: actors with names, and one that outlives its program."""

import os
import warnings

import ray
from ray._private.test_utils import run_string_as_driver

warnings.simplefilter("ignore")
info = ray.init(namespace="shared")


@ray.remote
class Count:
    def __init__(self):
        self.value = 0

    def add(self):
        self.value += 1
        return self.value


passing = Count.options(name="passing").remote()
other = f"""
import warnings
import ray
warnings.simplefilter("ignore")
ray.init(address={info["address"]!r}, namespace="shared")

@ray.remote
class Kept:
    def add(self):
        return "still here"

kept = Kept.options(name="kept", detached=True).remote()
ray.get(kept.add.remote())
print(ray.get(ray.get_actor("passing").add.remote()))
"""
print(run_string_as_driver(other, {**os.environ}).strip())
print(ray.get(ray.get_actor("passing").add.remote()), ray.get(ray.util.get_actor("kept").add.remote()))
print(sorted(ray.util.list_named_actors()))
try:
    Count.options(detached=True).remote()
except ValueError as error:
    print(str(error).split(":")[0])
try:
    ray.get_actor("nobody")
except ValueError:
    print("no such actor")
ray.kill(ray.get_actor("kept"))

# prints:
# 1
# 2 still here
# ['kept', 'passing']
# lifetime="detached" needs a name
# no such actor

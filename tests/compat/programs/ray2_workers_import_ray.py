"""Workers, what they start, and what is pickled there can import ray as the program does."""

import os
import subprocess
import sys

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

ray.init()


@ray.remote
def inside():
    import ray.util.placement_group
    from ray.exceptions import RayTaskError

    code = "import ray; print(ray.__name__, ray.ObjectRef.__module__)"
    child = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    return ray.is_initialized(), issubclass(RayTaskError, ray.exceptions.RayError), child.stdout.strip()


@ray.remote
class Maker:
    def make(self):
        return ray.remote(lambda number: ray.get(ray.put(number))).remote(5), ray, NodeAffinitySchedulingStrategy


print(ray.get(inside.remote()))
reference, module, strategy = ray.get(Maker.remote().make.remote())
print(ray.get(reference), module is ray, strategy is NodeAffinitySchedulingStrategy)


@ray.remote
def takes_remotes(function, cls):
    return ray.get([function.remote(), cls.remote().read.remote()])


@ray.remote
def one():
    return 1


@ray.remote
class Two:
    def read(self):
        return 2


print(ray.get(takes_remotes.remote(one, Two)))

# prints:
# (True, True, 'ray kernel.runtime.object_ref')
# 5 True True
# [1, 2]

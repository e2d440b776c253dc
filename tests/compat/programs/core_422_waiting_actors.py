"""CORE-422 to CORE-424: actors that live, wait, and can never be; and actors that start actors."""

import time

import ray
from ray.util.state import list_actors

ray.init(num_cpus=4, num_gpus=0)


@ray.remote(num_cpus=1)
class Plain:
    def alive(self):
        return True


@ray.remote(num_gpus=1)
class Wishful:
    pass


@ray.remote
class Parent:
    def __init__(self, depth):
        self.children = [Parent.remote(depth - 1) for _ in range(2)] if depth else []

    def family(self):
        return 1 + sum(ray.get([child.family.remote() for child in self.children]))


@ray.remote(num_cpus=4)
class Large:
    pass


plain = [Plain.remote() for _ in range(2)]
ray.get([actor.alive.remote() for actor in plain])
larges, wishful = [Large.remote() for _ in range(2)], Wishful.remote()
deadline = time.monotonic() + 120
while len(list_actors()) < 5 and time.monotonic() < deadline:
    time.sleep(0.01)
for state in ("ALIVE", "PENDING_CREATION"):
    print(state, sorted(row.class_name for row in list_actors(filters=[("state", "=", state)])))
print(ray.available_resources()["CPU"], "of", ray.cluster_resources()["CPU"])
print(ray.get(Parent.remote(2).family.remote()))

# prints:
# ALIVE ['Plain', 'Plain']
# PENDING_CREATION ['Large', 'Large', 'Wishful']
# 2.0 of 4.0
# 7

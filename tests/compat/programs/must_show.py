"""One program that uses tasks, actors, a pool, a queue, a placement group and a named actor."""

import ray
from ray.util.multiprocessing import Pool
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.queue import Queue
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

ray.init()


@ray.remote
def square(number):
    return number * number


@ray.remote
class Register:
    def __init__(self):
        self.entries = []

    def add(self, entry):
        self.entries.append(entry)
        return len(self.entries)


print("tasks", ray.get([square.remote(number) for number in range(5)]))
register = Register.options(name="register").remote()
print("actors", ray.get([register.add.remote(entry) for entry in "abc"]))
print("named", ray.get(ray.get_actor("register").add.remote("d")))
with Pool(2) as pool:
    print("pool", pool.map(abs, range(-3, 1)))
queue = Queue()


@ray.remote
def fill(queue):
    for number in range(3):
        queue.put(number)


fill.remote(queue)
print("queue", [queue.get(timeout=120) for _ in range(3)])
group = placement_group([{"CPU": 1}, {"CPU": 1}], strategy="PACK")
ray.get(group.ready())
inside = PlacementGroupSchedulingStrategy(placement_group=group)
print("group", ray.get([square.options(scheduling_strategy=inside).remote(number) for number in (6, 7)]))
remove_placement_group(group)

# prints:
# tasks [0, 1, 4, 9, 16]
# actors [1, 2, 3]
# named 4
# pool [3, 2, 1, 0]
# queue [0, 1, 2]
# group [36, 49]

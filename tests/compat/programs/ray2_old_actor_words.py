"""CORE-134 to CORE-138, CORE-199: ends of actors, handles in containers, quotas, in the words of 0.8."""

import gc
import time
import warnings

import ray

warnings.simplefilter("ignore")
ray.init()


@ray.remote(object_store_memory=50 * 1024 * 1024)
class Holder:
    def __init__(self):
        self.handles = []

    def keep(self, handles):
        self.handles = handles
        return [ray.get(handle.number.remote()) for handle in handles]


@ray.remote
class Numbered:
    def __init__(self, number):
        self.value = number

    def number(self):
        return self.value

    def stop(self):
        ray.actor.exit_actor()


numbered = [Numbered.remote(number) for number in range(2)]
holder = Holder.remote()
print(ray.get(holder.keep.remote(numbered)))
print(ray.get(numbered[0].number._remote()), numbered[0] == ray.get(ray.put(numbered[0])))
try:
    ray.get(numbered[0].stop.remote())
except ray.exceptions.RayActorError:
    print("left")
weak = ray.put("weak", weakref=True)
print(ray.get(weak))
try:
    numbered[1].nothing.remote()
except AttributeError as error:
    print(error)
states = ray.state.actors()
deadline = time.monotonic() + 120
while not any(row["State"] == "DEAD" for row in states.values()) and time.monotonic() < deadline:
    time.sleep(0.02)
    states = ray.state.actors()
passing = Numbered.remote(5)
actor_id = passing._actor_id.hex()
print(ray.get(passing.number.remote()), passing.number.bind() is not None)
gc.disable()  # the actor is to end with its last handle, not with some cycle
del passing
while states.get(actor_id, {}).get("State") != "DEAD" and time.monotonic() < deadline:
    time.sleep(0.02)
    states = ray.state.actors()
print(states[actor_id]["State"])
print(states[numbered[0]._ray_actor_id.hex()]["State"], states[numbered[1]._actor_id.hex()]["State"])

# prints:
# [0, 1]
# 0 True
# left
# weak
# actor Numbered has no method 'nothing'
# 5 True
# DEAD
# DEAD ALIVE

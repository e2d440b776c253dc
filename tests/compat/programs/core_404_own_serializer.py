"""CORE-404: a type that says itself how it travels, in the old spelling and in today's."""

import threading
import warnings

import ray

warnings.simplefilter("ignore")
ray.init()


class Locked:
    def __init__(self, value):
        self.value, self.lock = value, threading.Lock()


def serialize(locked):
    return locked.value


def deserialize(value):
    return Locked(value)


ray.register_custom_serializer(Locked, serializer=serialize, deserializer=deserialize)
print(ray.get(ray.put(Locked(100))).value)


@ray.remote
def read(locked):
    return locked.value + 1


print(ray.get(read.remote(Locked(1))))
ray.util.deregister_serializer(Locked)
ray.util.register_serializer(Locked, serializer=lambda locked: locked.value * 2, deserializer=Locked)
print(ray.get(ray.put(Locked(5))).value)

# prints:
# 100
# 2
# 10

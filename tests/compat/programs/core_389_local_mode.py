"""CORE-389: everything in one process, one after another."""

import os

import ray

ray.init(local_mode=True)


@ray.remote
def process():
    return os.getpid()


@ray.remote
class Actor:
    def process(self):
        return os.getpid()


assert ray.get(process.remote()) == os.getpid() == ray.get(Actor.remote().process.remote())
assert ray.worker.global_worker.mode == ray.LOCAL_MODE
print("one process")

# prints:
# one process

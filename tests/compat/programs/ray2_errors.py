"""What is raised where, under Ray's names, which are base classes of what arrives."""

import os

import ray
from ray.exceptions import ActorDiedError, RayActorError, RayError, RayTaskError, WorkerCrashedError

ray.init()


class OwnError(Exception):
    def __init__(self, code):
        super().__init__(f"code {code}")
        self.code = code


@ray.remote
def fails():
    raise OwnError(7)


@ray.remote
def nested() -> ray.ObjectRef[int]:
    return ray.get(fails.remote())


for call in (fails, nested):
    try:
        ray.get(call.remote())
    except OwnError as error:
        print(error.code, isinstance(error, RayTaskError), isinstance(error, RayError))
        print(isinstance(error.cause, OwnError), isinstance(error.as_instanceof_cause(), OwnError))


@ray.remote(max_retries=0)
def dies():
    os._exit(1)


try:
    ray.get(dies.remote())
except WorkerCrashedError as error:
    print("crashed", isinstance(error, RayError))


@ray.remote
class Broken:
    def __init__(self):
        raise ValueError("at once")

    def work(self):
        return 1


@ray.remote
class Leaves:
    def leave(self):
        ray.actor.exit_actor()


for make, method in ((Broken, "work"), (Leaves, "leave")):
    actor = make.remote()
    try:
        ray.get(getattr(actor, method).remote())
    except ActorDiedError as error:
        print(method, isinstance(error, RayActorError))

lock = __import__("threading").Lock()
try:
    ray.put(lock)
except TypeError:
    print("not a value to send")

# prints:
# 7 True True
# True True
# 7 True True
# True True
# crashed True
# work True
# leave True
# not a value to send

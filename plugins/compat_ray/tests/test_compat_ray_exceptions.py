"""`ray.exceptions`: names, families, and what an error of a task says."""

from __future__ import annotations

import pytest
from kernel_compat_ray import facade
from kernel_compat_ray.exceptions import STAND_INS

from .test_compat_ray_import import run

FAMILIES = {
    "ActorAlreadyExistsError": ("ValueError", "RayError"),
    "ActorDiedError": ("RayActorError", "RayError"),
    "ActorHandleNotFoundError": ("ValueError", "RayError"),
    "ActorPlacementGroupRemoved": ("RayError",),
    "ActorUnavailableError": ("RayActorError", "RayError"),
    "ActorUnschedulableError": ("RayError",),
    "AsyncioActorExit": ("RayError",),
    "AuthenticationError": ("RayError",),
    "CrossLanguageError": ("RayError",),
    "GetTimeoutError": ("RayError", "TimeoutError"),
    "LocalRayletDiedError": ("RayError",),
    "NodeDiedError": ("RayError",),
    "ObjectFetchTimedOutError": ("ObjectLostError", "RayError"),
    "ObjectFreedError": ("ObjectLostError", "RayError"),
    "ObjectLostError": ("RayError",),
    "ObjectReconstructionFailedError": ("ObjectLostError", "RayError"),
    "ObjectRefStreamEndOfStreamError": ("RayError",),
    "ObjectStoreFullError": ("RayError",),
    "OufOfBandObjectRefSerializationException": ("RayError",),
    "OutOfDiskError": ("RayError",),
    "OutOfMemoryError": ("RayError",),
    "OwnerDiedError": ("ObjectLostError", "RayError"),
    "PendingCallsLimitExceeded": ("RayError",),
    "PlasmaObjectNotAvailable": ("RayError",),
    "RayActorError": ("RayError",),
    "RayCgraphCapacityExceeded": ("RaySystemError", "RayError"),
    "RayChannelError": ("RaySystemError", "RayError"),
    "RayChannelTimeoutError": ("RayChannelError", "RaySystemError", "RayError", "TimeoutError"),
    "RayDirectTransportError": ("RaySystemError", "RayError"),
    "RayError": (),
    "RaySystemError": ("RayError",),
    "RayTaskError": ("RayError",),
    "ReferenceCountingAssertionError": ("ObjectLostError", "RayError", "AssertionError"),
    "RpcError": ("RayError",),
    "RuntimeEnvSetupError": ("RayError",),
    "StreamingGeneratorReplayInconsistentError": ("RaySystemError", "RayError"),
    "TaskCancelledError": ("RayError",),
    "TaskPlacementGroupRemoved": ("RayError",),
    "TaskUnschedulableError": ("RayError",),
    "UnserializableException": ("RayError",),
    "UserCodeException": ("RayError",),
    "WorkerCrashedError": ("RayError",),
}
"""Every error of Ray 2.60, and what it is below."""

SHARED = {
    "ActorPlacementGroupRemoved": "TaskPlacementGroupRemoved",
    "ActorUnschedulableError": "TaskUnschedulableError",
    "AuthenticationError": "RpcError",
    "ObjectReconstructionFailedError": "ObjectLostError",
}
"""Two names of Ray for one error of kernel."""


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_an_error_is_called_as_in_ray_and_of_the_same_family(name: str) -> None:
    error = facade.resolve(f"ray.exceptions.{name}")
    assert error.__name__ == error.__qualname__ == SHARED.get(name, name)
    assert error.__module__ == "ray.exceptions" and error.__doc__
    known = {cls.__name__ for cls in error.__mro__}
    assert set(FAMILIES[name]) <= known
    above = {each for each in FAMILIES if each in known} - {error.__name__}
    assert above <= set(FAMILIES[name]), f"{name} is caught by {above}"


def test_each_stands_for_its_own() -> None:
    assert len(set(STAND_INS.values())) == len(STAND_INS)
    assert all(issubclass(cls, error) for error, cls in STAND_INS.items())


PROGRAM = """
import kernel_compat_ray.install, kernel, os, pickle, ray
from ray import exceptions
ray.init(num_cpus=2, log_to_driver=False)

@ray.remote
def inner():
    raise ValueError("on purpose")

@ray.remote
def outer():
    return ray.get(inner.remote())

@ray.remote(max_retries=0)
def dies():
    os._exit(3)

@ray.remote
class Actor:
    def __init__(self, broken=False):
        if broken:
            raise KeyError("constructor")
    def dies(self):
        os._exit(3)

def told(call):
    try:
        ray.get(call())
    except Exception as error:
        print(type(error).__module__, type(error).__name__, "ray.exceptions" in repr(type(error)))
        return error

error = told(outer.remote)
lines = str(error).splitlines()
print(lines[0].split(" (pid=")[0], lines[-1], "in inner" in str(error), "in outer" in str(error))
print("calls.py" in str(error), error.traceback_str == error.remote_traceback, error.function_name)
print(*(isinstance(error, cls) for cls in (ValueError, exceptions.RayTaskError, kernel.exceptions.TaskError)))
again = pickle.loads(pickle.dumps(error))
print(type(again) is type(error), str(again) == str(error))
told(dies.remote)
actor = Actor.remote()
error = told(actor.dies.remote)
print(error.actor_id == actor._actor_id.hex(), error.actor_init_failed)
actor = Actor.remote(True)
error = told(actor.dies.remote)
print(error.actor_id == actor._actor_id.hex(), error.actor_init_failed, isinstance(error, exceptions.RayTaskError))
print(str(error).splitlines()[0].split(" (pid=")[0], str(error).splitlines()[-1])
for wrong in (lambda: ray.init(), lambda: ray.shutdown() or ray.init(nothing=1)):
    try:
        wrong()
    except RuntimeError as error:
        print(type(error).__name__)
"""


def test_what_a_program_sees() -> None:
    done = run(PROGRAM)
    assert done.stdout.splitlines() == [
        "ray.exceptions RayTaskError(ValueError) True",
        "ray::inner() ValueError: on purpose True True",
        "False True inner",
        "True True True",
        "True True",
        "ray.exceptions WorkerCrashedError True",
        "ray.exceptions ActorDiedError True",
        "True False",
        "ray.exceptions ActorDiedError True",
        "True True False",
        "The actor died because of an error raised in its creation task, ray::Actor.__init__() KeyError: 'constructor'",
        "SecondInitError",
        "UnknownArgumentError",
    ], done.stderr


WRONG_USE = """
import kernel_compat_ray.install, ray, threading
from ray.exceptions import RayError
ray.init(num_cpus=1)
task = ray.remote(lambda: 1)
for wrong in (lambda: ray.put(threading.Lock()), lambda: ray.get(3), lambda: task.options(nothing=1),
              lambda: ray.get_actor("nobody"), lambda: task.remote(1)):
    try:
        wrong()
    except RayError as error:
        print("RayError", error)
    except (TypeError, ValueError):
        print("fine")
"""


def test_wrong_use_is_no_error_of_ray() -> None:
    done = run(WRONG_USE)
    assert done.stdout == "fine\n" * 5, done.stderr


INSPECT = """
import kernel_compat_ray.install, ray, threading
lock = threading.Lock()
def task():
    return lock
ok, found = ray.util.inspect_serializability(task, name="task")
one, = found
print(ok, one.name, one.obj is lock, one.parent is task)
print(ray.util.inspect_serializability(3))
"""


def test_the_culprit_is_found_and_printed() -> None:
    done = run(INSPECT)
    assert '!!! FAIL serialization: task.__globals__["lock"] is a _thread.lock' in done.stdout, done.stderr
    assert "False lock True True" in done.stdout and done.stdout.endswith("(True, set())\n")

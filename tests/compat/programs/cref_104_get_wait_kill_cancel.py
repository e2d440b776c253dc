"""CREF-103 to CREF-110, CREF-128, CREF-129: waiting in every form, and the three ways to end things."""

import time
import warnings

import numpy as np
import ray

warnings.simplefilter("ignore")
ray.init()


@ray.remote
def after(seconds):
    time.sleep(seconds)
    return seconds


quick, slow = after.remote(0), after.remote(600)
print(ray.wait([slow, quick]) == ([quick], [slow]), ray.wait([slow, quick], num_returns=2, timeout=0.2)[1] == [slow])
print(ray.wait([]), ray.get([]))
for wrong in (lambda: ray.wait([quick, quick]), lambda: ray.wait(quick), lambda: ray.wait([quick], num_returns=2)):
    try:
        wrong()
    except (TypeError, ValueError):
        print("refused")
print(ray.experimental.get({"a": quick, "b": ray.put(2)}), ray.experimental.get((quick,)))
print(ray.experimental.get(np.array([quick, ray.put(1)], dtype=object)))
print(ray.experimental.wait((quick,), num_returns=1, timeout=None)[0] == [quick])

ray.cancel(slow)
try:
    ray.get(slow)
except ray.exceptions.RayCancellationError as error:
    print(isinstance(error, ray.exceptions.TaskCancelledError))


@ray.remote
class Actor:
    def work(self):
        return "done"


graceful, forced = Actor.remote(), Actor.remote()
last = graceful.work.remote()
end = graceful.__ray_terminate__.remote()
print(ray.get(last))
ray.get(forced.work.remote())
ray.kill(forced)
for actor in (graceful, forced):
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            ray.get(actor.work.remote())
        except ray.exceptions.RayActorError:
            print("gone")
            break
try:
    ray.kill(quick)
except ValueError:
    print("not an actor")

# prints:
# True True
# ([], []) []
# refused
# refused
# refused
# {'a': 0, 'b': 2} [0]
# [0, 1]
# True
# True
# done
# gone
# gone
# not an actor

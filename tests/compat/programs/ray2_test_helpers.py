"""Helpers that tests outside of Ray use: signals, semaphores, conditions."""

import ray
from ray._private.test_utils import Semaphore, SignalActor, wait_for_condition

ray.init()
signal = SignalActor.remote()


@ray.remote
def waits(signal):
    ray.get(signal.wait.remote())
    return "went on"


waiting = waits.remote(signal)
wait_for_condition(lambda: ray.get(signal.cur_num_waiters.remote()) == 1, timeout=120)
ray.get(signal.send.remote())
print(ray.get(waiting))
semaphore = Semaphore.remote(value=1)
ray.get(semaphore.acquire.remote())
print(ray.get(semaphore.locked.remote()))
ray.get(semaphore.release.remote())
try:
    wait_for_condition(lambda: False, timeout=0.05)
except RuntimeError:
    print("not met")

# prints:
# went on
# True
# not met

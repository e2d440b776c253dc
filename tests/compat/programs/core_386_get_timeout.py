"""CORE-386: a get that gives up, caught under the names of three generations."""

import time
import warnings

import ray
from ray.exceptions import GetTimeoutError

warnings.simplefilter("ignore")
from ray.exceptions import RayTimeoutError  # noqa: E402

ray.init()


@ray.remote
def long():
    time.sleep(600)


reference = long.remote()
for kind in (RayTimeoutError, GetTimeoutError, ray.exceptions.RayError, TimeoutError):
    try:
        ray.get(reference, timeout=0.2)
    except kind:
        print("`get` timed out.")
ray.cancel(reference, force=True)

# prints:
# `get` timed out.
# `get` timed out.
# `get` timed out.
# `get` timed out.

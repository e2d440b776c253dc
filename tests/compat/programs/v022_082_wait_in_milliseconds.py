"""V022-082: in the very old form, asked for by the environment, timeouts of wait are in milliseconds."""

import os
import time

os.environ["KERNEL_RAY_WAIT_MILLISECONDS"] = "1"

import ray

ray.init()


@ray.remote
def long():
    time.sleep(600)


reference = long.remote()
begun = time.monotonic()
print(ray.wait([reference], timeout=100) == ([], [reference]), time.monotonic() - begun < 60)
ray.cancel(reference, force=True)

# prints:
# True True

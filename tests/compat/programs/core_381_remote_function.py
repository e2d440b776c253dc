"""CORE-381, V022-009: a call returns a reference at once; the plain function stays as it was."""

import os
import tempfile
import time

import ray

ray.init()


def one():
    return 1


@ray.remote
def remote_one():
    return 1


@ray.remote
def slow(gate):
    while not os.path.exists(gate):
        time.sleep(0.01)
    return 1


assert one() == 1
reference = remote_one.remote()
assert isinstance(reference, ray.ObjectRef) and ray.get(reference) == 1
with tempfile.TemporaryDirectory() as directory:
    gate = os.path.join(directory, "gate")
    calls = [slow.remote(gate) for _ in range(4)]
    open(gate, "w").close()  # nobody gets here who waits for a result
    print(ray.get(calls))

# prints:
# [1, 1, 1, 1]

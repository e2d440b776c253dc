"""CORE-381, V022-009: a call returns a reference at once; the plain function stays as it was."""

import time

import ray

ray.init()


def one():
    return 1


@ray.remote
def remote_one():
    return 1


@ray.remote
def slow():
    time.sleep(1)
    return 1


assert one() == 1
reference = remote_one.remote()
assert isinstance(reference, ray.ObjectRef) and ray.get(reference) == 1
begun = time.monotonic()
calls = [slow.remote() for _ in range(4)]
assert time.monotonic() - begun < 4  # one after another it would take them 4 s
print(ray.get(calls))

# prints:
# [1, 1, 1, 1]

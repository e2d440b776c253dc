"""V022-014, V022-039, CREF-127: what failed, asked for afterwards; and a name that was not there yet."""

import time

import ray

ray.init()


@ray.remote
def fails():
    raise ValueError("on purpose")


@ray.remote
def early():
    return helper()


fails.remote()
deadline = time.monotonic() + 120
while not ray.error_info() and time.monotonic() < deadline:
    time.sleep(0.02)
(error,) = ray.errors()
print(error["type"], error["message"].split()[0])
try:
    ray.get(early.remote())
except NameError as error:
    print(str(error).splitlines()[-1])


def helper():
    return "there now"


@ray.remote
def late():
    return helper()


print(ray.get(late.remote()))

# prints:
# task fails()
# NameError: name 'helper' is not defined
# there now

"""CORE-413, CREF-130: a resource comes, changes and goes while the cluster runs."""

import time
import warnings

import ray

warnings.simplefilter("ignore")
ray.init()
name = "licences"


def capacity(name):
    return ray.cluster_resources().get(name)


def wait_until(value, name=name):
    deadline = time.monotonic() + 120
    while capacity(name) != value and time.monotonic() < deadline:
        time.sleep(0.01)
    return capacity(name) == value


ray.experimental.set_resource(name, 10)
print(wait_until(10), ray.available_resources()[name])


@ray.remote(resources={name: 1})
def licensed():
    ray.experimental.set_resource("from a task", 3)
    return True


print(ray.get(licensed.remote()), wait_until(3, "from a task"))
ray.experimental.set_resource(name, 0)
print(wait_until(None))
try:
    ray.experimental.set_resource(name, -1)
except ValueError as error:
    print(type(error).__name__)

# prints:
# True 10.0
# True True
# True
# OptionError

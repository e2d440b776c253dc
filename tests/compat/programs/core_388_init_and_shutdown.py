"""CORE-388, CREF-114: sessions begin and end, twice in one program; definitions outlive them."""

import ray


@ray.remote
def here():
    return ray.is_initialized()


assert not ray.is_initialized()
ray.init(num_cpus=1)
assert ray.is_initialized()
print(ray.get(here.remote()))
ray.shutdown()
assert not ray.is_initialized()
ray.shutdown()
ray.init(num_cpus=1)
try:
    ray.init()
except RuntimeError as error:
    print(type(error).__name__)
ray.init(ignore_reinit_error=True)
print(ray.get(here.remote()))

# prints:
# True
# SecondInitError
# True

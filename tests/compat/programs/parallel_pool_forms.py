"""02, lines 23903-23922, CREF-185: a pool on a cluster that is named, and workers that need something."""

import multiprocessing

import ray
from ray.util.multiprocessing import Pool

info = ray.init(num_cpus=3, resources={"seat": 2})
address = info["address"]
ray.shutdown()


def double(number):
    return 2 * number


def begin(value):
    global begun
    begun = value


def read(_):
    return begun


ray.init(num_cpus=3, resources={"seat": 2})
with Pool(2, initializer=begin, initargs=("begun",), ray_remote_args={"resources": {"seat": 1}}) as pool:
    print(pool.map(double, [1, 2, 3]), set(pool.map(read, range(4))))
    result = pool.map_async(double, [4])
    result.wait(120)
    print(result.ready(), result.successful(), result.get())
    try:
        pool.apply(int, ("not a number",))
    except ValueError as error:
        print(str(error).splitlines()[0])
pool.join()
print(issubclass(ray.util.multiprocessing.TimeoutError, multiprocessing.TimeoutError))
ray.shutdown()
try:
    Pool(ray_address=address)
except (ConnectionError, ray.exceptions.RayError):
    print("nobody there")

# prints:
# [2, 4, 6] {'begun'}
# True True [8]
# invalid literal for int() with base 10: 'not a number'
# True
# nobody there

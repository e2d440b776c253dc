"""CORE-398, CORE-400, CORE-411, V022-018: which devices a task was given. They need not exist."""

import os
import time

import ray

ray.init(num_cpus=4, num_gpus=1)


@ray.remote(num_gpus=1)
def devices():
    return ray.get_gpu_ids(), os.environ.get("CUDA_VISIBLE_DEVICES")


@ray.remote
def without():
    return ray.get_gpu_ids()


print(ray.get(devices.remote()))
print(ray.get(without.remote()), ray.get(without.options(num_cpus=1, num_gpus=1).remote()))


@ray.remote(num_gpus=0.25)
def quarter():
    time.sleep(0.5)
    return time.time()


ends = ray.get([quarter.remote() for _ in range(4)])
assert max(ends) - min(ends) < 5
print("four on one device")

# prints:
# ([0], '0')
# [] [0]
# four on one device

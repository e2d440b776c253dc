"""CORE-398, CORE-400, CORE-411, V022-018: which devices a task was given. They need not exist."""

import os
import tempfile
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
def quarter(place, number):
    open(os.path.join(place, str(number)), "w").close()
    while len(os.listdir(place)) < 4:
        time.sleep(0.01)
    return ray.get_gpu_ids()


with tempfile.TemporaryDirectory() as place:
    assert ray.get([quarter.remote(place, number) for number in range(4)]) == [[0]] * 4
print("four on one device")

# prints:
# ([0], '0')
# [] [0]
# four on one device

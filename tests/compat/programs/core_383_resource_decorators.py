"""CORE-383, CORE-406: what a task needs stands in its decorator: CPUs, GPUs, custom resources, shares, memory."""

import ray

ray.init(num_cpus=4, num_gpus=2, resources={"Custom": 1}, memory=4 * 1024**3)


@ray.remote(num_cpus=4, num_gpus=2)
def large():
    return "large"


@ray.remote(resources={"Custom": 1})
def special():
    return "special"


@ray.remote(num_gpus=0.5)
def half():
    return len(ray.get_gpu_ids())


@ray.remote(memory=2000 * 1024 * 1024)
def hungry(word="hungry"):
    return word


print(ray.get([large.remote(), special.remote(), half.remote(), hungry.remote()]))
print(ray.get(hungry.options(memory=100 * 1024 * 1024, num_cpus=2).remote(word="less")))
assert ray.cluster_resources()["Custom"] == 1

# prints:
# ['large', 'special', 1, 'hungry']
# less

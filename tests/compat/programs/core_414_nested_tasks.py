"""CORE-414, CORE-415, V022-008: tasks that start tasks, and one that waits for its own on the only CPU."""

import ray

ray.init(num_cpus=1, num_gpus=1)


@ray.remote
def one():
    return 1


@ray.remote
def references():
    return [one.remote() for _ in range(4)]


@ray.remote
def values():
    return ray.get([one.remote() for _ in range(4)])


found = ray.get(references.remote())
print([type(reference).__name__ for reference in found], ray.get(found))
print(ray.get(values.remote()))


@ray.remote(num_cpus=1, num_gpus=1)
def waits():
    return ray.get(one.remote())


print(ray.get(waits.remote()))


@ray.remote
def inner(number):
    return number + 1


@ray.remote
def outer(number):
    return sum(ray.get([inner.remote(i) for i in range(number)]))


print(ray.get([outer.remote(number) for number in range(3, 6)]))

# prints:
# ['ObjectRef', 'ObjectRef', 'ObjectRef', 'ObjectRef'] [1, 1, 1, 1]
# [1, 1, 1, 1]
# 1
# [6, 10, 15]

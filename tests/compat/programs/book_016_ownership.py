"""08, example 2-11: who owns what: the program one object, a task the other, each given by name."""

import ray

ray.init()


@ray.remote
def owned(value=None):
    return value


@ray.remote
def task(dependency=None):
    inner = owned.remote(value=dependency)
    return ray.get(inner)


value = ray.put("a value")
print(ray.get(task.remote(dependency=value)), type(value).__name__)

# prints:
# a value ObjectRef

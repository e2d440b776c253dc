"""V022-042: a value that is pickled by hand on its way through a task."""

import pickle

import ray

ray.init()


@ray.remote
def through(data):
    return f"passed {pickle.loads(data)} on"


print(ray.get(through.remote(pickle.dumps({"a": [1, 2]}))))
print(ray.cloudpickle.loads(ray.cloudpickle.dumps(lambda x: x + 1))(1))

# prints:
# passed {'a': [1, 2]} on
# 2

"""V022-045, CORE-213: a helper in a file that changes, and is loaded anew in the task."""

import os
import sys
import tempfile

import ray

directory = tempfile.mkdtemp()
sys.path.insert(0, directory)
sys.dont_write_bytecode = True


def write(value):
    with open(os.path.join(directory, "changing_helper.py"), "w") as file:
        file.write(f"def h():\n    return {value}\n")


write(1)
ray.init()
import changing_helper  # noqa: E402


@ray.remote
def call():
    from importlib import reload

    reload(changing_helper)
    return changing_helper.h()


print(ray.get(call.remote()))
write(22)
print(ray.get(call.remote()))

# prints:
# 1
# 22

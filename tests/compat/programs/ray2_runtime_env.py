"""Environments of tasks, and of a program."""

import os
import pathlib
import tempfile
import warnings

import ray
from ray.runtime_env import RuntimeEnv

warnings.simplefilter("ignore")
directory = pathlib.Path(tempfile.mkdtemp())
(directory / "packed_module.py").write_text("ANSWER = 42\n")
ray.init(runtime_env={"env_vars": {"FROM": "the program"}})


@ray.remote
def read(name):
    return os.environ.get(name)


print(ray.get(read.remote("FROM")))
print(ray.get(read.options(runtime_env=RuntimeEnv(env_vars={"MORE": "the task"})).remote("MORE")))
print(ray.get(read.options(override_environment_variables={"OLD": "1.x"}).remote("OLD")))


@ray.remote(runtime_env={"working_dir": str(directory)})
def packed():
    import packed_module

    return packed_module.ANSWER


print(ray.get(packed.remote()))
try:
    ray.get(read.options(runtime_env={"nsight": {"image": "torch"}}).remote("FROM"))
except ray.exceptions.RuntimeEnvSetupError as error:
    print(str(error).split(";")[0])

# prints:
# the program
# the task
# 1.x
# 42
# runtime_env has no field 'nsight'

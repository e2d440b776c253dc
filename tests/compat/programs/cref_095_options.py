"""02, lines 6493-6547: every form of the decorator, and options that are set and taken back."""

import ray

ray.init()


@ray.remote
def plain():
    return 1


@ray.remote(num_cpus=2, max_calls=10, max_retries=1)
def with_options():
    return 2


@ray.remote
class Plain:
    def get(self):
        return 3


@ray.remote(num_cpus=1, max_restarts=1)
class WithOptions:
    def get(self):
        return 4


class Ordinary:
    def get(self):
        return 5


def function():
    return 6


changed = with_options.options(num_cpus=1, max_calls=None)
smaller = WithOptions.options(num_cpus=0, resources=None)
wrapped = ray.remote(Ordinary)
calls = [plain.remote(), changed.remote(), Plain.remote().get.remote(), smaller.remote().get.remote()]
calls += [wrapped.remote().get.remote(), ray.remote(num_cpus=1)(function).remote()]
print(ray.get(calls), Ordinary().get(), function())
for wrong in ({"num_cpu": 1}, {"max_restarts": 1}):
    try:
        ray.remote(**wrong)(function)
    except (TypeError, ValueError) as error:
        print(error)
try:
    plain()
except TypeError:
    print("not directly")

# prints:
# [1, 2, 3, 4, 5, 6] 5 6
# a task has no option 'num_cpu'; did you mean 'num_cpus'?
# 'max_restarts' is an option of an actor, not of a task
# not directly

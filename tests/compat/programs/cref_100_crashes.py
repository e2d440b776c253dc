"""02, lines 24863-24929: a task and an actor whose processes die, and how often they are tried again."""

import os
import warnings

import ray

warnings.simplefilter("ignore")
ray.init()


@ray.remote
class Marks:
    def __init__(self):
        self.count = 0

    def mark(self):
        self.count += 1
        return self.count


marks = Marks.remote()


@ray.remote(max_retries=1)
def dies_for(times, marks):
    if ray.get(marks.mark.remote()) <= times:
        os._exit(0)
    return "SUCCESS"


for times in (1, 2):
    marks = Marks.remote()
    try:
        print(ray.get(dies_for.remote(times, marks)))
    except ray.exceptions.RayWorkerError as error:
        print("FAILURE", isinstance(error, ray.exceptions.WorkerCrashedError))


@ray.remote(max_reconstructions=2)
class Mortal:
    def __init__(self):
        self.counter = 0

    def count_and_die_at_three(self):
        self.counter += 1
        if self.counter == 3:
            os._exit(0)
        return self.counter


mortal = Mortal.remote()
seen = []
while len(seen) < 30:
    try:
        seen.append(ray.get(mortal.count_and_die_at_three.remote()))
    except ray.exceptions.ActorDiedError:
        break
    except ray.exceptions.RayActorError:
        if not seen or seen[-1] != "FAILURE":
            seen.append("FAILURE")
print(seen)
print(ray.ray_constants.INFINITE_RECONSTRUCTION)

# prints:
# SUCCESS
# FAILURE True
# [1, 2, 'FAILURE', 1, 2, 'FAILURE', 1, 2]
# -1

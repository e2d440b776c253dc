"""CORE-408: Python's own profiler on three ways to call, which differ in how long they wait."""

import cProfile
import io
import pstats
import time

import ray

ray.init()


@ray.remote
def nap():
    time.sleep(1)


def one_by_one():
    for _ in range(5):
        ray.get(nap.remote())


def get_in_the_loop():
    waiting = []
    for _ in range(5):
        waiting.append(nap.remote())
    for reference in waiting:
        ray.get(reference)


def all_at_once():
    ray.get([nap.remote() for _ in range(5)])


def seconds(function):
    profile = cProfile.Profile()
    profile.runcall(function)
    text = io.StringIO()
    stats = pstats.Stats(profile, stream=text)
    stats.print_stats()
    assert function.__name__ in text.getvalue()
    return stats.total_tt


ray.get([nap.remote() for _ in range(5)])  # workers are there
slow, better, best = seconds(one_by_one), seconds(get_in_the_loop), seconds(all_at_once)
assert slow >= 5
print(best < slow, better < slow)

# prints:
# True True

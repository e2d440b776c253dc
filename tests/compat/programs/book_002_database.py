"""08, examples 2-1 to 2-9: a small database, asked in parallel, by closure, in steps and in a chain."""

import time

import ray

ray.init()
words = ["The", "quick", "brown", "fox", "jumps", "over", "it", "!"]


def look_up(index, table=words):
    time.sleep(index / 100.0)
    return index, table[index]


@ray.remote
def look_up_task(index):
    return look_up(index)


print([look_up(index) for index in range(2)])
print(ray.get([look_up_task.remote(index) for index in range(8)])[-1])
stored = ray.put(words)


@ray.remote
def look_up_task(index):
    time.sleep(index / 100.0)
    return index, ray.get(stored)[index]


references = [look_up_task.remote(index) for index in range(0, 8, 2)]
collected = []
while references:
    finished, references = ray.wait(references, num_returns=min(2, len(references)), timeout=7.0)
    collected += ray.get(finished)
print(sorted(collected))


@ray.remote
def follow_up(found):
    index, _ = found
    return found, ray.get(look_up_task.remote(index + 1))


print(ray.get([follow_up.remote(look_up_task.remote(index)) for index in (0, 2, 4, 6)]))


@ray.remote
class Tracker:
    def __init__(self):
        self.count = 0

    def increment(self):
        self.count += 1

    def counts(self):
        return self.count


@ray.remote
def tracked(index, tracker):
    tracker.increment.remote()
    return look_up(index)


tracker = Tracker.remote()
ray.get([tracked.remote(index, tracker) for index in range(8)])
deadline = time.monotonic() + 120
while ray.get(tracker.counts.remote()) < 8 and time.monotonic() < deadline:
    time.sleep(0.01)
print(ray.get(tracker.counts.remote()))

# prints:
# [(0, 'The'), (1, 'quick')]
# (7, '!')
# [(0, 'The'), (2, 'brown'), (4, 'jumps'), (6, 'it')]
# [((0, 'The'), (1, 'quick')), ((2, 'brown'), (3, 'fox')), ((4, 'jumps'), (5, 'over')), ((6, 'it'), (7, '!'))]
# 8

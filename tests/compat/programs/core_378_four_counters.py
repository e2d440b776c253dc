"""CORE-378: four actors are told to count, and are asked afterwards."""

import ray

ray.init()


@ray.remote
class Tally:
    def __init__(self):
        self.total = 0

    def add(self):
        self.total += 1

    def read(self):
        return self.total


tallies = [Tally.remote() for _ in range(4)]
for tally in tallies:
    tally.add.remote()
print(ray.get([tally.read.remote() for tally in tallies]))

# prints:
# [1, 1, 1, 1]

"""CORE-392, V022-099, BOOK-054: three tasks drive one actor, and the program watches it grow."""

import time

import ray

ray.init()


@ray.remote
class Meter:
    def __init__(self):
        self.value = 0

    def up(self):
        self.value += 1

    def read(self):
        return self.value


@ray.remote
def drive(meter, turns):
    for _ in range(turns):
        time.sleep(0.01)
        meter.up.remote()
    return ray.get(meter.read.remote()) >= turns


meter = Meter.remote()
drives = [drive.remote(meter, 30) for _ in range(3)]
seen = [ray.get(meter.read.remote())]
while seen[-1] < 90:
    time.sleep(0.05)
    seen.append(ray.get(meter.read.remote()))
assert seen == sorted(seen) and all(ray.get(drives))
print("counted", seen[-1])

# prints:
# counted 90

"""02, lines 4356-4415 and 4550-4581: tasks of tasks count where they run, as the cluster examples do."""

import socket
import time
from collections import Counter

import ray

ray.init()


@ray.remote
def visit(trail):
    time.sleep(0.001)
    return (*trail, socket.gethostname())


for _ in range(3):
    trails = ray.get([visit.remote(visit.remote(())) for _ in range(30)])
    counted = Counter(trails)
    assert set(map(len, counted)) == {2}
print(sum(counted.values()), len(counted), "Success!")

# prints:
# 30 1 Success!

"""Queues between tasks, with limits and timeouts."""

import ray
from ray.util.queue import Empty, Full, Queue

ray.init()
queue = Queue(maxsize=2)


@ray.remote
def produce(queue, count):
    for number in range(count):
        queue.put(number)
    return count


made = produce.remote(queue, 5)
print([queue.get(timeout=120) for _ in range(5)], ray.get(made))
queue.put("a")
queue.put("b", block=False)
try:
    queue.put("c", timeout=0.1)
except Full:
    print("full", queue.full(), queue.qsize())
print(queue.get(), queue.get(block=False))
try:
    queue.get_nowait()
except Empty:
    print("empty", queue.empty())

# prints:
# [0, 1, 2, 3, 4] 5
# full True 2
# a b
# empty True

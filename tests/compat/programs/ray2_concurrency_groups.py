"""Threads, concurrency groups, and limits on calls that wait."""

import threading

import ray

ray.init()


@ray.remote(concurrency_groups={"io": 2})
class Store:
    def __init__(self):
        self.barrier = threading.Barrier(2)

    @ray.method(concurrency_group="io")
    def meet(self):
        return self.barrier.wait(120) in (0, 1)

    def plain(self):
        return "plain"


store = Store.remote()
print(ray.get([store.meet.remote(), store.meet.remote()]), ray.get(store.plain.remote()))


@ray.remote(max_concurrency=3)
class Threads:
    def __init__(self):
        self.barrier = threading.Barrier(3)

    def meet(self):
        self.barrier.wait(120)
        return True


threads = Threads.remote()
print(ray.get([threads.meet.remote() for _ in range(3)]))


@ray.remote(max_pending_calls=1)
class Patient:
    def __init__(self):
        self.event = threading.Event()

    def wait(self):
        self.event.wait(10)


patient = Patient.remote()
try:
    for _ in range(10):
        patient.wait.remote()
except ray.exceptions.PendingCallsLimitExceeded:
    print("too many")

# prints:
# [True, True] plain
# [True, True, True]
# too many

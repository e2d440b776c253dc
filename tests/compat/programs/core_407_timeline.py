"""CORE-407, CORE-205, CREF-116: what ran when, and a span of one's own."""

import json
import os
import tempfile
import time

import ray

ray.init()


@ray.remote
def work():
    with ray.profile("inner step", extra_data={"name": "inner step"}):
        time.sleep(0.01)
    return 1


ray.get(work.remote())
names = set()
deadline = time.monotonic() + 120
while not {"work", "inner step"} <= names and time.monotonic() < deadline:
    names = {event["name"] for event in ray.timeline()}
    time.sleep(0.05)
with tempfile.TemporaryDirectory() as directory:
    path = os.path.join(directory, "timeline.json")
    ray.timeline(filename=path)
    with open(path) as file:
        events = json.load(file)
print(sorted({event["name"] for event in events} & {"work", "inner step"}))

# prints:
# ['inner step', 'work']

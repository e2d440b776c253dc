"""Lists of what a session has, its shared keys, helpers, metrics and annotations."""

import time

import ray
from ray.experimental.internal_kv import (
    _internal_kv_del,
    _internal_kv_exists,
    _internal_kv_get,
    _internal_kv_list,
    _internal_kv_put,
)
from ray.util import as_completed, inspect_serializability, log_once, map_unordered
from ray.util.annotations import Deprecated, DeveloperAPI, PublicAPI
from ray.util.metrics import Counter, Gauge, Histogram
from ray.util.state import list_nodes, list_placement_groups, list_tasks, summarize_actors, summarize_tasks

ray.init(num_cpus=2)


@ray.remote
def work(number):
    return number


print(sorted(as_completed([work.remote(number) for number in range(3)])))
print(sorted(map_unordered(work, range(10), backpressure_size=2)))
deadline = time.monotonic() + 120
while len(list_tasks(limit=1000)) < 13 and time.monotonic() < deadline:
    time.sleep(0.02)
print(summarize_tasks()["cluster"]["summary"], list_tasks(filters=[("state", "=", "FAILED")]))
print([node.state for node in list_nodes()], list_placement_groups(), summarize_actors()["cluster"]["summary"])

print(_internal_kv_put("a/1", "one"), _internal_kv_put("a/1", b"two"), _internal_kv_get("a/1"))
_internal_kv_put("a/2", "x", namespace="other")
print(_internal_kv_exists("a/2"), _internal_kv_list("a/"), _internal_kv_del("a/1"), _internal_kv_get(b"a/1"))


@PublicAPI(stability="beta")
@DeveloperAPI
@Deprecated
def annotated():
    return "as before"


counter = Counter("requests", description="how many", tag_keys=("route",))
counter.set_default_tags({"route": "/"})
counter.inc(2, tags={"route": "/a"})
Gauge("level").set(1)
Histogram("seconds", boundaries=[0.1, 1]).observe(0.5)
try:
    counter.inc(1, tags={"nothing": "x"})
except ValueError as error:
    print(error)
print(annotated(), log_once("key"), log_once("key"), inspect_serializability(counter)[0])

# prints:
# [0, 1, 2]
# [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
# {'work': {'func_or_class_name': 'work', 'type': 'NORMAL_TASK', 'state_counts': {'FINISHED': 13}}} []
# ['ALIVE'] [] {}
# False True b'two'
# False [b'a/1'] 1 None
# metric 'requests' has no tag 'nothing'; its tags are route
# ===...
# Checking Serializability of <kernel_compat_ray.metrics.Counter object at ...>
# ===...
# as before True False True

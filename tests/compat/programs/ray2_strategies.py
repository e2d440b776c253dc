"""Where tasks go: spread, to a node, to nodes with labels, in the words of 2.x."""

import ray
from ray.cluster_utils import Cluster
from ray.util.scheduling_strategies import (
    Exists,
    In,
    NodeAffinitySchedulingStrategy,
    NodeLabelSchedulingStrategy,
    NotIn,
)

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
fast = cluster.add_node(num_cpus=2, labels={"disk": "ssd"}, resources={"special": 1})
ray.init(address=cluster.address)
cluster.wait_for_nodes()
print(len(ray.nodes()), ray.cluster_resources()["CPU"])


@ray.remote
def where():
    return ray.get_runtime_context().get_node_id()


def at(strategy):
    return ray.get(where.options(scheduling_strategy=strategy).remote()) == fast.id


print(at(NodeAffinitySchedulingStrategy(fast.id, soft=False)))
print(
    at(NodeLabelSchedulingStrategy(hard={"disk": In("ssd", "nvme")})),
    at(NodeLabelSchedulingStrategy({"disk": Exists()})),
)
print(at(NodeLabelSchedulingStrategy({"disk": NotIn("ssd")})))
print(ray.get(where.options(label_selector={"disk": "ssd"}).remote()) == fast.id)
print(ray.get(where.options(label_selector={"disk": "!ssd"}).remote()) != fast.id)
wanted = {"label_selector": {"disk": "in(tape)"}, "fallback_strategy": [{"label_selector": {"disk": "in(ssd, nvme)"}}]}
print(ray.get(where.options(**wanted).remote()) == fast.id)
print(ray.get(where.options(label_selector={"ray.io/node-id": fast.id}).remote()) == fast.id)
print(ray.get(where.options(label_selector={"disk": "ssd"}, scheduling_strategy="SPREAD").remote()) == fast.id)
print([node["Labels"]["ray.io/node-id"] == node["NodeID"] for node in ray.nodes()])
print(ray.get(where.options(resources={"special": 1}).remote()) == fast.id)
print(len(set(ray.get([where.options(scheduling_strategy="SPREAD").remote() for _ in range(8)]))) >= 1)
cluster.remove_node(fast)
ray.shutdown()
cluster.shutdown()

# prints:
# 2 4.0
# True
# True True
# False
# True
# True
# True
# True
# True
# [True, True]
# True
# True

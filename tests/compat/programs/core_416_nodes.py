"""CORE-416, CORE-425, V022-043, CREF-120: the nodes, and where tasks say they run."""

import time
import warnings

import ray

warnings.simplefilter("ignore")
ray.init(num_cpus=4)
(node,) = ray.nodes()
old = {"ClientID", "IsInsertion", "NodeManagerAddress", "NodeManagerPort", "ObjectManagerPort", "alive"}
assert old | {"ObjectStoreSocketName", "RayletSocketName", "Resources", "NodeID", "Alive"} <= node.keys()
print(node["Resources"]["CPU"], node["ClientID"] == node["NodeID"], node["alive"])


@ray.remote
def address():
    return ray.services.get_node_ip_address()


places = set(ray.get([address.remote() for _ in range(20)]))
print(len(places), places == {node["NodeManagerAddress"]})
deadline = time.monotonic() + 120
while ray.available_resources().get("CPU") != 4.0 and time.monotonic() < deadline:
    time.sleep(0.01)
print(ray.cluster_resources()["CPU"], ray.available_resources()["CPU"])

# prints:
# 4.0 True True
# 1 True
# 4.0 4.0

"""Ids have Ray's methods, and are the text that kernel's functions take."""

from __future__ import annotations

import pickle

import pytest
from kernel_compat_ray.ids import ActorID, JobID, NodeID, TaskID

from .test_compat_ray_import import run

PROGRAM = """
import kernel_compat_ray.install, ray
from ray.util import placement_group, placement_group_table
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy
ray.init(num_cpus=2)
context = ray.get_runtime_context()

@ray.remote(num_cpus=1)
class Actor:
    def id(self):
        return ray.get_runtime_context().actor_id

group = placement_group([{"CPU": 1}])
actor = Actor.options(scheduling_strategy=PlacementGroupSchedulingStrategy(group)).remote()
call = actor.id.remote()
inside = ray.get(call)
print(inside == actor._ray_actor_id, inside.hex() == actor._actor_id.hex(), inside.job_id == context.job_id)
for id, kind in (
    (group.id, ray.PlacementGroupID), (actor._ray_actor_id, ray.ActorID), (context.node_id, ray.NodeID),
    (context.job_id, ray.JobID), (call.task_id(), ray.TaskID),
):
    print(kind.__name__, isinstance(id, kind), id.binary().hex() == id.hex(), kind(id.binary()) == id, id.is_nil())
print(list(placement_group_table()) == [group.id.hex()], context.node_id.hex() == ray.nodes()[0]["NodeID"])
here = NodeAffinitySchedulingStrategy(context.node_id, soft=False)
print(ray.get(ray.remote(lambda: 7).options(scheduling_strategy=here).remote()))
"""


def test_ids_of_everything() -> None:
    done = run(PROGRAM)
    kinds = ("PlacementGroupID", "ActorID", "NodeID", "JobID", "TaskID")
    assert done.stdout.splitlines() == [
        "True True True",
        *(f"{kind} True True True False" for kind in kinds),
        "True True",
        "7",
    ], done.stderr


def test_what_a_program_may_ask_for_without_a_look() -> None:
    done = run(
        "import kernel_compat_ray.install, ray; ray.init(num_cpus=1, num_gpus=0); "
        "print(ray.get(ray.remote(lambda: ray.get_runtime_context().get_accelerator_ids()['GPU']).remote())); "
        "print(repr(ray.nodes()[0]['DeathReasonMessage']))"
    )
    assert done.stdout == "[]\n''\n", done.stderr


def test_ids_are_made_and_compared() -> None:
    id = ActorID.from_random()
    assert len(id.binary()) == ActorID.size() and ActorID.from_hex(id.hex()) == id == id.hex()
    assert repr(id) == f"ActorID({id.hex()})" and pickle.loads(pickle.dumps(id)) == id
    assert type(pickle.loads(pickle.dumps(id))) is ActorID
    assert NodeID.nil().is_nil() and not JobID.from_int(1).is_nil()
    with pytest.raises(ValueError, match=r"^TaskID takes 16 bytes, not 1$"):
        TaskID(b"x")
    with pytest.raises(TypeError, match=r"^TaskID takes bytes, not a int$"):
        TaskID(3)  # type: ignore[arg-type]


CLUSTER = """
import kernel_compat_ray.install, ray
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
other = cluster.add_node(num_cpus=1)
ray.init(address=cluster.address)
known = {row["NodeID"] for row in ray.nodes()}
print({cluster.head_node.node_id, other.node_id} == known, other.node_id.hex() in known)
cluster.shutdown()
"""


def test_nodes_of_a_cluster_have_ids() -> None:
    done = run(CLUSTER)
    assert done.stdout == "True True\n", done.stderr

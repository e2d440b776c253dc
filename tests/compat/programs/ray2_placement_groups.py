"""Placement groups, in the spelling of 1.x and of 2.x."""

import warnings

import ray
from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

warnings.simplefilter("ignore")
ray.init()
group = placement_group([{"CPU": 1}, {"CPU": 1}], strategy="PACK", name="pair")
ray.get(group.ready())
print(group.wait(timeout_seconds=120), group.bundle_count, group.bundle_specs)


@ray.remote(num_cpus=1)
def where():
    return ray.util.get_current_placement_group() == group


@ray.remote(num_cpus=1)
class Inside:
    def where(self):
        return ray.get_runtime_context().get_placement_group_id()


strategy = PlacementGroupSchedulingStrategy(placement_group=group, placement_group_bundle_index=0)
print(ray.get(where.options(scheduling_strategy=strategy).remote()), ray.get(where.remote()))
inside = Inside.options(placement_group=group, placement_group_bundle_index=1).remote()
print(ray.get(inside.where.remote()) == group.id)
print(placement_group_table(group)["state"], ray.util.get_placement_group("pair") == group)
marked = placement_group([{"CPU": 0.1}], bundle_label_selector=[{"ray.io/node-id": ray.nodes()[0]["NodeID"]}])
print(marked.wait(120), marked.is_empty)
remove_placement_group(group)
try:
    ray.get(inside.where.remote())
except ray.exceptions.RayError as error:
    print(isinstance(error, (ray.exceptions.ActorDiedError, ray.exceptions.ActorPlacementGroupRemoved)))

# prints:
# True 2 [{'CPU': 1}, {'CPU': 1}]
# True False
# True
# CREATED True
# True False
# True

"""CORE-391, CORE-410: copies of one class with different needs."""

import ray

ray.init(num_cpus=6, resources={"Custom1": 1, "Custom2": 1, "Custom3": 1})


@ray.remote(num_cpus=4)
class Worker:
    def holds(self):
        held = ray.get_runtime_context().get_assigned_resources()
        return {name: held[name] for name in sorted(held)}


one = Worker.options(num_cpus=1, resources={"Custom1": 1}).remote()
two = Worker.options(num_cpus=2, resources={"Custom2": 1}).remote()
three = Worker.options(num_cpus=3, resources={"Custom3": 1}).remote()
for worker in (one, two, three):
    print(ray.get(worker.holds.remote()))

# prints:
# {'CPU': 1.0, 'Custom1': 1.0}
# {'CPU': 2.0, 'Custom2': 1.0}
# {'CPU': 3.0, 'Custom3': 1.0}

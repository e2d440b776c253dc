"""Collective operations between actors."""

import numpy as np
import ray
import ray.util.collective as col
from ray.util.collective.types import ReduceOp

ray.init()


@ray.remote
class Member:
    def join(self, size, rank):
        col.init_collective_group(size, rank, backend="gloo", group_name="pair")
        return col.get_rank("pair"), col.get_collective_group_size("pair")

    def reduce(self, value):
        array = np.full(3, float(value))
        col.allreduce(array, group_name="pair", op=ReduceOp.SUM)
        return array.tolist()


members = [Member.remote() for _ in range(2)]
print(ray.get([member.join.remote(2, rank) for rank, member in enumerate(members)]))
print(ray.get([member.reduce.remote(value) for value, member in zip((1, 2), members, strict=True)]))

# prints:
# [(0, 2), (1, 2)]
# [[3.0, 3.0, 3.0], [3.0, 3.0, 3.0]]

"""Collective operations between actors, tasks and the program: allreduce, broadcast, allgather and their like.

A member of a group calls the same operations as all others, in the same order, on its own arrays.
"""

from kernel_parallel.collective.errors import (
    CollectiveError,
    GroupError,
    MismatchError,
    RankDiedError,
    RankTimeoutError,
)
from kernel_parallel.collective.groups import (
    create_collective_group,
    destroy_collective_group,
    get_collective_group_size,
    get_rank,
    init_collective_group,
    is_group_initialized,
)
from kernel_parallel.collective.operations import (
    allgather,
    allreduce,
    barrier,
    broadcast,
    recv,
    reduce,
    reducescatter,
    send,
)
from kernel_parallel.collective.reductions import ReduceOp

__all__ = [
    "CollectiveError",
    "GroupError",
    "MismatchError",
    "RankDiedError",
    "RankTimeoutError",
    "ReduceOp",
    "allgather",
    "allreduce",
    "barrier",
    "broadcast",
    "create_collective_group",
    "destroy_collective_group",
    "get_collective_group_size",
    "get_rank",
    "init_collective_group",
    "is_group_initialized",
    "recv",
    "reduce",
    "reducescatter",
    "send",
]

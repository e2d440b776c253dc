"""Collective operations on torch tensors, over real processes.

Run it where torch is: `pytest plugins/parallel/tests_torch`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from kernel_parallel import collective
from kernel_parallel.collective import CollectiveError, GroupError, RankDiedError, RankTimeoutError, ReduceOp

import kernel


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    kernel.shutdown()
    with kernel.init(num_cpus=2):
        yield


@kernel.remote
class Member:
    def join(self, size: int, rank: int, group: str, timeout: float = 60.0) -> None:
        collective.init_collective_group(size, rank, "gloo", group, timeout)

    def all(self, group: str) -> dict[str, Any]:
        rank, size = collective.get_rank(group), collective.get_collective_group_size(group)
        found = {}
        for op in ReduceOp:
            tensor = torch.full((2, 2), rank + 1.0)
            collective.allreduce(tensor, group, op)
            found[op.name] = tensor[1, 1].item()
        tensor = torch.tensor([rank])
        collective.reduce(tensor, 1, group)
        found["reduce"] = tensor.tolist()
        collective.broadcast(tensor, 1, group)
        found["broadcast"] = tensor.tolist()
        tensors = [torch.zeros(1) for _ in range(size)]
        collective.allgather(tensors, torch.tensor([float(rank)]), group)
        found["allgather"] = torch.cat(tensors).tolist()
        tensor = torch.zeros(1)
        collective.reducescatter(tensor, [torch.tensor([10.0 * block + rank]) for block in range(size)], group)
        found["reducescatter"] = tensor.tolist()
        array = np.array([rank])
        if rank == 0:
            collective.send(array + 7, 2, group)
        if rank == 2:
            collective.recv(array, 0, group)
        found["received"] = array.tolist()
        collective.barrier(group)
        return found

    def allreduce(self, group: str) -> float:
        tensor = torch.ones(1000)
        collective.allreduce(tensor, group)
        return tensor[-1].item()

    def die(self) -> None:
        os._exit(3)


def test_every_operation_on_tensors() -> None:
    members = [Member.remote() for _ in range(3)]
    collective.create_collective_group(members, 3, [0, 1, 2], "gloo", "torch")
    for rank, found in enumerate(kernel.get([member.all.remote("torch") for member in members])):
        assert found == {
            "SUM": 6.0,
            "PRODUCT": 6.0,
            "MIN": 1.0,
            "MAX": 3.0,
            "AVERAGE": 2.0,
            "reduce": [3] if rank == 1 else [rank],
            "broadcast": [3],
            "allgather": [0.0, 1.0, 2.0],
            "reducescatter": [30.0 * rank + 3],
            "received": [7] if rank == 2 else [rank],
        }


def joined(group: str, timeout: float) -> list[Any]:
    members = [Member.remote() for _ in range(3)]
    kernel.get([member.join.remote(3, rank, group, timeout) for rank, member in enumerate(members)])
    assert kernel.get([member.allreduce.remote(group) for member in members]) == [3.0] * 3
    return members


def test_a_member_that_dies_is_named() -> None:
    members = joined("deadly", 60.0)
    waiting = [member.allreduce.remote("deadly") for member in members[:2]]
    members[2].die.remote()
    for ref in waiting:
        with pytest.raises(RankDiedError, match="rank 2 of group 'deadly' left or died while rank"):
            kernel.get(ref, timeout=50)
    with pytest.raises(GroupError, match="can't be used after a failure"):
        kernel.get(members[0].allreduce.remote("deadly"))


def test_a_member_that_is_late_is_named() -> None:
    members = joined("late", 3.0)
    for ref in [member.allreduce.remote("late") for member in members[1:]]:
        with pytest.raises(CollectiveError, match="rank 0 of group 'late' ") as caught:
            kernel.get(ref, timeout=50)
        assert caught.value.ranks == (0,)


def test_those_who_do_not_come_to_the_beginning_are_named() -> None:
    with pytest.raises(RankTimeoutError, match=r"rank 1 of group 'empty' did not come within 0.5 s"):
        kernel.get(Member.remote().join.remote(2, 0, "empty", 0.5))


def test_what_torch_refuses_is_said() -> None:
    collective.init_collective_group(1, 0, "gloo", "alone")
    with pytest.raises(GroupError, match="moves torch tensors, not a list"):
        collective.allreduce([1], "alone")
    collective.destroy_collective_group("alone")

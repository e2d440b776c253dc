"""The operations that members of a group call, all in the same order. Tensors are changed in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernel_parallel.collective.errors import GroupError
from kernel_parallel.collective.groups import CollectiveGroup, group_of
from kernel_parallel.collective.reductions import ReduceOp, op_of


def allreduce(tensor: Any, group_name: str = "default", op: ReduceOp | str = ReduceOp.SUM) -> None:
    """Let `tensor` become, in all members, the reduction of their tensors: sum, product, min, max or average."""
    group_of(group_name).allreduce(tensor, op_of(op))


def reduce(tensor: Any, dst_rank: int = 0, group_name: str = "default", op: ReduceOp | str = ReduceOp.SUM) -> None:
    """Let the tensor of `dst_rank` become the reduction of all; those of others stay as they are."""
    group = group_of(group_name)
    group.reduce(tensor, _rank(group, dst_rank), op_of(op))


def broadcast(tensor: Any, src_rank: int = 0, group_name: str = "default") -> None:
    """Let `tensor` become, in all members, that of `src_rank`."""
    group = group_of(group_name)
    group.broadcast(tensor, _rank(group, src_rank))


def allgather(tensor_list: Sequence[Any], tensor: Any, group_name: str = "default") -> None:
    """Let `tensor_list[i]` become, in all members, the tensor of rank `i`."""
    group_of(group_name).allgather(tensor_list, tensor)


def reducescatter(
    tensor: Any, tensor_list: Sequence[Any], group_name: str = "default", op: ReduceOp | str = ReduceOp.SUM
) -> None:
    """Let the `tensor` of rank `i` become the reduction of `tensor_list[i]` of all members."""
    group_of(group_name).reducescatter(tensor, tensor_list, op_of(op))


def send(tensor: Any, dst_rank: int, group_name: str = "default") -> None:
    """Send `tensor` to a rank, which calls `recv` with a tensor of the same size and type."""
    group = group_of(group_name)
    group.send(tensor, _other(group, dst_rank))


def recv(tensor: Any, src_rank: int, group_name: str = "default") -> None:
    """Let `tensor` become what a rank sends."""
    group = group_of(group_name)
    group.recv(tensor, _other(group, src_rank))


def barrier(group_name: str = "default") -> None:
    """Return when all members have come here."""
    group_of(group_name).barrier()


def _rank(group: CollectiveGroup, rank: int) -> int:
    if isinstance(rank, bool) or not isinstance(rank, int) or not 0 <= rank < group.size:
        raise GroupError(f"group {group.name!r} has the ranks 0 to {group.size - 1}, and no rank {rank!r}")
    return rank


def _other(group: CollectiveGroup, rank: int) -> int:
    if _rank(group, rank) == group.rank:
        raise GroupError(f"rank {rank} of group {group.name!r} can't send to itself")
    return rank

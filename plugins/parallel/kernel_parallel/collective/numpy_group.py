"""A group whose members exchange numpy arrays over direct connections: the backend "numpy"."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import kernel_parallel.collective.algorithms as algorithms
from kernel_parallel.collective.errors import CollectiveError, GroupError, MismatchError
from kernel_parallel.collective.membership import join
from kernel_parallel.collective.mesh import Mesh
from kernel_parallel.collective.messages import Tag
from kernel_parallel.collective.reductions import ReduceOp, check_average, function_of

Array = np.ndarray[Any, Any]


class NumpyGroup:
    """One member's side of a group. Operations of several threads run one after another."""

    backend = "numpy"

    def __init__(self, name: str, mesh: Mesh) -> None:
        self.name = name
        self.rank = mesh.rank
        self.size = mesh.size
        self._mesh = mesh
        self._lock = threading.Lock()
        self._number = 0
        self._sent: defaultdict[tuple[str, int], int] = defaultdict(int)
        self._broken: str | None = None

    def allreduce(self, tensor: Any, op: ReduceOp) -> None:
        """Let `tensor` become the reduction of all members' tensors."""
        check_average(op, check_array(tensor).dtype)
        with _flat(tensor, writes=True) as data, self._operation("allreduce"):
            algorithms.allreduce(self._mesh, data, function_of(op))
            self._average(data, op)

    def reduce(self, tensor: Any, root: int, op: ReduceOp) -> None:
        """Let the root's `tensor` become the reduction of all; those of others stay as they are."""
        check_average(op, check_array(tensor).dtype)
        with _flat(tensor, writes=self.rank == root) as data, self._operation("reduce"):
            used = data if self.rank == root else data.copy()
            algorithms.reduce(self._mesh, used, root, function_of(op))
            if self.rank == root:
                self._average(data, op)

    def broadcast(self, tensor: Any, root: int) -> None:
        """Let `tensor` become the root's."""
        with _flat(tensor, writes=self.rank != root) as data, self._operation("broadcast"):
            algorithms.broadcast(self._mesh, data, root)

    def allgather(self, tensors: Sequence[Any], tensor: Any) -> None:
        """Let `tensors[i]` become the tensor of rank `i`."""
        self._check_list(tensors, tensor)
        with _flat(tensor, writes=False) as mine, self._operation("allgather"):
            blocks = [np.ascontiguousarray(one).reshape(-1) for one in tensors]
            blocks[self.rank][...] = mine
            algorithms.allgather(self._mesh, blocks)
            for one, block in zip(tensors, blocks, strict=True):
                if not np.shares_memory(one, block):
                    one[...] = block.reshape(one.shape)

    def reducescatter(self, tensor: Any, tensors: Sequence[Any], op: ReduceOp) -> None:
        """Let `tensor` become the reduction of `tensors[rank]` of all members."""
        check_average(op, check_array(tensor).dtype)
        self._check_list(tensors, tensor, writes=False)
        with _flat(tensor, writes=True) as into, self._operation("reducescatter"):
            blocks = [np.ascontiguousarray(one).reshape(-1) for one in tensors]
            algorithms.reducescatter(self._mesh, blocks, into, function_of(op))
            self._average(into, op)

    def send(self, tensor: Any, to: int) -> None:
        """Send `tensor` to a rank; return when it is on its way."""
        with _flat(tensor, writes=False) as data, self._operation("send", to):
            self._mesh.exchange([(to, data)], [])

    def recv(self, tensor: Any, source: int) -> None:
        """Let `tensor` become what a rank sends."""
        with _flat(tensor, writes=True) as data, self._operation("recv", source):
            self._mesh.exchange([], [(source, data)])

    def barrier(self) -> None:
        """Return when all members have come here."""
        with self._operation("barrier"):
            algorithms.barrier(self._mesh)

    def close(self) -> None:
        """Leave the group."""
        self._mesh.close()

    @contextmanager
    def _operation(self, kind: str, peer: int | None = None) -> Iterator[None]:
        """Give the messages inside a number, and remember what broke the group."""
        with self._lock:
            if self._broken is not None:
                raise GroupError(
                    f"group {self.name!r} can't be used any more: {self._broken} Destroy it in all members with "
                    "destroy_collective_group(), and make it again"
                )
            self._mesh.operate(Tag(kind, self._next(kind, peer)))
            try:
                yield
            except (CollectiveError, MismatchError) as error:
                self._broken = f"{str(error).split(';')[0]}."
                raise

    def _next(self, kind: str, peer: int | None) -> int:
        if peer is None:
            self._number += 1
            return self._number
        self._sent[kind, peer] += 1
        return self._sent[kind, peer]

    def _average(self, data: Array, op: ReduceOp) -> None:
        if op is ReduceOp.AVERAGE:
            np.divide(data, self.size, out=data)

    def _check_list(self, tensors: Sequence[Any], tensor: Any, writes: bool = True) -> None:
        check_array(tensor)
        if not isinstance(tensors, list | tuple) or len(tensors) != self.size:
            raise GroupError(f"a list of {self.size} arrays is wanted, one for each rank of group {self.name!r}")
        for index, one in enumerate(tensors):
            check_array(one)
            if (one.shape, one.dtype) != (tensor.shape, tensor.dtype):
                raise GroupError(
                    f"array {index} of the list has the shape {one.shape} and the type {one.dtype}, and not those of "
                    f"the tensor, {tensor.shape} and {tensor.dtype}"
                )
            if writes:
                _check_writable(one)


def check_array(tensor: Any) -> Array:
    """Return the array. Raises GroupError for anything that is not a numpy array of plain values."""
    if not isinstance(tensor, np.ndarray) or tensor.dtype.hasobject:
        what = f"an array of {tensor.dtype}" if isinstance(tensor, np.ndarray) else f"a {type(tensor).__name__}"
        raise GroupError(
            f"the backend 'numpy' moves numpy arrays of plain values, not {what}; for torch tensors make the group "
            "with backend='gloo' or backend='nccl'"
        )
    return tensor


@contextmanager
def _flat(tensor: Any, *, writes: bool) -> Iterator[Array]:
    """Give the array as one flat stretch of memory; what is written there is in the array when the block is left."""
    array = check_array(tensor)
    if writes:
        _check_writable(array)
    flat = np.ascontiguousarray(array).reshape(-1)
    yield flat
    if writes and not np.shares_memory(flat, array) and array.size:
        array[...] = flat.reshape(array.shape)


def _check_writable(array: Array) -> None:
    if not array.flags.writeable:
        raise GroupError(
            "the array can't be written to, as arrays that came through kernel can't; give array.copy() instead"
        )


def join_numpy_group(name: str, rank: int, size: int, timeout: float) -> NumpyGroup:
    """Become a member of a group. Raises RankTimeoutError, naming who is missing, after `timeout` seconds."""
    return NumpyGroup(name, join(name, rank, size, "numpy", timeout).mesh)

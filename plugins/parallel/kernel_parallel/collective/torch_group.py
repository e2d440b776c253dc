"""A group whose members exchange torch tensors through torch.distributed: the backends "gloo" and "nccl".

Each group has a process group of its own, so that several live in one process and torch's default group stays free.
"""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import kernel
from kernel.exceptions import ActorError
from kernel_parallel.collective.errors import GroupError, RankDiedError, RankTimeoutError, names_of
from kernel_parallel.collective.membership import Membership, join, own_address
from kernel_parallel.collective.reductions import ReduceOp

_GRACE_SECONDS = 3.0
_LOOKS = 20


class TorchGroup:
    """One member's side of a group. Tensors are changed in place; numpy arrays are taken as tensors of their memory."""

    def __init__(self, name: str, backend: str, group: Any, membership: Membership) -> None:
        self.name = name
        self.backend = backend
        self.rank = membership.mesh.rank
        self.size = membership.mesh.size
        self._torch = import_torch(backend)
        self._group = group
        self._membership = membership
        self._lock = threading.Lock()
        self._number = 0

    def allreduce(self, tensor: Any, op: ReduceOp) -> None:
        """Let `tensor` become the reduction of all members' tensors."""
        distributed = self._torch.distributed
        options = distributed.AllreduceOptions()
        options.reduceOp = self._op(op)
        mine = self._tensor(tensor)
        self._run("allreduce", lambda: self._group.allreduce([mine], options))
        self._average(mine, op)

    def reduce(self, tensor: Any, root: int, op: ReduceOp) -> None:
        """Let the root's `tensor` become the reduction of all; those of others stay as they are."""
        options = self._torch.distributed.ReduceOptions()
        options.reduceOp, options.rootRank = self._op(op), root
        mine = self._tensor(tensor)
        used = mine if self.rank == root else mine.clone()
        self._run("reduce", lambda: self._group.reduce([used], options))
        if self.rank == root:
            self._average(mine, op)

    def broadcast(self, tensor: Any, root: int) -> None:
        """Let `tensor` become the root's."""
        options = self._torch.distributed.BroadcastOptions()
        options.rootRank = root
        mine = self._tensor(tensor)
        self._run("broadcast", lambda: self._group.broadcast([mine], options))

    def allgather(self, tensors: Sequence[Any], tensor: Any) -> None:
        """Let `tensors[i]` become the tensor of rank `i`."""
        self._check_list(tensors)
        into, mine = [self._tensor(one) for one in tensors], self._tensor(tensor)
        self._run("allgather", lambda: self._group.allgather([into], [mine]))

    def reducescatter(self, tensor: Any, tensors: Sequence[Any], op: ReduceOp) -> None:
        """Let `tensor` become the reduction of `tensors[rank]` of all members."""
        self._check_list(tensors)
        options = self._torch.distributed.ReduceScatterOptions()
        options.reduceOp = self._op(op)
        into, given = self._tensor(tensor), [self._tensor(one) for one in tensors]
        self._run("reducescatter", lambda: self._group.reduce_scatter([into], [given], options))
        self._average(into, op)

    def send(self, tensor: Any, to: int) -> None:
        """Send `tensor` to a rank."""
        mine = self._tensor(tensor)
        self._run("send", lambda: self._group.send([mine], to, 0))

    def recv(self, tensor: Any, source: int) -> None:
        """Let `tensor` become what a rank sends."""
        mine = self._tensor(tensor)
        self._run("recv", lambda: self._group.recv([mine], source, 0))

    def barrier(self) -> None:
        """Return when all members have come here."""
        self._run("barrier", lambda: self._group.barrier())

    def close(self) -> None:
        """Leave the group."""
        self._group = None
        self._membership.mesh.close()

    def _run(self, kind: str, start: Callable[[], Any]) -> None:
        """Run an operation to its end. What torch raises becomes an error that names the ranks to blame."""
        with self._lock:
            if self._group is None:
                raise GroupError(f"group {self.name!r} was destroyed, or can't be used after a failure: make it again")
            self._number += 1
            try:
                start().wait()
                if self.backend == "nccl":
                    self._torch.cuda.current_stream().synchronize()
            except (RuntimeError, ValueError) as error:
                raise self._failure(kind, error) from error

    def _failure(self, kind: str, error: Exception) -> Exception:
        """Return the error that names who is to blame: who is gone, or else who has not failed in this operation."""
        if isinstance(error, ValueError) or "tensor" in str(error).lower():
            return GroupError(f"{kind} of group {self.name!r} was refused by torch: {error}")
        self._group = None
        gone = self._gone()
        ranks = gone or self._silent() or [rank for rank in range(self.size) if rank != self.rank]
        what = "left or died" if gone else "did not come in time"
        make = RankDiedError if gone else RankTimeoutError
        return make(
            f"{names_of(ranks)} of group {self.name!r} {what} while rank {self.rank} was in {kind}; destroy the group "
            f"in all members and make it again (torch says: {error})",
            ranks,
        )

    def _gone(self) -> list[int]:
        """Return the ranks whose processes are gone; torch may notice it a little earlier than their connections."""
        for _ in range(_LOOKS):
            if gone := self._membership.mesh.gone():
                return gone
            time.sleep(_GRACE_SECONDS / 10 / _LOOKS)
        return []

    def _silent(self) -> list[int]:
        """Return the ranks that have not failed in the same operation: those whom all others waited for."""
        meeting = self._membership.meeting
        try:
            asked = meeting.coordinator.failed_in.remote(meeting.number, self.rank, self._number, _GRACE_SECONDS)
            found: list[int] = kernel.get(asked, timeout=_GRACE_SECONDS + 10)
        except (ActorError, TimeoutError):
            return []
        return found

    def _tensor(self, value: Any) -> Any:
        torch = self._torch
        if isinstance(value, torch.Tensor):
            return value
        if type(value).__module__ == "numpy":
            return torch.from_numpy(value)
        raise GroupError(f"the backend {self.backend!r} moves torch tensors, not a {type(value).__name__}")

    def _op(self, op: ReduceOp) -> Any:
        known = self._torch.distributed.ReduceOp
        return {ReduceOp.PRODUCT: known.PRODUCT, ReduceOp.MIN: known.MIN, ReduceOp.MAX: known.MAX}.get(op, known.SUM)

    def _average(self, tensor: Any, op: ReduceOp) -> None:
        if op is ReduceOp.AVERAGE:
            tensor.div_(self.size)

    def _check_list(self, tensors: Sequence[Any]) -> None:
        if not isinstance(tensors, list | tuple) or len(tensors) != self.size:
            raise GroupError(f"a list of {self.size} tensors is wanted, one for each rank of group {self.name!r}")


def import_torch(backend: str) -> Any:
    """Return torch. Raises GroupError, which says what to install, when it or the backend is not there."""
    try:
        torch = importlib.import_module("torch")
        distributed = importlib.import_module("torch.distributed")
    except ImportError as error:
        raise GroupError(
            f"the backend {backend!r} needs torch, which is not installed here ({error}): pip install torch, or use "
            "backend='numpy' with numpy arrays"
        ) from error
    there = {"gloo": distributed.is_gloo_available, "nccl": distributed.is_nccl_available}[backend]
    if not distributed.is_available() or not there():
        raise GroupError(f"this build of torch has no {backend!r}; use backend='numpy' with numpy arrays")
    return torch


def join_torch_group(name: str, rank: int, size: int, backend: str, timeout: float) -> TorchGroup:
    """Become a member of a group. Raises RankTimeoutError, naming who is missing, after `timeout` seconds."""
    torch = import_torch(backend)
    distributed, patience = torch.distributed, timedelta(seconds=timeout)
    host = own_address()
    store = None
    if rank == 0:
        store = distributed.TCPStore(host, 0, size, True, patience, wait_for_workers=False)
    membership = join(name, rank, size, backend, timeout, (host, store.port) if store else None)
    if store is None:
        address, port = membership.shared[0]
        store = distributed.TCPStore(address, port, size, False, patience, wait_for_workers=False)
    prefixed = distributed.PrefixStore(f"{name}/{membership.meeting.number}", store)
    if backend == "gloo":
        group = distributed.ProcessGroupGloo(prefixed, rank, size, patience)
    else:
        options = distributed.ProcessGroupNCCL.Options()
        options._timeout = patience
        group = distributed.ProcessGroupNCCL(prefixed, rank, size, options)
    return TorchGroup(name, backend, group, membership)

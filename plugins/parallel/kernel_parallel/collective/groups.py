"""Make, find and leave the groups that this process is a member of."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Protocol

import kernel
from kernel.exceptions import ActorDiedError, ActorNotFoundError
from kernel_parallel.collective.errors import GroupError
from kernel_parallel.collective.numpy_group import join_numpy_group
from kernel_parallel.collective.reductions import ReduceOp
from kernel_parallel.collective.rendezvous import Declared, coordinator_name, coordinator_of
from kernel_parallel.collective.torch_group import join_torch_group

DEFAULT_TIMEOUT_SECONDS = 60.0
_BACKENDS = {"numpy": "numpy", "gloo": "gloo", "torch_gloo": "gloo", "nccl": "nccl"}


class CollectiveGroup(Protocol):
    """One member's side of a group, whatever its backend."""

    name: str
    backend: str
    rank: int
    size: int

    def allreduce(self, tensor: Any, op: ReduceOp) -> None: ...
    def reduce(self, tensor: Any, root: int, op: ReduceOp) -> None: ...
    def broadcast(self, tensor: Any, root: int) -> None: ...
    def allgather(self, tensors: Sequence[Any], tensor: Any) -> None: ...
    def reducescatter(self, tensor: Any, tensors: Sequence[Any], op: ReduceOp) -> None: ...
    def send(self, tensor: Any, to: int) -> None: ...
    def recv(self, tensor: Any, source: int) -> None: ...
    def barrier(self) -> None: ...
    def close(self) -> None: ...


_lock = threading.Lock()
_groups: dict[tuple[str, str], CollectiveGroup] = {}
"""By who is a member (an actor, a task, or the program) and the name of the group."""
_declared: dict[str, Any] = {}
"""The coordinators of the groups that this program declared, which live as long as they are here."""


def init_collective_group(
    world_size: int,
    rank: int,
    backend: str = "numpy",
    group_name: str = "default",
    timeout: float = DEFAULT_TIMEOUT_SECONDS,
) -> None:
    """Become the member `rank` of a group of `world_size`; return when all members have come.

    backend: "numpy" for numpy arrays, "gloo" or "nccl" for torch tensors. timeout: seconds to wait for the others, and
    for any progress in later operations. Raises GroupError for what can't be, RankTimeoutError for who did not come.
    """
    backend = _backend(backend)
    if isinstance(rank, bool) or not isinstance(rank, int) or not 0 <= rank < world_size:
        raise GroupError(f"the ranks of a group of {world_size!r} are 0 to world_size - 1, and not {rank!r}")
    key = (_member(), group_name)
    if key in _groups:
        raise GroupError(f"this process is rank {_groups[key].rank} of group {group_name!r} already")
    if backend == "numpy":
        group: CollectiveGroup = join_numpy_group(group_name, rank, world_size, timeout)
    else:
        group = join_torch_group(group_name, rank, world_size, backend, timeout)
    with _lock:
        _groups[key] = group


def create_collective_group(
    actors: Sequence[Any],
    world_size: int,
    ranks: Sequence[int],
    backend: str = "numpy",
    group_name: str = "default",
    timeout: float = DEFAULT_TIMEOUT_SECONDS,
) -> None:
    """Declare that actors are a group: each becomes a member by its first operation.

    actors, ranks: the handles and the rank of each. The rest as in `init_collective_group`. Keep this program running
    for as long as the group is to be used.
    """
    backend = _backend(backend)
    if len(actors) != world_size or sorted(ranks) != list(range(world_size)):
        raise GroupError(
            f"a group of {world_size} has that many actors and the ranks 0 to {world_size - 1}, each once; these are "
            f"{len(actors)} actors and the ranks {list(ranks)}"
        )
    numbers = {actor._actor_id.hex(): rank for actor, rank in zip(actors, ranks, strict=True)}
    coordinator = coordinator_of(group_name)
    kernel.get(coordinator.declare.remote(Declared(numbers, world_size, backend, timeout)))
    _declared[group_name] = coordinator


def destroy_collective_group(group_name: str = "default") -> None:
    """Leave a group, or take back its declaration; nothing happens where there is neither."""
    with _lock:
        group = _groups.pop((_member(), group_name), None)
        coordinator = _declared.pop(group_name, None)
    if group is not None:
        group.close()
    if coordinator is not None:
        kernel.kill(coordinator)


def is_group_initialized(group_name: str = "default") -> bool:
    """Return whether this actor, task or program is a member of the group."""
    return (_member(), group_name) in _groups


def get_rank(group_name: str = "default") -> int:
    """Return the rank of this member; -1 when it is not one."""
    try:
        return group_of(group_name).rank
    except GroupError:
        return -1


def get_collective_group_size(group_name: str = "default") -> int:
    """Return how many members the group has; -1 when this process is not one of them."""
    try:
        return group_of(group_name).size
    except GroupError:
        return -1


def group_of(name: str) -> CollectiveGroup:
    """Return this member's side of a group; become a member first, if the driver declared it so."""
    group = _groups.get((_member(), name))
    if group is None:
        declared = _declaration(name)
        actor = kernel.get_runtime_context().get_actor_id()
        if declared is None or actor is None or actor not in declared.ranks:
            raise GroupError(
                f"this process is no member of group {name!r}; call init_collective_group(world_size, rank, "
                f"group_name={name!r}) here, or create_collective_group(...) in the driver"
            )
        rank = declared.ranks[actor]
        init_collective_group(declared.size, rank, declared.backend, name, declared.timeout)
        group = _groups[_member(), name]
    return group


def _declaration(name: str) -> Declared | None:
    try:
        coordinator = kernel.get_actor(coordinator_name(name))
        found: Declared | None = kernel.get(coordinator.declared.remote())
    except (ActorNotFoundError, ActorDiedError):  # it ends when nobody has it any more
        return None
    return found


def _member() -> str:
    """Return who runs here: members in one process, such as one task after another, do not share groups."""
    if not kernel.is_initialized():
        kernel.init()
    context = kernel.get_runtime_context()
    return context.get_actor_id() or context.get_task_id() or f"program {context.get_job_id()}"


def _backend(name: str) -> str:
    known = _BACKENDS.get(str(name).lower())
    if known is None:
        raise GroupError(f"there is no backend {name!r}; known are 'numpy', 'gloo' and 'nccl'")
    return known

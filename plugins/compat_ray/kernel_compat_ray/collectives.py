"""`ray.util.collective`, whose back ends have other names and defaults."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any

from kernel.parallel import collective


class Backend:
    """Names of back ends."""

    NCCL = "nccl"
    GLOO = "gloo"
    MPI = "mpi"
    UNRECOGNIZED = "unrecognized"


def init_collective_group(
    world_size: int, rank: int, backend: str = Backend.NCCL, group_name: str = "default", **others: Any
) -> None:
    """Become the member `rank` of a group; without torch the back end "gloo" is that of numpy arrays."""
    collective.init_collective_group(world_size, rank, _backend(backend), group_name, **_seconds(others))


def create_collective_group(
    actors: Sequence[Any],
    world_size: int,
    ranks: Sequence[int],
    backend: str = Backend.NCCL,
    group_name: str = "default",
    **others: Any,
) -> None:
    """Declare that actors are a group."""
    collective.create_collective_group(actors, world_size, ranks, _backend(backend), group_name, **_seconds(others))


def nccl_available() -> bool:
    """Return whether groups can use NCCL."""
    return _in_torch("is_nccl_available")


def gloo_available() -> bool:
    """Return whether groups can use Gloo; without it "gloo" is the back end of numpy arrays."""
    return True


def is_backend_available(backend: str) -> bool:
    """Return whether groups can use a back end."""
    known = {Backend.NCCL: nccl_available, Backend.GLOO: gloo_available}
    return backend in known and known[backend]()


def _in_torch(question: str) -> bool:
    if importlib.util.find_spec("torch") is None:
        return False
    distributed = importlib.import_module("torch.distributed")
    return bool(distributed.is_available() and getattr(distributed, question)())


def _backend(name: str) -> str:
    with_numpy = name in (Backend.GLOO, "torch_gloo") and importlib.util.find_spec("torch") is None
    return "numpy" if with_numpy else name


def _seconds(others: dict[str, Any]) -> dict[str, float]:
    """Return the patience that was given, which is in milliseconds with Ray."""
    milliseconds = others.pop("gloo_timeout", None)
    return {} if milliseconds is None else {"timeout": milliseconds / 1000}

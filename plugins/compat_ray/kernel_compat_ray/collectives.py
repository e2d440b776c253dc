"""Names of `ray.util.collective.types` that kernel.parallel has no use for."""

from __future__ import annotations


class Backend:
    """Names of back ends."""

    NCCL = "nccl"
    GLOO = "gloo"
    MPI = "mpi"
    UNRECOGNIZED = "unrecognized"

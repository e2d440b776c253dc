"""Offer `ray.util.multiprocessing.Pool`: kernel's pool, with Ray's options for where it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kernel.parallel import multiprocessing
from kernel_compat_ray.environment import kernel_address
from kernel_compat_ray.options import translate


class Pool(multiprocessing.Pool):  # type: ignore[misc, name-defined]
    """Is a standard library's pool; `ray_address` names its cluster, `ray_remote_args` the needs of its workers."""

    def __init__(
        self,
        processes: int | None = None,
        initializer: Callable[..., Any] | None = None,
        initargs: Iterable[Any] | None = None,
        maxtasksperchild: int | None = None,
        context: Any = None,
        ray_address: str | None = None,
        ray_remote_args: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            processes,
            initializer,
            initargs or (),
            maxtasksperchild,
            context,
            kernel_address=kernel_address(ray_address) if ray_address else None,
            kernel_remote_args=translate(ray_remote_args or {}),
        )

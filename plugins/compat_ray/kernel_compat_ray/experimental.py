"""The parts of `ray.experimental` and `ray.internal` that have a meaning here."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import kernel
from kernel_compat_ray import calls

__tracebackhide__ = True  # A failed task's lines are the program's.


def get(object_refs: Any, timeout: float | None = None) -> Any:
    """Return values for a reference, a list, a tuple, an array or a mapping of them."""
    if isinstance(object_refs, Mapping):
        values = kernel.get(list(object_refs.values()), timeout=timeout)
        return dict(zip(object_refs, values, strict=True))
    if isinstance(object_refs, tuple) or hasattr(object_refs, "__array__"):
        return kernel.get(list(object_refs), timeout=timeout)
    return calls.get(object_refs, timeout)


def wait(object_refs: Any, num_returns: int = 1, timeout: float | None = None) -> tuple[list[Any], list[Any]]:
    """Wait as `ray.wait` does, for references in a tuple or an array as well."""
    return calls.wait(list(object_refs), num_returns, timeout)


def set_resource(resource_name: str, capacity: float, client_id: str | None = None, node_id: str | None = None) -> None:
    """Set the total of a custom resource (0 deletes it) of a node, by default of the one where this runs."""
    kernel.set_resource(resource_name, capacity, node_id or client_id)


def free(object_refs: Any, local_only: bool = False) -> None:
    """Do nothing: an object goes when its last reference goes, so delete the references."""


def global_gc() -> None:
    """Collect garbage in this process; objects elsewhere go with their references."""
    gc.collect()


def memory_summary(address: str | None = None, **others: Any) -> str:
    """Return what `kernel memory` shows of the session."""
    where = address or str(kernel.init(ignore_reinit_error=True)["session_dir"])
    command = [sys.executable, "-m", "kernel.cli.main", "memory", "--address", where]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def as_future(object_ref: kernel.ObjectRef) -> asyncio.Future[Any]:
    """Return an asyncio future of the value, for the running loop."""
    return object_ref.as_future()


def nothing_to_do(*args: Any) -> None:
    """Do nothing: references can be awaited without preparation."""

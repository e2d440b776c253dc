"""Which runtime this process uses: one at a time, set by init and by workers, read by the public API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernel_spec.errors import NotInitializedError

if TYPE_CHECKING:
    from kernel.runtime.interface import Runtime

_runtime: Runtime | None = None


def set_runtime(runtime: Runtime | None) -> None:
    """Make `runtime` the one that the public API uses."""
    global _runtime
    _runtime = runtime


def find_runtime() -> Runtime | None:
    """Return the runtime, or None."""
    return _runtime


def get_runtime() -> Runtime:
    """Return the runtime; raises NotInitializedError when there is none."""
    if _runtime is None:
        raise NotInitializedError("kernel is not initialized in this process; call kernel.init() first")
    return _runtime

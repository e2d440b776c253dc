"""The runtime of this process: one at a time, set by `init` and by workers, used by the public API."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kernel.runtime import object_ref
from kernel_spec.errors import NotInitializedError

if TYPE_CHECKING:
    from kernel.runtime.interface import Runtime

_runtime: Runtime | None = None
_left_in_child = False
_exiting = False


def set_runtime(runtime: Runtime | None) -> None:
    """Make `runtime` the one that the public API uses."""
    global _runtime, _left_in_child
    _runtime = runtime
    _left_in_child = False


def leave_in_child() -> None:
    """Remove the runtime in a forked child: the session is its parent's."""
    global _runtime, _left_in_child
    if _runtime is not None:
        _runtime = None
        _left_in_child = True


def leave_at_exit() -> None:
    """Start no session implicitly from now on, because the program is ending, and its session with it."""
    global _exiting
    _exiting = True


def check_may_start() -> None:
    """Raise NotInitializedError where a session must not be started implicitly.

    That is in a child forked from a session, and in a program that is ending.
    """
    if _exiting or sys.is_finalizing():
        raise NotInitializedError(
            "kernel is not initialized in this process, and starts no session any more: the program is ending"
        )
    if _left_in_child:
        raise NotInitializedError(
            "kernel is not initialized in this process: it was forked from one that is in a session, and a session "
            "is not inherited. Use it in the parent, or call kernel.init() here to begin or join one"
        )


def find_runtime() -> Runtime | None:
    """Return the runtime, or None."""
    return _runtime


def get_runtime() -> Runtime:
    """Return the runtime of this process. Raises NotInitializedError outside of a session."""
    if _runtime is None:
        check_may_start()
        raise NotInitializedError("kernel is not initialized in this process; call kernel.init() first")
    return _runtime


object_ref.get_runtime = get_runtime

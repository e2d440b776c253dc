"""Define get, put, wait, cancel, kill and get_actor, with the arguments of all generations."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from typing import Any

import kernel
from kernel.exceptions import ActorNotFoundError
from kernel_compat_ray.deprecation import warn_renamed
from kernel_compat_ray.environment import WAIT_MILLISECONDS
from kernel_compat_ray.errors import NotSupportedError
from kernel_compat_ray.option_names import OPTIONS_REFUSED
from kernel_spec.ids import SHORT_ID_BYTES

__tracebackhide__ = True  # A failed task's lines are the program's.

_UNSAID = re.compile(f"[0-9a-f]{{{2 * SHORT_ID_BYTES}}}")
"""Matches the namespace of a program that has chosen none: its job's id."""


def get(object_refs: Any = None, timeout: float | None = None, **others: Any) -> Any:
    """Return the value of a reference or the values of a list of them; `timeout` is in seconds.

    An `ObjectRefGenerator` of `num_returns="dynamic"` gives the list of its values' references. Responses of Serve's
    handles, which were references once, give their results.
    """
    refs = _refs("get", object_refs, others)
    if _is_response(refs):
        return refs.result(timeout)
    if isinstance(refs, list) and any(map(_is_response, refs)):
        deadline = None if timeout is None else time.monotonic() + timeout
        return [get(each, None if deadline is None else max(0.0, deadline - time.monotonic())) for each in refs]
    if isinstance(refs, kernel.ObjectRef):
        return kernel.get(refs, timeout=timeout)
    if isinstance(refs, (list, tuple)) and not refs:
        return []
    return kernel.get(refs, timeout=timeout)


def put(value: Any, weakref: bool = False, *, _owner: Any = None, **others: Any) -> kernel.ObjectRef:
    """Store a value and return a reference to it; with `weakref` it may be dropped when space is short."""
    if isinstance(value, kernel.ObjectRef):
        raise TypeError("ray.put() of a reference is not allowed: it is in the store already; put [ref] to wrap it")
    if _owner is not None:
        raise NotSupportedError(f"ray.put(_owner=...) is not supported: {OPTIONS_REFUSED['_owner']}")
    if weakref:
        warn_renamed("ray.put(weakref=True)", "kernel.put(value, weak=True)")
    others.pop("_tensor_transport", None)
    _refuse("put", others)
    return kernel.put(value, weak=bool(weakref))


def wait(
    object_refs: Any = None,
    num_returns: int = 1,
    timeout: float | None = None,
    fetch_local: bool = True,
    **others: Any,
) -> tuple[list[Any], list[Any]]:
    """Wait for `num_returns` of the references, at most `timeout` seconds; return (ready, others), both in order.

    With KERNEL_RAY_WAIT_MILLISECONDS=1 (`kernel ray-run --wait-milliseconds`) the timeout is in milliseconds, as it
    was before release 0.7.
    """
    refs = _refs("wait", object_refs, others)
    if isinstance(refs, kernel.ObjectRef):
        raise TypeError("wait() takes a list of references, not one alone: ray.wait([ref])")
    if isinstance(refs, (list, tuple)) and not refs:
        return [], []
    if timeout is not None and os.environ.get(WAIT_MILLISECONDS) == "1":
        timeout = timeout / 1000
    return kernel.wait(refs, num_returns=num_returns, timeout=timeout, fetch_local=fetch_local)


def cancel(object_ref: Any = None, *, force: bool = False, recursive: bool = True, **others: Any) -> None:
    """Cancel the task that makes a reference; `get` of it then raises TaskCancelledError."""
    ref = others.pop("object_id", object_ref) if "object_id" in others else object_ref
    _refuse("cancel", others)
    kernel.cancel(ref, force=force, recursive=recursive)


def kill(actor: Any, *, no_restart: bool = True) -> None:
    """End an actor's process at once. Raises ValueError for anything but a handle."""
    if not isinstance(actor, kernel.ActorHandle):
        raise ValueError(f"ray.kill() takes an actor's handle, not {actor!r}; use ray.cancel() for tasks")
    kernel.kill(actor, no_restart=no_restart)


def get_actor(name: str, namespace: str | None = None) -> kernel.ActorHandle:
    """Return a handle to the living actor of that name. Raises ValueError if there is no such actor.

    A program without a namespace also finds a detached actor of another such program, if only one has that name:
    before there were namespaces, all programs shared the names of detached actors.
    """
    if not name:
        raise ValueError("ray.get_actor() takes the name of an actor, which must not be empty")
    try:
        return kernel.get_actor(name, namespace)
    except ActorNotFoundError:
        elsewhere = [] if namespace is not None else _detached_elsewhere(name)
        if len(elsewhere) != 1:
            raise
    return kernel.get_actor(name, elsewhere[0])


def _detached_elsewhere(name: str) -> list[str]:
    """Return the namespaces of other programs without a chosen one that have living detached actors of that name.

    The list is empty if this program has chosen a namespace.
    """
    context = kernel.get_runtime_context()
    if context.namespace != context.get_job_id():
        return []
    return [
        row["namespace"]
        for row in kernel.actors()
        if row["name"] == name and row["detached"] and row["state"] != "DEAD" and _UNSAID.fullmatch(row["namespace"])
    ]


def _refs(verb: str, given: Any, others: dict[str, Any]) -> Any:
    for old in ("object_ids", "object_id", "ray_waitables"):
        if old in others:
            given = others.pop(old)
    others.pop("worker", None)
    others.pop("_use_object_store", None)
    _refuse(verb, others)
    return list(given) if isinstance(given, Sequence) and not isinstance(given, (list, tuple, str)) else given


def _is_response(value: Any) -> bool:
    """Return whether a value is what a handle of Serve has returned, whose library need not be installed."""
    return hasattr(type(value), "_to_object_ref_sync")


def _refuse(verb: str, others: dict[str, Any]) -> None:
    if others:
        raise TypeError(f"ray.{verb}() got an unexpected argument {next(iter(others))!r}")

"""Add methods that only Ray's handles and references have to kernel's own classes.

Handles are made in many places (creation, `get_actor`, unpickling), and a wrapper would be needed in all of them. The
added names are Ray's alone, and change the meaning of nothing in kernel.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from types import GenericAlias
from typing import Any

import kernel
from kernel_compat_ray.graphs import ClassMethodNode
from kernel_compat_ray.ids import ActorID, PlacementGroupID, TaskID
from kernel_compat_ray.options import translate


def add_to_handles() -> None:
    """Let handles and references answer to Ray's names, too. Safe to call twice."""
    handle: Any = kernel.ActorHandle
    if hasattr(handle, "_ray_actor_id"):
        return
    handle.__ray_ready__ = property(lambda self: self._ray_ready)
    handle.__ray_call__ = property(lambda self: self._ray_call)
    handle.__ray_terminate__ = property(lambda self: handle.__getattr__(self, "__kernel_terminate__"))
    handle._ray_actor_id = property(lambda self: ActorID(self._actor_id))
    handle.__getattr__ = _with_translated_options(handle.__getattr__)
    reference: Any = kernel.ObjectRef
    reference.is_nil = lambda self: False
    task_id = reference.task_id
    reference.task_id = lambda self: TaskID(task_id(self))
    reference.job_id = lambda self: self.task_id().job_id
    group: Any = kernel.PlacementGroup
    group.id = property(lambda self: PlacementGroupID(self._id))
    reference.size = lambda self: len(self.binary())
    stream: Any = kernel.ObjectRefGenerator
    stream.next_ready = lambda self: not self.is_finished() and bool(kernel.wait([self], timeout=0)[0])
    for generic in (handle, reference, stream):
        generic.__class_getitem__ = classmethod(GenericAlias)  # For annotations such as ObjectRef[int].


def _with_translated_options(find: Any) -> Any:
    """Return the lookup of a handle's methods, whose class learns the old options when the first one is made."""

    @functools.wraps(find)
    def find_method(self: Any, name: str) -> Any:
        method = find(self, name)
        cls: Any = type(method)
        if not hasattr(cls, "_remote"):
            original = cls.options
            cls.options = lambda self, **options: original(self, **translate(options))
            cls._remote = _remote
            cls.bind = lambda self, *args, **kwargs: ClassMethodNode(self, args, kwargs)
        return method

    return find_method


def _remote(self: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Any) -> Any:
    method = self.options(**options) if options else self
    return method.remote(*(args or ()), **(kwargs or {}))

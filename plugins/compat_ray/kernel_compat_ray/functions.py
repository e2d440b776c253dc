"""Remote functions as Ray's programs use them: kernel's, with the options of all generations."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import kernel
from kernel_compat_ray.graphs import FunctionNode
from kernel_compat_ray.options import translate

__tracebackhide__ = True  # A failed task's lines are the program's.


class RemoteFunction:
    """Represents a function under `@ray.remote`. `remote` is kernel's own method."""

    def __init__(self, function: Any, options: Mapping[str, Any], inner: Any = None) -> None:
        if inner is None:
            inner = kernel.remote(**translate(options))(function) if options else kernel.remote(function)
        self._function = function
        self._inner = inner
        functools.update_wrapper(self, function)
        self.remote = inner.remote

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._inner(*args, **kwargs)

    def options(self, **options: Any) -> RemoteFunction:
        """Return the same function with other options; this one stays as it is."""
        return RemoteFunction(self._function, {}, self._inner.options(**translate(options)))

    def _remote(self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Any) -> Any:
        return self.options(**options).remote(*(args or ()), **(kwargs or {}))

    def bind(self, *args: Any, **kwargs: Any) -> FunctionNode:
        """Return the call as a node of a graph, to be made by `execute()`."""
        return FunctionNode(self, args, kwargs)

    def __reduce__(self) -> Any:
        return RemoteFunction, (self._function, {}, self._inner)

    def __repr__(self) -> str:
        return repr(self._inner)

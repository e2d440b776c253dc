"""Mark a handler that gets lists, by `@serve.accept_batch`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from kernel.serve.errors import DeploymentError

F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__serve_accepts_batches__"


def accept_batch(function: F) -> F:
    """Declare that a backend's function, or its class's `__call__`, takes requests as a list, and returns a list.

    How many it gets at most is `max_batch_size` of the backend's config; `serve.context.batch_size` says how many it
    has got. Raises DeploymentError for what is no function.
    """
    if not callable(function) or inspect.isclass(function):
        raise DeploymentError(f"@serve.accept_batch is for a function or a method such as __call__, not {function!r}")
    setattr(function, _MARK, True)
    return function


def accepts_batches(func_or_class: Callable[..., Any]) -> bool:
    """Return whether a backend's handler was declared to take lists."""
    handler = func_or_class.__call__ if inspect.isclass(func_or_class) else func_or_class
    return bool(getattr(handler, _MARK, False))

"""Make functions and classes remote by `ray.remote`, as a decorator, with options, or as a plain call."""

from __future__ import annotations

import inspect
from typing import Any

from kernel.exceptions import OptionError
from kernel_compat_ray.actors import ActorClass
from kernel_compat_ray.functions import RemoteFunction


def remote(*args: Any, **options: Any) -> Any:
    """Make a function or class remote: `@ray.remote`, `@ray.remote(num_cpus=2)`, `ray.remote(f)`."""
    if len(args) == 1 and not options:
        return _make_remote(args[0], {})
    if args or not options:
        raise OptionError("use @ray.remote alone or with options, as in @ray.remote(num_returns=2)")
    return lambda target: _make_remote(target, options)


def _make_remote(target: Any, options: dict[str, Any]) -> Any:
    if isinstance(target, (RemoteFunction, ActorClass)):
        raise OptionError(f"{target!r} is remote already; use .options(...) to change it")
    if inspect.isclass(target):
        return ActorClass(target, options)
    return RemoteFunction(target, options)

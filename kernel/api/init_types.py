"""Check the names and types of the arguments of `kernel.init`, before anything starts."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import ParamSpec, TypeVar

from kernel_spec.errors import OptionError
from kernel_spec.nearest import did_you_mean

P = ParamSpec("P")
R = TypeVar("R")

_NUMBER = (Real,), "a number"
_BYTES = (Real,), "a number of bytes"
_TEXT = (str,), "a string"
_PATH = (str, os.PathLike), "a path"
_MAPPING = (Mapping,), "a dict"
_LEVELS = ("debug", "info", "warning", "error", "critical")
_FLAGS = ("local_mode", "log_to_driver", "show_failures")

_TYPES: dict[str, tuple[tuple[type, ...], str]] = {
    "address": _TEXT,
    "num_cpus": _NUMBER,
    "num_gpus": _NUMBER,
    "resources": _MAPPING,
    "memory": _BYTES,
    "memory_limit": _BYTES,
    "memory_threshold": _NUMBER,
    "memory_quotas": _TEXT,
    "object_store_memory": _BYTES,
    "driver_object_store_memory": _BYTES,
    "object_store_directory": _PATH,
    "spill_directory": _PATH,
    "labels": _MAPPING,
    "namespace": _TEXT,
    "runtime_env": _MAPPING,
    "temp_dir": _PATH,
    "logging_level": ((int, str), "a level such as 'info' or logging.INFO"),
    "object_id_seed": ((int, str), "a number or a string"),
    "token_file": _PATH,
    "tls": _PATH,
    "preload": ((Sequence,), "a list of names of modules"),
}


def check_types(given: object) -> None:
    """Raise OptionError for an attribute of `given` (`SessionOptions`) of a wrong type.

    Flags are checked too, because any non-empty string would count as true.
    """
    for name in _FLAGS:
        value = getattr(given, name)
        if (
            value is not None and not isinstance(value, int) and type(value).__name__ not in ("bool", "bool_")
        ):  # numpy's
            raise OptionError(
                f"init({name}={_shown(value)}): {name} must be True or False, not a {type(value).__name__}"
            )
    for name, (types, words) in _TYPES.items():
        value = getattr(given, name)
        if value is not None and not isinstance(value, types):
            raise OptionError(f"init({name}={_shown(value)}): {name} must be {words}, not a {type(value).__name__}")
    level = getattr(given, "logging_level")  # noqa: B009  (`given` has no declared attributes)
    if isinstance(level, str) and level.lower() not in _LEVELS:
        near = did_you_mean(level.lower(), _LEVELS)
        raise OptionError(f"logging_level must be one of {', '.join(_LEVELS)}, not {level!r}{near}")


def check_names(function: Callable[P, R]) -> Callable[P, R]:
    """Return `function` with a check: it raises OptionError for an unknown keyword, and suggests the nearest one."""
    known = [name for name in inspect.signature(function).parameters]

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        __tracebackhide__ = True
        for name in kwargs:
            if name not in known:
                hint = did_you_mean(name, known, f"it has {', '.join(known)}")
                raise OptionError(f"{function.__name__}() has no argument {name!r}{hint}")
        return function(*args, **kwargs)

    return checked


def argument_of(resource: str) -> str:
    """Return the argument of `init` that sets the quantity of `resource`, for messages."""
    own = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}.get(resource)
    return own or f"resources[{resource!r}]"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."

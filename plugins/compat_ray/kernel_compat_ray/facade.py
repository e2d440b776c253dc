"""Modules with Ray's names: each looks its attributes up in the table when they are first used."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from kernel_compat_ray.deprecation import warn_renamed
from kernel_compat_ray.errors import NotSupportedError
from kernel_compat_ray.names import CONSTANTS, LIBRARIES, MODULES_RENAMED, NAMES, REFUSED, RENAMED
from kernel_spec.nearest import nearest

_PACKAGE = __package__ or ""
_FALLBACK = "*"
"""Key of a module in the table whose names this module has, too. Its own names come first."""


def make_module(name: str) -> ModuleType:
    """Return the module of that name, not yet in `sys.modules`.

    It is a plain module with a `__getattr__`: one of a class of its own could not be pickled by its name.
    """
    module = ModuleType(name, f"{name}, as kernel has it: see docs/migrating.md of kernel.")
    module.__path__ = []
    module.__file__ = sys.modules[f"{_PACKAGE}.names"].__file__
    module.__getattr__ = lambda attribute: _look_up(module, attribute)  # type: ignore[method-assign]
    module.__dir__ = lambda: sorted({*vars(module), *public_names(name)})  # type: ignore[method-assign]
    return module


def bind_names_of_modules(module: ModuleType) -> None:
    """Set the names that a module below has as well, such as `ray.util.placement_group`, after that one is imported.

    The import of a module sets it in its parent, and would take the name away from the function.
    """
    own = {*NAMES[module.__name__], *_names_of_fallback(module.__name__)}
    for full in [name for name in NAMES if name.rpartition(".")[0] == module.__name__]:
        name = full.rpartition(".")[2]
        if name in own:
            importlib.import_module(full)
            vars(module)[name] = resolve(full)


def is_facade(module: ModuleType) -> bool:
    """Return whether `make_module` made it."""
    return getattr(module, "__file__", None) == sys.modules[f"{_PACKAGE}.names"].__file__


def _look_up(module: ModuleType, name: str) -> Any:
    """Return what a name of Ray's module is, and have the module keep it."""
    if name == "__all__":
        return public_names(module.__name__)
    full = f"{module.__name__}.{name}"
    if full in RENAMED:
        warn_renamed(full, RENAMED[full])
        return resolve(RENAMED[full])
    if is_module(full) and name not in NAMES[module.__name__]:
        return importlib.import_module(full)
    try:
        value = resolve(full)
    except LookupError:
        text = f"module {module.__name__!r} has no attribute {name!r}{_nearest(module.__name__, name)}"
        raise AttributeError(text) from None
    vars(module)[name] = value
    return value


class Refused:
    """Stands for a name that kernel can't honour: it can be imported, and raises an error when it is used."""

    def __init__(self, name: str, reason: str) -> None:
        self.__dict__["_said"] = f"{name} is not supported: {reason}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotSupportedError(self._said)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_said" not in self.__dict__:
            raise AttributeError(name)
        raise NotSupportedError(self._said)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        raise NotSupportedError(self._said)

    def __repr__(self) -> str:
        return f"<{self._said}>"


def resolve(full: str) -> Any:
    """Return what the name of Ray `full` ("ray.util.queue.Queue") stands for; raises LookupError if it is unknown."""
    if full in CONSTANTS:
        return CONSTANTS[full]
    if full in REFUSED:
        return Refused(full, REFUSED[full])
    module, _, name = full.rpartition(".")
    names = NAMES.get(module, {})
    if name in names:
        return load(names[name])
    if _FALLBACK in names and not name.startswith("__"):
        found = getattr(importlib.import_module(names[_FALLBACK]), name, LookupError)
        if found is not LookupError:
            return found
    raise LookupError(full)


def load(target: str) -> Any:
    """Return what a target of the table names, `package.module:attribute`; a leading dot means this package."""
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module if module[0] != "." else _PACKAGE + module), attribute)


def is_module(full: str) -> bool:
    """Return whether the table has a module of that name."""
    return full in NAMES or full in MODULES_RENAMED or full in LIBRARIES


def public_names(module: str) -> list[str]:
    """Return the names of a module that are not old."""
    names = {name for name in NAMES.get(module, {}) if name != _FALLBACK and not name.startswith("_")}
    depth = len(module) + 1
    constants = {full[depth:] for full in CONSTANTS if full.rpartition(".")[0] == module and full[depth] != "_"}
    return sorted(names | constants | _names_of_fallback(module))


def _names_of_fallback(module: str) -> set[str]:
    """Return what a module has of another. Raises ImportError where that is a library that is not installed."""
    fallback = NAMES.get(module, {}).get(_FALLBACK)
    return set(importlib.import_module(fallback).__all__) if fallback is not None else set()


def _nearest(module: str, name: str) -> str:
    close = nearest(name, public_names(module), 0.7)
    return f"; did you mean {close!r}?" if close else " on kernel; docs/migrating.md lists what there is"

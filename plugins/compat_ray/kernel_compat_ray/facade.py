"""Modules with Ray's names: each looks its attributes up in the table when they are first asked for."""

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
_extended: list[tuple[ModuleType, Any]] = []
"""Libraries that find Ray's names, too, and what they found theirs by before."""


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
    for name in NAMES[module.__name__]:
        if f"{module.__name__}.{name}" in NAMES:
            importlib.import_module(f"{module.__name__}.{name}")
            vars(module)[name] = resolve(f"{module.__name__}.{name}")


def keep_names_of_library(module: ModuleType, name: str) -> None:
    """Keep what a library has by a name that is also a module's below Ray's `name`, as `deployment` of `ray.serve`.

    Such modules are imported now: later their import would put them in its place.
    """
    for full in [each for each in NAMES if each.rpartition(".")[0] == name]:
        attribute = full.rpartition(".")[2]
        if attribute in module.__all__:
            before = {attribute: vars(module)[attribute]} if attribute in vars(module) else {}
            importlib.import_module(full)
            vars(module).pop(attribute, None)
            vars(module).update(before)


def is_extended_library(name: str) -> bool:
    """Return whether a module of that name is a library of kernel that has names of Ray besides its own."""
    return name in LIBRARIES and _FALLBACK in NAMES.get(name, {})


def extend(module: ModuleType, name: str) -> None:
    """Let a library find the names of Ray's module `name` besides its own; nothing of its own changes."""
    own = vars(module).get("__getattr__", _nothing)

    def find(attribute: str) -> Any:
        try:
            return own(attribute)
        except AttributeError:
            if attribute.startswith("__"):
                raise
            full = f"{name}.{attribute}"
            if full in RENAMED or is_module(full) or attribute in NAMES[name]:
                return _look_up(module, attribute, name)
            raise AttributeError(f"module {name!r} has no attribute {attribute!r}{_nearest(name, attribute)}") from None

    _extended.append((module, own))
    vars(module)["__getattr__"] = find


def undo_extensions() -> None:
    """Leave every library as it was before `extend`."""
    while _extended:
        module, own = _extended.pop()
        vars(module)["__getattr__"] = own


def _nothing(attribute: str) -> Any:
    raise AttributeError(attribute)


def is_facade(module: ModuleType) -> bool:
    """Return whether `make_module` made it."""
    return getattr(module, "__file__", None) == sys.modules[f"{_PACKAGE}.names"].__file__


def _look_up(module: ModuleType, name: str, known_as: str = "") -> Any:
    """Return what a name of Ray's module (`known_as`, by default what it is called) is, and have the module keep it."""
    known_as = known_as or module.__name__
    if name == "__all__":
        return public_names(known_as)
    full = f"{known_as}.{name}"
    if full in RENAMED:
        warn_renamed(full, RENAMED[full])
        return resolve(RENAMED[full])
    if is_module(full) and name not in NAMES[known_as]:
        return importlib.import_module(full)
    try:
        value = resolve(full)
    except LookupError:
        text = f"module {known_as!r} has no attribute {name!r}{_nearest(known_as, name)}"
        raise AttributeError(text) from None
    vars(module)[name] = value
    return value


class Refused:
    """Stands for a name that kernel can't honour: it can be imported, and says so when it is used."""

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
    found = NAMES.get(module, {})
    names = {name for name in found if name != _FALLBACK and not name.startswith("_")}
    if _FALLBACK in found:
        names |= set(importlib.import_module(found[_FALLBACK]).__all__)
    depth = len(module) + 1
    constants = {full[depth:] for full in CONSTANTS if full.rpartition(".")[0] == module and full[depth] != "_"}
    return sorted(names | constants)


def _nearest(module: str, name: str) -> str:
    close = nearest(name, public_names(module), 0.7)
    return f"; did you mean {close!r}?" if close else " on kernel; docs/migrating.md lists what there is"

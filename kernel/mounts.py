"""Libraries under the kernel's name: `from kernel import tune` is the package `kernel_tune`, the same module object.

A distribution mounts its package by an entry point in the group `kernel.libraries`: the entry point's name is the
mounted name, its value the package. Three rules keep every module single, whichever name it is imported by
(a class that exists twice can't be pickled):

* At the top (`kernel.tune`) the finder here comes *last*: the kernel's own modules win, and nothing is looked up
  until an import has missed everywhere else.
* Below a mounted library (`kernel.tune.schedulers`) it comes *first*: the ordinary finder would find the file by
  the package's path and load it a second time.
* The alias is an entry in `sys.modules`, nothing more. Names, specs and pickles say `kernel_tune`.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import Any

HOST = "kernel"
GROUP = "kernel.libraries"  # as in kernel_spec.hooks, which is not worth its import time here
KNOWN_LIBRARIES = (
    "autoscaler", "conformance", "control_plane", "dashboard", "data", "jobs", "parallel", "rllib", "runs", "serve",
    "testing", "train", "tune",
)  # fmt: skip
"""Libraries that this project publishes: importing a missing one says what to install."""
_EXTRAS = {"control_plane": "control_grpc"}
"""Library to the extra of kernel that brings it, where that has another name."""
MOVED: Mapping[str, str] = {
    f"kernel.testing.{name}": f"kernel_conformance.{name}"
    for name in (
        "accelerator", "metadata_store", "node_provider", "object_store", "observer", "scheduler", "scheduler_harness",
        "serializer", "spill_target",
    )
}  # fmt: skip
"""Modules that are imported by the name of another library than the one they are in."""

_mounted: dict[str, str] = {}
_installed: set[str] = set()
"""The packages of all libraries that are installed, once one was mounted: they may be parts of each other."""
_missed: set[tuple[str, int]] = set()


def install() -> None:
    """Let `import kernel.X` find mounted libraries. Done once by `import kernel`; costs microseconds."""
    if not any(isinstance(finder, _TopFinder) for finder in sys.meta_path):
        sys.meta_path.append(_TopFinder())


def load(name: str) -> ModuleType:
    """Return the library mounted as `kernel.<name>`, for `kernel.__getattr__`.

    Raises AttributeError, which says what to install when it is a library of this project; whatever the import of
    the package raises comes through.
    """
    if name.startswith("_"):
        raise AttributeError(f"module {HOST!r} has no attribute {name!r}")
    module = sys.modules.get(f"{HOST}.{name}")
    if module is not None:  # a module of the kernel's own that is being imported
        return module
    if _package(name) is None:
        text = _missing(name) if name in KNOWN_LIBRARIES else f"module {HOST!r} has no attribute {name!r}"
        raise AttributeError(text)
    return importlib.import_module(f"{HOST}.{name}")


def libraries() -> Mapping[str, tuple[str, ...]]:
    """Return mounted name to package for every installed library (several packages: a conflict)."""
    from kernel.entry_points import entry_points

    found: dict[str, tuple[str, ...]] = {}
    for name, package in entry_points(GROUP):
        found[name] = (*found.get(name, ()), package)
    return found


def is_library(module: object) -> bool:
    """Return whether a module of that name belongs to a mounted library, or to one that it may be made of."""
    return isinstance(module, str) and module.partition(".")[0] in {*_mounted.values(), *_installed}


class _TopFinder:
    """Finds `kernel.X` when no other finder has found it."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        host, _, library = name.partition(".")
        if host != HOST or not library or "." in library:
            return None
        package = _package(library)
        if package is not None:
            spec = _alias(name, package)
            if spec is None:
                raise ModuleNotFoundError(
                    f"kernel.{library} is mounted on the package {package!r}, which can't be found: "
                    f"install again the distribution that it belongs to",
                    name=package,
                )
            return spec
        if library in KNOWN_LIBRARIES:
            # Under the name asked for, `from kernel import tune` would turn this into "cannot import name".
            raise ModuleNotFoundError(_missing(library), name=f"kernel_{library}")
        return None


class _BelowFinder:
    """Finds `kernel.X.anything` before all other finders."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith(f"{HOST}."):
            return None
        _, library, *rest = name.split(".")
        package = _mounted.get(library)
        return _alias(name, MOVED.get(name) or ".".join((package, *rest))) if package is not None and rest else None


class _AliasLoader:
    """Loads a module by its real name and hands the same object out."""

    def __init__(self, real_spec: ModuleSpec) -> None:
        self._real_spec = real_spec
        self._own_spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Import the real module."""
        module = importlib.import_module(self._real_spec.name)
        self._own_spec = getattr(module, "__spec__", None)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Undo what the import system did to the module in between: it has run under its real name already."""
        module.__spec__ = self._own_spec

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the real module's code, for `python -m kernel.tune.x`."""
        code: CodeType | None = self._real("get_code")
        return code

    def get_source(self, fullname: str) -> str | None:
        """Return the real module's source."""
        source: str | None = self._real("get_source")
        return source

    def get_filename(self, fullname: str) -> str:
        """Return the real module's file."""
        filename: str = self._real("get_filename")
        return filename

    def is_package(self, fullname: str) -> bool:
        """Return whether the real module is a package."""
        return self._real_spec.submodule_search_locations is not None

    def _real(self, method: str) -> Any:
        function = getattr(self._real_spec.loader, method, None)
        if function is None:
            raise ImportError(f"{self._real_spec.name} has no {method[4:]}", name=self._real_spec.name)
        return function(self._real_spec.name)


def _package(library: str) -> str | None:
    """Return the package mounted as `library`, mounting it when an entry point says so."""
    if library in _mounted:
        return _mounted[library]
    missed = (library, hash(tuple(sys.path)))  # a changed path is a reason to look again
    if missed in _missed:
        return None
    found = libraries()
    _installed.update(package for packages in found.values() for package in packages)
    packages = found.get(library, ())
    if len(packages) > 1:
        raise ImportError(
            f"several packages are mounted as kernel.{library}: {', '.join(packages)}; uninstall all but one",
            name=f"{HOST}.{library}",
        )
    if not packages:
        _missed.add(missed)
        return None
    _mounted[library] = package = packages[0]
    if not any(isinstance(finder, _BelowFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _BelowFinder())
    return package


def _alias(name: str, real: str) -> ModuleSpec | None:
    """Return a spec that gives the module `real` the second name `name`, or None when there is no such module."""
    try:
        real_spec = importlib.util.find_spec(real)
    except ValueError:  # a module that was made by hand, without a spec
        real_spec = ModuleSpec(real, None) if real in sys.modules else None
    if real_spec is None:
        return None
    loader: Any = _AliasLoader(real_spec)  # no subclass of Loader: importlib.abc costs more to import than all of this
    spec = ModuleSpec(name, loader, origin=real_spec.origin)
    if real_spec.submodule_search_locations is not None:
        spec.submodule_search_locations = list(real_spec.submodule_search_locations)
    if real_spec.has_location:
        spec.has_location = True
        spec.cached = real_spec.cached
    return spec


def _missing(library: str) -> str:
    from kernel.installing import install_command

    command = install_command(_EXTRAS.get(library, library)) or "this version of kernel does not come with it"
    return f"the library kernel.{library} is not installed: {command}"

"""Find modules with Ray's names before other finders do: facades, libraries under their old name, or a reason."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from kernel_compat_ray.deprecation import warn_renamed
from kernel_compat_ray.errors import NotSupportedError
from kernel_compat_ray.facade import bind_names_of_modules, make_module
from kernel_compat_ray.names import HOST, LIBRARIES, MODULES_REFUSED, MODULES_RENAMED, NAMES


class RayFinder(MetaPathFinder):
    """Finds `ray` and everything below it, and nothing else."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module of Ray. Raises ImportError, with the reason, for one that is not offered."""
        if fullname.partition(".")[0] != HOST:
            return None
        if fullname in NAMES:
            return ModuleSpec(fullname, _FacadeLoader(), is_package=True)
        if fullname in MODULES_RENAMED:
            warn_renamed(fullname, MODULES_RENAMED[fullname])
            return ModuleSpec(fullname, _AliasLoader(MODULES_RENAMED[fullname]), is_package=True)
        library = _library_of(fullname)
        spec = _alias(fullname, library) if library is not None else None
        if spec is not None:
            return spec
        raise ModuleNotFoundError(_reason(fullname), name=f"kernel:{fullname}")


class _FacadeLoader(Loader):
    """Makes a module that looks its names up in the table."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return make_module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Bind what can't wait until it is asked for."""
        bind_names_of_modules(module)


class _AliasLoader(Loader):
    """Gives an existing module a second name, and leaves it as it is."""

    def __init__(self, real: str) -> None:
        self._real = real
        self._own_spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._real)
        self._own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Undo what the import system did in between: the module has its own name and spec."""
        module.__spec__ = self._own_spec


def _alias(fullname: str, real: str) -> ModuleSpec | None:
    """Return a spec for `real` under a second name, None without `real`. A failing import says what to install."""
    try:
        found = importlib.util.find_spec(real)
    except ModuleNotFoundError as error:
        if error.name is None or not real.startswith(f"{error.name}."):
            raise
        found = None
    if found is None:
        return None
    return ModuleSpec(fullname, _AliasLoader(real), is_package=found.submodule_search_locations is not None)


def _library_of(fullname: str) -> str | None:
    """Return the name below `kernel` of a module that belongs to a library."""
    for old, library in LIBRARIES.items():
        if fullname == old or fullname.startswith(f"{old}."):
            return f"kernel.{library}{fullname[len(old) :]}"
    return None


def _reason(fullname: str) -> str:
    for refused, reason in MODULES_REFUSED.items():
        if fullname == refused or fullname.startswith(f"{refused}."):
            return str(NotSupportedError(f"{refused} is not supported on kernel: {reason}"))
    return f"kernel knows neither a name nor a module {fullname} of Ray; docs/migrating.md lists those it does"


def install_finder() -> None:
    """Let the import system ask us first. Safe to call twice."""
    if not any(isinstance(finder, RayFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, RayFinder())


def remove_finder() -> None:
    """Undo `install_finder`, and forget the modules that it made."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, RayFinder)]
    for name in [name for name in sys.modules if name.partition(".")[0] == HOST]:
        del sys.modules[name]

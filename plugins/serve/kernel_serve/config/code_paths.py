"""Code that lies in a directory of the developer's: replicas find it, and its changes make new versions.

A deployment's class travels as it is, but what it uses of other modules travels by name: a replica must be able to
import these, and a changed module must not count as the same code.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
from dataclasses import replace
from functools import cache
from types import ModuleType
from typing import Any

from kernel_serve.settings import GRPCOptions
from kernel_serve.values import ApplicationSpec

_loaded: dict[str, str] = {}
"""Directory to the digest of the sources in it, as this process has imported them."""


def with_path(spec: ApplicationSpec, directory: str) -> ApplicationSpec:
    """Return the application such that its replicas import from `directory`, too."""
    digest = source_digest(directory)
    deployments = (replace(each, code=pickle.dumps(_Code(directory, digest, each.code))) for each in spec.deployments)
    return replace(spec, deployments=tuple(deployments))


class _Code:
    """Is unpickled as what `code` is a pickle of, after its directory was put on the path."""

    def __init__(self, directory: str, digest: str, code: bytes) -> None:
        self._parts = (directory, digest, code)

    def __reduce__(self) -> tuple[Any, ...]:
        return _load, self._parts


def _load(directory: str, digest: str, code: bytes) -> Any:
    if directory not in sys.path:
        sys.path.insert(0, directory)
    if _loaded.setdefault(directory, digest) != digest:  # this process ran another version before
        forget_modules(directory)
        _loaded[directory] = digest
    return pickle.loads(code)


def modules_below(directory: str) -> dict[str, ModuleType]:
    """Return the modules that were imported from files in a directory."""
    root = os.path.join(os.path.realpath(directory), "")
    real = cache(os.path.realpath)  # thousands of modules are in some hundred folders
    found = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and name != "__main__" and not is_installed(file):
            folder = os.path.join(real(os.path.dirname(file)), "")
            if folder.startswith(root):
                found[name] = module
    return found


def forget_modules(directory: str) -> None:
    """Have the modules of a directory imported anew the next time."""
    import importlib  # only here: most processes never forget

    for name in modules_below(directory):
        del sys.modules[name]
    importlib.invalidate_caches()


def source_digest(directory: str) -> str:
    """Return a digest of the sources of what was imported from a directory."""
    found = hashlib.sha256()
    for name, module in sorted(modules_below(directory).items()):
        try:
            with open(str(module.__file__), "rb") as file:
                found.update(f"{name}\0".encode() + hashlib.sha256(file.read()).digest())
        except OSError:
            continue
    return found.hexdigest()[:16]


def services_version(options: GRPCOptions, directory: str) -> str:
    """Return a digest of the files that gRPC's compiler has generated for services, as far as they are in a directory.

    Beside each module `x_pb2_grpc` there is one of messages, `x_pb2`.
    """
    found = hashlib.sha256()
    for path in options.grpc_servicer_functions:
        module = path.rpartition(":" if ":" in path else ".")[0]
        for name in (module, module.removesuffix("_grpc")):
            file = os.path.join(directory, *name.split(".")) + ".py"
            if os.path.exists(file):
                with open(file, "rb") as source:
                    found.update(f"{name}\0".encode() + hashlib.sha256(source.read()).digest())
    return found.hexdigest()[:16]


def source_root(import_path: str) -> str:
    """Return the directory from which the module of an import path was imported."""
    module_name = import_path.rpartition(":" if ":" in import_path else ".")[0]
    module = sys.modules.get(module_name.partition(".")[0])
    file = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), "")
    root = os.path.dirname(file)
    return os.path.dirname(root) if hasattr(module, "__path__") else root


def is_installed(file: str) -> bool:
    """Return whether a file belongs to an installed distribution."""
    return "site-packages" in file or "dist-packages" in file

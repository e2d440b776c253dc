"""Import users' code by its path, let replicas find it in the developer's directory, and tell versions of it apart.

A deployment's class travels as it is, but what it uses of other modules travels by name: a replica must be able to
import these, and a changed module must not count as the same code.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import inspect
import os
import pickle
import sys
import traceback
import typing
from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import Any

from kernel_serve.api.declared import Application, Deployment
from kernel_serve.errors import DeploymentError
from kernel_serve.settings import GRPCOptions, checked
from kernel_serve.values import ApplicationSpec
from kernel_spec.nearest import nearest


def import_application(path: str, args: Mapping[str, Any] | None = None) -> Application:
    """Return the application at `path` ("module:name").

    `path` leads to an application, or to a function that returns one. The function gets `args` as its one argument: as
    a dict, or as a pydantic model or dataclass if its annotation is one. Raises DeploymentError when `path` leads to
    something else, and what the module or the function raises.
    """
    found = import_name(path)
    if isinstance(found, Application):
        if args:
            raise DeploymentError(f"{path} is an application, not a function that builds one: it takes no arguments")
        return found
    if isinstance(found, Deployment):
        raise DeploymentError(f"{path} is a deployment that is not bound; write there: {found.name}.bind(...)")
    if not callable(found) or inspect.isclass(found):
        raise DeploymentError(
            f"{path} is a {type(found).__name__}; expected what bind() returns, or a function that returns that"
        )
    built = found(*_arguments(found, path, dict(args or {})))
    if not isinstance(built, Application):
        raise DeploymentError(f"{path} returned a {type(built).__name__}; expected what bind() returns")
    return built


def import_name(path: str) -> Any:
    """Return the value of "module:name" (or "module.name"). Raises DeploymentError, and what the module raises."""
    module_name, _, name = path.rpartition(":" if ":" in path else ".")
    if not module_name or not name:
        raise DeploymentError(f'{path!r} is no import path; expected "module:name"')
    if os.sep in module_name or module_name.endswith(".py"):
        dotted = module_name.removesuffix(".py").strip("./").replace(os.sep, ".")
        raise DeploymentError(f"{path!r} names a file; expected its module, as in {f'{dotted}:{name}'!r}")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name + ".").startswith(error.name + "."):
            raise  # the module exists: something that it imports is missing
        raise DeploymentError(
            f"there is no module {error.name!r} (for {path}) on the path: {', '.join(sys.path[:3])}, ...; "
            "start where it is, or say where with --app-dir, working_dir or py_modules"
        ) from None
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            there = [known for known, value in vars(module).items() if isinstance(value, (Application, Deployment))]
            close = nearest(part, there or dir(found))
            hint = f"; did you mean {close!r}?" if close else f"; there are: {', '.join(there)}" if there else ""
            raise DeploymentError(f"module {module_name} has no {part!r} (for {path}){hint}")
        found = getattr(found, part)
    return found


def _arguments(builder: Any, path: str, args: dict[str, Any]) -> list[Any]:
    """Return the arguments for a call of a builder."""
    parameters = list(inspect.signature(builder).parameters.values())
    if not parameters:
        if args:
            raise DeploymentError(f"{path}() takes no arguments, but was given {', '.join(map(str, args))}")
        return []
    needed = [each for each in parameters if each.default is each.empty and each.kind is not each.VAR_POSITIONAL]
    if len(needed) > 1:
        raise DeploymentError(
            f"{path}() must take one argument, all of `args` together (a dict, a pydantic model or a dataclass), not "
            f"{', '.join(each.name for each in needed)}"
        )
    return [_typed(_annotation(builder, parameters[0]), path, args)]


def _annotation(builder: Any, parameter: inspect.Parameter) -> Any:
    try:
        return typing.get_type_hints(builder).get(parameter.name)
    except Exception:  # annotations may have names that only type checkers know
        return parameter.annotation


def _typed(kind: Any, path: str, args: dict[str, Any]) -> Any:
    validate = getattr(kind, "model_validate", None) or getattr(kind, "parse_obj", None)
    if inspect.isclass(kind) and validate is not None:
        try:
            return validate(args)
        except ValueError as error:
            raise DeploymentError(f"{path}() can't be called with these arguments: {error}") from None
    if inspect.isclass(kind) and dataclasses.is_dataclass(kind):
        try:
            return checked(kind, args, f"{path}()")
        except TypeError as error:
            raise DeploymentError(f"{path}() can't be called with these arguments: {error}") from None
    return args


_loaded: dict[str, str] = {}
"""The digest of the sources of each directory, as this process has imported them."""


def with_path(spec: ApplicationSpec, directory: str) -> ApplicationSpec:
    """Return the application, changed so that its replicas also import from `directory`."""
    digest = source_digest(directory)
    deployments = (
        dataclasses.replace(each, code=pickle.dumps(_Code(directory, digest, each.code))) for each in spec.deployments
    )
    return dataclasses.replace(spec, deployments=tuple(deployments))


class _Code:
    """Pickles as a reference to a directory with a digest of its sources, and `code`.

    It unpickles as the value of `code`, after the directory was put on the path.
    """

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
    """Remove the modules of a directory, so that they are imported anew the next time."""
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
    """Return a digest of the generated files of gRPC services, of those that are in a directory.

    Beside each module `x_pb2_grpc` there is one with messages, `x_pb2`.
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


_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep


def told(error: BaseException) -> str:
    """Return an error with its traceback, from the user's first frame on."""
    described = traceback.TracebackException.from_exception(error)
    frames = [frame for frame in described.stack if not _is_machinery(frame.filename)]
    described.stack = traceback.StackSummary.from_list(frames)
    return "".join(described.format()).rstrip()


def _is_machinery(file: str) -> bool:
    return file.startswith((_OURS, "<frozen ")) or f"importlib{os.sep}__init__.py" in file

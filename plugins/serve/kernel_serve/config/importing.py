"""From an import path to an application: found, and built with its arguments where it is a builder."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import os
import sys
import typing
from collections.abc import Mapping
from typing import Any

from kernel_serve.api.declared import Application, DeclaredDeployment
from kernel_serve.errors import DeploymentError
from kernel_serve.settings import checked
from kernel_spec.nearest import nearest


def import_application(path: str, args: Mapping[str, Any] | None = None) -> Application:
    """Return the application at `path` ("module:name").

    There is either an application, or a function that returns one. The function gets `args` as its one argument: a
    dict, or a pydantic model or dataclass if its annotation is one. Raises DeploymentError when there is none, and what
    the module or the function raises.
    """
    found = import_name(path)
    if isinstance(found, Application):
        if args:
            raise DeploymentError(f"{path} is an application, not a function that builds one: it takes no arguments")
        return found
    if isinstance(found, DeclaredDeployment):
        raise DeploymentError(f"{path} is a deployment that is not bound; write there: {found.name}.bind(...)")
    if not callable(found) or inspect.isclass(found):
        raise DeploymentError(
            f"{path} is a {type(found).__name__}; expected is what bind() returns, or a function that returns that"
        )
    built = found(*_arguments(found, path, dict(args or {})))
    if not isinstance(built, Application):
        raise DeploymentError(f"{path} returned a {type(built).__name__}; expected is what bind() returns")
    return built


def import_name(path: str) -> Any:
    """Return what "module:name" (or "module.name") is. Raises DeploymentError, and what the module raises."""
    module_name, _, name = path.rpartition(":" if ":" in path else ".")
    if not module_name or not name:
        raise DeploymentError(f'{path!r} is no import path; expected is "module:name"')
    if os.sep in module_name or module_name.endswith(".py"):
        dotted = module_name.removesuffix(".py").strip("./").replace(os.sep, ".")
        raise DeploymentError(f"{path!r} names a file; expected is its module, as in {f'{dotted}:{name}'!r}")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name + ".").startswith(error.name + "."):
            raise  # what it imports is missing, not the module
        raise DeploymentError(
            f"there is no module {error.name!r} (for {path}) on the path: {', '.join(sys.path[:3])}, ...; "
            "start where it is, or say where with --app-dir, working_dir or py_modules"
        ) from None
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            there = [
                known for known, value in vars(module).items() if isinstance(value, (Application, DeclaredDeployment))
            ]
            close = nearest(part, there or dir(found))
            hint = f"; did you mean {close!r}?" if close else f"; there are: {', '.join(there)}" if there else ""
            raise DeploymentError(f"module {module_name} has no {part!r} (for {path}){hint}")
        found = getattr(found, part)
    return found


def _arguments(builder: Any, path: str, args: dict[str, Any]) -> list[Any]:
    """Return the arguments with which a builder is called."""
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
    except Exception:  # names that only a type checker knows
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

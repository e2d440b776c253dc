"""Runtime environments in the program: checked, and their files packed once by content."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import IO, Any

from kernel.api.nearest import did_you_mean
from kernel.protocol.package_digests import PIECE_BYTES, digest_of
from kernel.runtime.current import get_runtime
from kernel_spec.errors import RuntimeEnvError

FIELDS = ("env_vars", "working_dir", "py_modules", "excludes", "inherit")
PACKED = "package:"
"""How a path begins that is none, but names what was packed and sent before, by the digest of its content."""


def prepare_environment(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the environment as plain values, with its directories sent to the head under their content's digest.

    Raises RuntimeEnvError for an unknown field, a bad value, or files that can't be packed.
    """
    runtime = get_runtime()
    checked = check_environment(given)
    excludes = checked.get("excludes", ())
    description: dict[str, Any] = {} if given.get("inherit", True) else {"inherit": False}
    if checked.get("env_vars"):
        description["env_vars"] = dict(sorted(checked["env_vars"].items()))
    if checked.get("working_dir"):
        description["working_dir"] = _digest(runtime, os.fspath(checked["working_dir"]), False, excludes)
    modules = [_module_path(module) for module in checked.get("py_modules", ())]
    if modules:
        description["py_modules"] = [_digest(runtime, path, True, excludes) for path in modules]
    return description


def pack_runtime_env(runtime_env: Mapping[str, Any]) -> dict[str, Any]:
    """Pack and send what a runtime_env names of this machine's files; return one that means the same everywhere.

    It has plain values, the same ones for the same contents. Any program of the session can give it, as long as the
    session lasts. Raises RuntimeEnvError for an unknown field, a bad value, or files that can't be packed, and
    NotInitializedError without a session.
    """
    return to_give_again(prepare_environment(runtime_env))


def to_give_again(description: Mapping[str, Any]) -> dict[str, Any]:
    """Return, as a runtime_env that can be given, what `prepare_environment` made of one."""
    given = dict(description)
    if "working_dir" in given:
        given["working_dir"] = PACKED + given["working_dir"]
    if "py_modules" in given:
        given["py_modules"] = [PACKED + digest for digest in given["py_modules"]]
    return given


def check_environment(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a runtime_env whose fields and types are right; raises RuntimeEnvError otherwise."""
    for name in given:
        if name not in FIELDS:
            hint = did_you_mean(name, FIELDS, f"it has {', '.join(FIELDS)}")
            raise RuntimeEnvError(f"runtime_env has no field {name!r}{hint}")
    check_types(given)
    directory = given.get("working_dir")
    if directory is not None and not (_is_packed(directory) or os.path.isdir(directory)):
        raise RuntimeEnvError(f"runtime_env['working_dir'] must be an existing directory, not {directory!r}")
    return {name: value for name, value in given.items() if value}


def check_types(given: Mapping[str, Any]) -> None:
    """Raise RuntimeEnvError for a field whose value is of a wrong type. Looks at no files."""
    variables = given.get("env_vars")
    if variables is not None:
        _check_variables(variables)
    directory = given.get("working_dir")
    if directory is not None and not isinstance(directory, (str, os.PathLike)):
        raise RuntimeEnvError(f"runtime_env['working_dir'] must be an existing directory, not {directory!r}")
    for name, expected in (("py_modules", "modules and paths"), ("excludes", "names and patterns of files")):
        items = given.get(name)
        if items is None:
            continue
        if not isinstance(items, (list, tuple)):
            raise RuntimeEnvError(f"runtime_env[{name!r}] must be a list of {expected}, not {items!r}")
        for item in items:
            if not isinstance(item, (str, os.PathLike, ModuleType) if name == "py_modules" else str):
                raise RuntimeEnvError(f"runtime_env[{name!r}] must be a list of {expected}, and {item!r} is neither")
    if not isinstance(given.get("inherit", True), bool):
        raise RuntimeEnvError(f"runtime_env['inherit'] must be True or False, not {given['inherit']!r}")


def _check_variables(variables: Any) -> None:
    if not isinstance(variables, Mapping):
        raise RuntimeEnvError(
            f"runtime_env['env_vars'] must map strings to strings, not a {type(variables).__name__}: {variables!r}"
        )
    for name, value in variables.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise RuntimeEnvError(f"runtime_env['env_vars'] must map strings to strings, not {name!r} to {value!r}")
        if not name or "=" in name or "\0" in name + value:
            raise RuntimeEnvError(f"runtime_env['env_vars'] has {name!r}, which can't name an environment variable")


def _is_packed(path: Any) -> bool:
    return isinstance(path, str) and path.startswith(PACKED)


def _module_path(module: Any) -> str:
    if _is_packed(module):
        return str(module)
    if isinstance(module, ModuleType):
        locations = getattr(module, "__path__", None)
        path = locations[0] if locations else module.__file__ or ""
    else:
        path = os.path.abspath(os.fspath(module))
    if not os.path.exists(path):
        raise RuntimeEnvError(f"runtime_env['py_modules'] names {module!r}, which does not exist")
    return path


def _digest(runtime: Any, path: str, named: bool, excludes: Sequence[str]) -> str:
    """Return the digest of a package that the session has, from now on; `named`: files are below the path's name."""
    if not _is_packed(path):
        from kernel.api.package_files import pack  # only where there is something to pack

        with pack(path, os.path.basename(os.path.normpath(path)) if named else "", excludes) as archive:
            return _send(runtime, archive)
    digest = path.removeprefix(PACKED)
    if not runtime.query("has_package", digest):
        raise RuntimeEnvError(
            f"runtime_env names {path!r}, which this session does not have; give the directory itself, or what "
            "pack_runtime_env() has returned in this session"
        )
    return digest


def _send(runtime: Any, archive: IO[bytes]) -> str:
    digest = digest_of(archive)
    if not runtime.query("has_package", digest):
        size = archive.tell()
        for offset in range(0, size, PIECE_BYTES):
            archive.seek(offset)
            runtime.query("add_package", digest, offset, size, archive.read(PIECE_BYTES))
    return digest

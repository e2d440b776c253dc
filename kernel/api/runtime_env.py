"""Runtime environments in the program: checked, and their files packed once by content."""

from __future__ import annotations

import difflib
import fnmatch
import hashlib
import io
import os
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from kernel.control.archives import PIECE_BYTES
from kernel.runtime.current import get_runtime
from kernel_spec.errors import RuntimeEnvError

FIELDS = ("env_vars", "working_dir", "py_modules", "excludes", "inherit")
PACKED = "package:"
"""How a path begins that is none, but names what was packed and sent before, by the digest of its content."""
MAXIMUM_BYTES = 512 << 20
_NEVER = {".git", "__pycache__", ".venv", ".mypy_cache", ".pytest_cache"}
_EPOCH = (1980, 1, 1, 0, 0, 0)


def prepare_environment(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the environment as plain values, with its directories sent to the head under their content's digest.

    Raises RuntimeEnvError for an unknown field, a bad value, or files that can't be packed.
    """
    runtime = get_runtime()
    checked = check_environment(given)
    excludes = {*checked.get("excludes", ()), *_NEVER}
    description: dict[str, Any] = {} if given.get("inherit", True) else {"inherit": False}
    if checked.get("env_vars"):
        description["env_vars"] = dict(sorted(checked["env_vars"].items()))
    if checked.get("working_dir"):
        description["working_dir"] = _digest(runtime, checked["working_dir"], False, excludes)
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
            close = difflib.get_close_matches(str(name), FIELDS, 1, 0.5)
            hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(FIELDS)}"
            raise RuntimeEnvError(f"runtime_env has no field {name!r}; {hint}")
    _check_variables(given.get("env_vars") or {})
    directory = given.get("working_dir")
    if directory is not None and not (
        isinstance(directory, (str, os.PathLike)) and (_is_packed(directory) or os.path.isdir(directory))
    ):
        raise RuntimeEnvError(f"runtime_env['working_dir'] must be an existing directory, not {directory!r}")
    for name, expected in (("py_modules", "modules and paths"), ("excludes", "names and patterns of files")):
        items = given.get(name) or ()
        if not isinstance(items, (list, tuple)):
            raise RuntimeEnvError(f"runtime_env[{name!r}] must be a list of {expected}, not {items!r}")
        for item in items:
            if not isinstance(item, (str, os.PathLike, ModuleType) if name == "py_modules" else str):
                raise RuntimeEnvError(f"runtime_env[{name!r}] must be a list of {expected}, and {item!r} is neither")
    if not isinstance(given.get("inherit", True), bool):
        raise RuntimeEnvError(f"runtime_env['inherit'] must be True or False, not {given['inherit']!r}")
    return {name: value for name, value in given.items() if value}


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


def _pack(path: str, prefix: str, excludes: set[str]) -> bytes:
    """Return a zip of a file or directory whose bytes depend on names and contents only."""
    import zipfile

    buffer = io.BytesIO()
    total = 0
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as package:
        for name, file in _files(path, prefix, excludes):
            with open(file, "rb") as source:
                data = source.read()
            total += len(data)
            if total > MAXIMUM_BYTES:
                raise RuntimeEnvError(
                    f"{path} holds more than {MAXIMUM_BYTES >> 20} MB; leave files out with runtime_env['excludes']"
                )
            info = zipfile.ZipInfo(name, _EPOCH)
            info.external_attr = (os.stat(file).st_mode & 0o777) << 16
            package.writestr(info, data, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _files(path: str, prefix: str, excludes: set[str]) -> list[tuple[str, str]]:
    if os.path.isfile(path):
        return [(os.path.basename(path), path)]
    found = []
    for directory, names, files in os.walk(path):
        inside = os.path.relpath(directory, path)
        names[:] = sorted(name for name in names if not _is_excluded(inside, name, excludes))
        for name in sorted(files):
            full = os.path.join(directory, name)
            if not _is_excluded(inside, name, excludes) and os.path.isfile(full):
                found.append((os.path.normpath(os.path.join(prefix, inside, name)), full))
    return found


def _is_excluded(directory: str, name: str, patterns: set[str]) -> bool:
    relative = os.path.normpath(os.path.join(directory, name))
    return any(fnmatch.fnmatchcase(name, one) or fnmatch.fnmatchcase(relative, one) for one in patterns)


def _digest(runtime: Any, path: str, named: bool, excludes: set[str]) -> str:
    """Return the digest of a package that the session has, from now on; `named`: files are below the path's name."""
    if not _is_packed(path):
        return _send(runtime, _pack(path, os.path.basename(path) if named else "", excludes))
    digest = path.removeprefix(PACKED)
    if not runtime.query("has_package", digest):
        raise RuntimeEnvError(
            f"runtime_env names {path!r}, which this session does not have; give the directory itself, or what "
            "pack_runtime_env() has returned in this session"
        )
    return digest


def _send(runtime: Any, archive: bytes) -> str:
    digest = hashlib.blake2b(archive, digest_size=16).hexdigest()
    if not runtime.query("has_package", digest):
        for offset in range(0, len(archive), PIECE_BYTES):
            runtime.query("add_package", digest, offset, len(archive), archive[offset : offset + PIECE_BYTES])
    return digest

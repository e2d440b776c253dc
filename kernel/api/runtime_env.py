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

FIELDS = ("env_vars", "working_dir", "py_modules", "excludes")
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
    description: dict[str, Any] = {}
    if checked.get("env_vars"):
        description["env_vars"] = dict(sorted(checked["env_vars"].items()))
    if checked.get("working_dir"):
        description["working_dir"] = _send(runtime, _pack(checked["working_dir"], "", excludes))
    modules = [_module_path(module) for module in checked.get("py_modules", ())]
    if modules:
        description["py_modules"] = [_send(runtime, _pack(path, os.path.basename(path), excludes)) for path in modules]
    return description


def check_environment(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a runtime_env whose fields and types are right; raises RuntimeEnvError otherwise."""
    for name in given:
        if name not in FIELDS:
            close = difflib.get_close_matches(str(name), FIELDS, 1, 0.5)
            hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(FIELDS)}"
            raise RuntimeEnvError(f"runtime_env has no field {name!r}; {hint}")
    _check_variables(given.get("env_vars") or {})
    directory = given.get("working_dir")
    if directory is not None and not (isinstance(directory, (str, os.PathLike)) and os.path.isdir(directory)):
        raise RuntimeEnvError(f"runtime_env['working_dir'] must be an existing directory, not {directory!r}")
    for name, expected in (("py_modules", "modules and paths"), ("excludes", "names and patterns of files")):
        items = given.get(name) or ()
        if not isinstance(items, (list, tuple)):
            raise RuntimeEnvError(f"runtime_env[{name!r}] must be a list of {expected}, not {items!r}")
        for item in items:
            if not isinstance(item, (str, os.PathLike, ModuleType) if name == "py_modules" else str):
                raise RuntimeEnvError(f"runtime_env[{name!r}] must be a list of {expected}, and {item!r} is neither")
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


def _module_path(module: Any) -> str:
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


def _send(runtime: Any, archive: bytes) -> str:
    digest = hashlib.blake2b(archive, digest_size=16).hexdigest()
    if not runtime.query("has_package", digest):
        for offset in range(0, len(archive), PIECE_BYTES):
            runtime.query("add_package", digest, offset, len(archive), archive[offset : offset + PIECE_BYTES])
    return digest

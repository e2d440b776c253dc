"""Read `runtime_env["conda"]` into plain values."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from kernel_spec.errors import RuntimeEnvError
from kernel_spec.nearest import nearest

TITLE = "runtime_env['conda']"

KEYS = ("dependencies", "channels")
"""The keys that have a meaning here."""

OTHER_KEYS = ("name", "prefix")
"""Keys of an environment.yml that say where conda would put the environment; a node has a place of its own."""

DEFAULT_CHANNELS = ("conda-forge",)

FILES = (".yml", ".yaml")


def check(value: Any) -> None:
    """Raise RuntimeEnvError unless `value` is a name, a path, or a dict as an environment.yml has it."""
    if isinstance(value, (str, os.PathLike)):
        if not os.fspath(value):
            raise RuntimeEnvError(f"{TITLE} is empty; give the name of a conda environment, or leave the field out")
        return
    if not isinstance(value, Mapping):
        raise RuntimeEnvError(
            f"{TITLE} must be the name of a conda environment of the nodes, the path of an environment.yml, or a dict "
            f"such as {{'dependencies': ['numpy=2.0']}}, not {value!r}"
        )
    _check_description(value, TITLE)


def prepare(value: Any) -> str | dict[str, Any]:
    """Return `value`, which was checked, in the one form that it has on the nodes; empty without dependencies.

    A file is read. Raises RuntimeEnvError for one that can't be read or does not describe an environment.
    """
    if isinstance(value, (str, os.PathLike)):
        text = os.fspath(value)
        if not text.endswith(FILES):
            return os.path.expanduser(text)
        value = _read(text)
    conda, pip = _split(value.get("dependencies") or [])
    if not conda and not pip:
        return {}
    channels = [name for name in value.get("channels") or [] if name != "nodefaults"]
    return {
        "channels": channels or list(DEFAULT_CHANNELS),
        "dependencies": [*conda, {"pip": pip}] if pip else conda,
    }


def _split(dependencies: list[Any]) -> tuple[list[str], list[str]]:
    """Return the packages of conda, and the requirements of pip."""
    conda = [each for each in dependencies if isinstance(each, str)]
    pip = [line for each in dependencies if isinstance(each, Mapping) for line in each["pip"]]
    return conda, pip


def split(prepared: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the packages of conda, and the requirements of pip, in what `prepare` returned."""
    return _split(prepared["dependencies"])


def _read(path: str) -> Mapping[str, Any]:
    import yaml  # most programs give no file

    name = os.path.abspath(os.path.expanduser(path))
    try:
        with open(name, encoding="utf-8") as file:
            found = yaml.safe_load(file)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise RuntimeEnvError(f"{TITLE} names the file {name}, which can't be read: {reason}") from error
    if not isinstance(found, Mapping):
        raise RuntimeEnvError(f"{TITLE} names the file {name}, which has no `dependencies:`")
    _check_description(found, f"{TITLE} ({name})")
    return found


def _check_description(value: Mapping[str, Any], where: str) -> None:
    known = (*KEYS, *OTHER_KEYS)
    for key in value:
        if key not in known:
            close = nearest(str(key), known)
            hint = f"did you mean {close!r}?" if close else f"it has {', '.join(known)}"
            raise RuntimeEnvError(f"{where} has no key {key!r}; {hint}")
    if "dependencies" not in value:
        raise RuntimeEnvError(f"{where} must say what is installed, as in {{'dependencies': ['numpy=2.0']}}")
    _check_strings(value.get("channels") or [], f"{where}['channels']", "channels such as 'conda-forge'")
    dependencies = value["dependencies"] or []
    if not isinstance(dependencies, (list, tuple)):
        raise RuntimeEnvError(f"{where}['dependencies'] must be a list, not {dependencies!r}")
    for each in dependencies:
        if isinstance(each, Mapping):
            if set(each) != {"pip"}:
                raise RuntimeEnvError(f"{where}['dependencies'] may have one dict, {{'pip': [...]}}, not {each!r}")
            _check_pip(each["pip"], f"{where}['dependencies'] 'pip'")
        elif not isinstance(each, str):
            raise RuntimeEnvError(f"{where}['dependencies'] must have strings such as 'numpy=2.0', not {each!r}")


def _check_strings(value: Any, where: str, what: str) -> None:
    if not isinstance(value, (list, tuple)) or not all(isinstance(each, str) for each in value):
        raise RuntimeEnvError(f"{where} must be a list of {what}, not {value!r}")


def _check_pip(value: Any, where: str) -> None:
    _check_strings(value, where, "requirements such as 'requests==2.32.3'")
    for line in value:
        if line.startswith((".", "/", "-e", "-r", "-c", "--editable", "--requirement", "--constraint")):
            raise RuntimeEnvError(
                f"{where} has {line!r}, a file of this machine, which nodes do not have; write the requirements out, "
                "and give code of your own by runtime_env['py_modules']"
            )

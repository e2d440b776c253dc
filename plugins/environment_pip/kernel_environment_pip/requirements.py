"""What a program gives as `runtime_env["pip"]`, read into plain values: which packages, by which pip, with a check."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kernel_spec.environments import PACKAGE
from kernel_spec.errors import RuntimeEnvError
from kernel_spec.nearest import nearest

FIELD = "runtime_env['pip']"
KEYS = ("packages", "pip_check", "pip_version", "pip_install_options")
ARCHIVES = (".whl", ".tar.gz", ".zip")
"""How the names of files end that pip installs, and that are sent to the nodes."""


def check(value: Any) -> None:
    """Raise RuntimeEnvError unless `value` is a list of requirements, a path of a file of them, or a dict of KEYS."""
    if not isinstance(value, Mapping):
        _check_packages(FIELD, value)
        return
    for key in value:
        if key not in KEYS:
            close = nearest(key, KEYS)
            hint = f"did you mean {close!r}?" if close else f"it has {', '.join(KEYS)}"
            raise RuntimeEnvError(f"{FIELD} has no key {key!r}; {hint}")
    if "packages" not in value:
        raise RuntimeEnvError(f"{FIELD} must say which packages, as in {{'packages': ['requests==2.32.3']}}")
    _check_packages(f"{FIELD}['packages']", value["packages"])
    if not isinstance(value.get("pip_check", False), bool):
        raise RuntimeEnvError(f"{FIELD}['pip_check'] must be True or False, not {value['pip_check']!r}")
    version = value.get("pip_version")
    if version is not None and not isinstance(version, str):
        raise RuntimeEnvError(f"{FIELD}['pip_version'] must be a version such as '==24.0', not {version!r}")
    options = value.get("pip_install_options", [])
    if not isinstance(options, (list, tuple)) or not all(isinstance(option, str) for option in options):
        raise RuntimeEnvError(f"{FIELD}['pip_install_options'] must be a list of options of pip, not {options!r}")


def prepare(value: Any, send: Callable[[str], str]) -> dict[str, Any]:
    """Return `value`, which was checked, in the one form that it has on the nodes; empty where it names no packages.

    Files of requirements are read. `send(path)` sends a wheel or another archive that is a file of this machine and
    returns the name of its package. Raises RuntimeEnvError for files that can't be read, and for requirements that
    mean something on this machine only.
    """
    given = dict(value) if isinstance(value, Mapping) else {"packages": value}
    packages = given["packages"]
    lines = read_file(packages) if isinstance(packages, (str, os.PathLike)) else [(line, "") for line in packages]
    wanted = [_sent(requirement, folder, send) for line, folder in lines if (requirement := _without_comment(line))]
    if not wanted:
        return {}
    version = given.get("pip_version") or ""
    return {
        "packages": wanted,
        "pip_check": given.get("pip_check", False),
        "pip_version": f"=={version}" if version[:1].isdigit() else version,
        "pip_install_options": list(given.get("pip_install_options", [])),
    }


def read_file(path: str | os.PathLike[str], readers: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Return the requirements in a file, and in those that it includes, each with the folder of its file.

    `readers` are the files that include this one. Raises RuntimeEnvError for one that can't be read or includes itself.
    """
    name = os.path.abspath(path)
    if name in readers:
        raise RuntimeEnvError(f"{FIELD}: {name} includes itself, by {' and '.join(readers[readers.index(name) :])}")
    try:
        with open(name, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise RuntimeEnvError(f"{FIELD} names the file {name}, which can't be read: {reason}") from error
    found: list[tuple[str, str]] = []
    for line in map(_without_comment, _whole_lines(text)):
        other = _argument(line, "-r", "--requirement")
        if other:
            found += read_file(os.path.join(os.path.dirname(name), other), (*readers, name))
        elif line:
            found.append((line, os.path.dirname(name)))
    return found


def packages_of(prepared: Mapping[str, Any]) -> list[str]:
    """Return the packages of the session with the archives that are to be installed."""
    return [requirement.partition("/")[0] for requirement in prepared["packages"] if requirement.startswith(PACKAGE)]


def _check_packages(where: str, value: Any) -> None:
    if isinstance(value, (str, os.PathLike)):
        return
    if not isinstance(value, (list, tuple)):
        raise RuntimeEnvError(
            f"{where} must be a list of requirements such as 'requests==2.32.3', or the path of a file of them, "
            f"not {value!r}"
        )
    for requirement in value:
        if not isinstance(requirement, str):
            raise RuntimeEnvError(
                f"{where} must be a list of strings such as 'requests==2.32.3', not of {requirement!r}"
            )


def _whole_lines(text: str) -> Iterator[str]:
    """Yield the lines of a file of requirements; one that ends with a backslash goes on in the next."""
    return iter(text.replace("\\\n", " ").splitlines())


def _without_comment(line: str) -> str:
    text = f" {line.strip()}"
    return text.partition(" #")[0].strip()


def _argument(line: str, *options: str) -> str:
    """Return what follows one of `options` in a line, "" where none is in front."""
    for option in options:
        if line.startswith(option):
            return line.removeprefix(option).lstrip(" =").strip()
    return ""


def _sent(requirement: str, folder: str, send: Callable[[str], str]) -> str:
    """Return a requirement as it means the same on every node."""
    if requirement.startswith(PACKAGE):
        send(requirement.partition("/")[0])
        return requirement
    for option, what in (("-e", "an editable install"), ("--editable", "an editable install"), ("-c", "a file")):
        if _argument(requirement, option):
            raise RuntimeEnvError(
                f"{FIELD} has {requirement!r}, {what} of this machine, which nodes do not have; give a wheel of it "
                "(`pip wheel`), or the package itself by runtime_env['py_modules']"
            )
    path = os.path.join(folder, os.path.expanduser(requirement))
    if requirement.endswith(ARCHIVES) and "://" not in requirement and " @ " not in requirement:
        if not os.path.isfile(path):
            raise RuntimeEnvError(f"{FIELD} names {requirement!r}, and there is no file {os.path.abspath(path)}")
        return f"{send(path)}/{os.path.basename(path)}"
    if requirement.startswith((".", "/")):
        raise RuntimeEnvError(
            f"{FIELD} has {requirement!r}, a folder of this machine, which nodes do not have; give a wheel of it "
            "(`pip wheel`), or the package itself by runtime_env['py_modules']"
        )
    return requirement

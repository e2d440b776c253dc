"""Read `runtime_env["pip"]` or `["uv"]` into plain values."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kernel_spec.dataclass import dataclass
from kernel_spec.environments import PACKAGE
from kernel_spec.errors import RuntimeEnvError
from kernel_spec.nearest import nearest

ARCHIVES = (".whl", ".tar.gz", ".zip")
"""How the names of files end that are installed, and that are sent to the nodes."""


@dataclass(frozen=True, slots=True)
class PackageField:
    """A field of a runtime_env that names packages, and the keys that it may have as a dict.

    `installer` is the program that installs them, which may be wanted in a `version`, with `options`, and be asked for
    a `check` afterwards.
    """

    installer: str
    check_key: str
    version_key: str
    options_key: str

    @property
    def title(self) -> str:
        """The name of the field in errors."""
        return f"runtime_env[{self.installer!r}]"

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys that a value may have."""
        return ("packages", self.check_key, self.version_key, self.options_key)

    def check(self, value: Any) -> None:
        """Raise RuntimeEnvError unless `value` is a list of requirements, a path of a file of them, or a dict."""
        if not isinstance(value, Mapping):
            _check_packages(self.title, value)
            return
        for key in value:
            if key not in self.keys:
                close = nearest(key, self.keys)
                hint = f"did you mean {close!r}?" if close else f"it has {', '.join(self.keys)}"
                raise RuntimeEnvError(f"{self.title} has no key {key!r}; {hint}")
        if "packages" not in value:
            raise RuntimeEnvError(f"{self.title} must say which packages, as in {{'packages': ['requests==2.32.3']}}")
        _check_packages(f"{self.title}['packages']", value["packages"])
        if not isinstance(value.get(self.check_key, False), bool):
            raise RuntimeEnvError(
                f"{self.title}[{self.check_key!r}] must be True or False, not {value[self.check_key]!r}"
            )
        version = value.get(self.version_key)
        if version is not None and not isinstance(version, str):
            raise RuntimeEnvError(
                f"{self.title}[{self.version_key!r}] must be a version such as '==24.0', not {version!r}"
            )
        options = value.get(self.options_key, [])
        if not isinstance(options, (list, tuple)) or not all(isinstance(option, str) for option in options):
            raise RuntimeEnvError(
                f"{self.title}[{self.options_key!r}] must be a list of options of {self.installer}, not {options!r}"
            )

    def prepare(self, value: Any, send: Callable[[str], str]) -> dict[str, Any]:
        """Return `value`, which was checked, in the one form that it has on the nodes; empty without packages.

        Files of requirements are read. `send(path)` sends a wheel or another archive that is a file of this machine
        and returns the name of its package. Raises RuntimeEnvError for files that can't be read, and for requirements
        that mean something on this machine only.
        """
        given = dict(value) if isinstance(value, Mapping) else {"packages": value}
        packages = given["packages"]
        if isinstance(packages, (str, os.PathLike)):
            lines = read_file(self.title, packages)
        else:
            lines = [(line, "") for line in packages]
        named = ((_without_comment(line), folder) for line, folder in lines)
        wanted = [_sent(self.title, requirement, folder, send) for requirement, folder in named if requirement]
        if not wanted:
            return {}
        version = given.get(self.version_key) or ""
        return {
            "packages": wanted,
            self.check_key: given.get(self.check_key, False),
            self.version_key: f"=={version}" if version[:1].isdigit() else version,
            self.options_key: list(given.get(self.options_key, [])),
        }


PIP = PackageField("pip", "pip_check", "pip_version", "pip_install_options")
UV = PackageField("uv", "uv_check", "uv_version", "uv_pip_install_options")


def read_file(field: str, path: str | os.PathLike[str], readers: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Return the requirements in a file, and in those that it includes, each with the folder of its file.

    `field` is what errors call the field, `readers` are the files that include this one. Raises RuntimeEnvError for a
    file that can't be read or includes itself.
    """
    name = os.path.abspath(path)
    if name in readers:
        raise RuntimeEnvError(f"{field}: {name} includes itself, by {' and '.join(readers[readers.index(name) :])}")
    try:
        with open(name, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise RuntimeEnvError(f"{field} names the file {name}, which can't be read: {reason}") from error
    found: list[tuple[str, str]] = []
    for line in map(_without_comment, _whole_lines(text)):
        other = _argument(line, "-r", "--requirement")
        if other:
            found += read_file(field, os.path.join(os.path.dirname(name), other), (*readers, name))
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


def _sent(field: str, requirement: str, folder: str, send: Callable[[str], str]) -> str:
    """Return a requirement as it means the same on every node."""
    if requirement.startswith(PACKAGE):
        send(requirement.partition("/")[0])
        return requirement
    for option, what in (("-e", "an editable install"), ("--editable", "an editable install"), ("-c", "a file")):
        if _argument(requirement, option):
            raise RuntimeEnvError(
                f"{field} has {requirement!r}, {what} of this machine, which nodes do not have; give a wheel of it "
                "(`pip wheel`), or the package itself by runtime_env['py_modules']"
            )
    path = os.path.join(folder, os.path.expanduser(requirement))
    if requirement.endswith(ARCHIVES) and "://" not in requirement and " @ " not in requirement:
        if not os.path.isfile(path):
            raise RuntimeEnvError(f"{field} names {requirement!r}, and there is no file {os.path.abspath(path)}")
        return f"{send(path)}/{os.path.basename(path)}"
    if requirement.startswith((".", "/")):
        raise RuntimeEnvError(
            f"{field} has {requirement!r}, a folder of this machine, which nodes do not have; give a wheel of it "
            "(`pip wheel`), or the package itself by runtime_env['py_modules']"
        )
    return requirement

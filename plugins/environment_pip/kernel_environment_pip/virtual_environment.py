"""A virtual environment on a node: made, filled by pip or uv, and used by workers.

It sees what the node's interpreter sees, and has its own packages in front of that.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernel_environment_pip.requirements import PIP, PackageField
from kernel_spec.environments import PACKAGE, WorkerStart
from kernel_spec.errors import RuntimeEnvError

NODE_PACKAGES = "_node_packages.pth"
"""The file by which the environment sees the packages of the node's interpreter, which may be one itself."""

LAST_LINES = 30
"""The number of the last lines of what the installer wrote that an error shows."""

_QUIET = ("--disable-pip-version-check", "--no-input", "--no-color")


class VirtualEnvironment:
    """One below `directory`, for packages of `field`. Only `make` and `install` change it."""

    def __init__(self, directory: str, field: PackageField) -> None:
        self._directory = directory
        self._field = field
        scheme = {"base": directory, "platbase": directory}
        self.site = sysconfig.get_path("purelib", "posix_prefix", scheme)
        self.python = os.path.join(directory, "bin", "python")

    def make(self) -> None:
        """Make it, without any package of its own. Raises RuntimeEnvError when that is impossible."""
        try:
            venv.EnvBuilder(system_site_packages=True, symlinks=True).create(self._directory)
            with open(os.path.join(self.site, NODE_PACKAGES), "w", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in node_lines(sys.path))
        except OSError as error:
            raise RuntimeEnvError(f"{self._field.title} can't be built in {self._directory}: {error}") from error

    def install(self, prepared: Mapping[str, Any], package: Callable[[str], str]) -> None:
        """Install what was prepared; `package` returns the directory of a package of the session.

        Raises RuntimeEnvError with what the installer wrote last.
        """
        field = self._field
        wanted = [_on_this_node(requirement, package) for requirement in prepared["packages"]]
        listing = os.path.join(self._directory, "requirements.txt")
        with open(listing, "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in wanted)
        install, check = self._commands(prepared[field.version_key])
        self._run([*install, *prepared[field.options_key], "-r", listing], wanted)
        if prepared[field.check_key]:
            self._run(check, wanted)

    def worker_start(self) -> WorkerStart:
        """Return what a worker is given: the packages in front of the node's, for it and for what it starts.

        Where nothing was missing on the node, it needs no other interpreter.
        """
        own = [name for name in sorted(os.listdir(self.site)) if name not in (NODE_PACKAGES, "__pycache__")]
        return WorkerStart(
            variables={
                "VIRTUAL_ENV": self._directory,
                "PATH": f"{os.path.join(self._directory, 'bin')}{os.pathsep}${{PATH}}",
                "PYTHONPATH": f"{self.site}{os.pathsep}${{PYTHONPATH}}",
            },
            paths=(self.site,),
            python=self.python if own else "",
            modules=modules_of(own),
        )

    def _commands(self, version: str) -> tuple[list[str], list[str]]:
        """Return the commands that install here, and that check what is installed, by an installer of `version`."""
        if self._field.installer == PIP.installer:  # the field was pickled for the process that builds
            pip = self._pip(version)
            return [*pip, "install", *_QUIET], [*pip, "check", *_QUIET]
        uv, here = self._uv(version), ["--python", self.python, "--color", "never", "--no-progress"]
        return [*uv, "pip", "install", *here], [*uv, "pip", "check", *here]

    def _pip(self, version: str) -> list[str]:
        """Return the command of a pip that installs here: the node's, which is seen here, or one of this `version`."""
        pip = [self.python, "-m", "pip"]
        if importlib.util.find_spec("pip") is None:
            self._run([self.python, "-m", "ensurepip", "--default-pip"], ["pip"])
        if version:
            self._run([*pip, "install", *_QUIET, "--ignore-installed", f"pip{version}"], [f"pip{version}"])
        return pip

    def _uv(self, version: str) -> list[str]:
        """Return the command of a uv: the node's, or one of this `version`, or any that pip finds for a node without.

        That one is beside the environment's packages, not among them: tasks did not ask for it.
        """
        if not version and importlib.util.find_spec("uv") is not None:
            return [self.python, "-m", "uv"]
        if not version and (found := shutil.which("uv")):
            return [found]
        folder = os.path.join(self._directory, "uv")
        self._run([*self._pip(""), "install", *_QUIET, "--target", folder, f"uv{version}"], [f"uv{version}"])
        return [os.path.join(folder, "bin", "uv")]

    def _run(self, command: Sequence[str], wanted: Sequence[str]) -> None:
        """Run a command; what it writes goes to the log as well. Raises RuntimeEnvError with its last lines."""
        surroundings = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
        surroundings["PYTHONUNBUFFERED"] = "1"
        process = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=surroundings,
            check=False,
        )  # fmt: skip
        sys.stdout.buffer.write(process.stdout)
        sys.stdout.flush()
        if process.returncode:
            lines = process.stdout.decode(errors="replace").strip().splitlines()
            last = "".join(f"\n  {line}" for line in lines[-LAST_LINES:])
            raise RuntimeEnvError(
                f"{self._field.title} can't be installed: {', '.join(wanted)}; `{' '.join(command)}` ended with exit "
                f"code {process.returncode}, and wrote at last:{last}"
            )


def modules_of(names: Sequence[str]) -> tuple[str, ...]:
    """Return the top-level modules in a folder with these names.

    Nothing is returned where some are found by a file that an interpreter reads when it starts: it must run for them.
    """
    if any(name.endswith(".pth") for name in names):
        return ()
    modules = {name.partition(".")[0] for name in names if not name.endswith((".dist-info", ".egg-info"))}
    return tuple(sorted(filter(str.isidentifier, modules)))


def node_lines(paths: Sequence[str]) -> list[str]:
    """Return the lines of a .pth file that bring in `paths`, without the library, which each interpreter has itself.

    In folders of installed packages the .pth files count, too.
    """
    library = os.path.dirname(os.__file__)
    lines = []
    for path in paths:
        if not os.path.isdir(path) or path in (library, os.path.join(library, "lib-dynload")):
            continue
        installed = os.path.basename(path) in ("site-packages", "dist-packages")
        lines.append(f"import site; site.addsitedir({path!r})" if installed else path)
    return lines


def _on_this_node(requirement: str, package: Callable[[str], str]) -> str:
    if not requirement.startswith(PACKAGE):
        return requirement
    name, _, file = requirement.partition("/")
    return os.path.join(package(name), file)

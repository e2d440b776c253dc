"""The interpreter of workers in a conda environment: the environment's own, which sees the node's packages as well."""

from __future__ import annotations

import glob
import json
import os
import sys
from collections.abc import Sequence

from kernel_environment_conda.description import TITLE
from kernel_environment_conda.installation import node_version
from kernel_spec.environments import WorkerStart
from kernel_spec.errors import RuntimeEnvError

PATHS = "_conda_and_node.pth"
"""The file by which the interpreter sees the packages of the environment, and behind them the node's."""


def worker_start(prefix: str, directory: str) -> WorkerStart:
    """Return what workers in the environment at `prefix` are given; `directory` is for files of our own.

    An environment without Python gives its programs alone, to the node's interpreter. Raises RuntimeEnvError for an
    environment of another Python version than the node's.
    """
    programs = os.path.join(prefix, "bin")
    variables = {"PATH": f"{programs}{os.pathsep}${{PATH}}", "CONDA_PREFIX": prefix}
    version = python_version(prefix)
    if not version:
        return WorkerStart(variables=variables)
    if ".".join(version.split(".")[:2]) != node_version():
        raise RuntimeEnvError(
            f"{TITLE}: the environment {prefix} has Python {version}, and this node runs Python {node_version()}; "
            f"the two must be of one version: put python={node_version()} into the environment"
        )
    python = _join(prefix, os.path.join(directory, "python"))
    variables["PATH"] = f"{os.path.dirname(python)}{os.pathsep}{variables['PATH']}"
    return WorkerStart(variables=variables, paths=(site_packages(prefix),), python=python)


def python_version(prefix: str) -> str:
    """Return the version of Python in a conda environment, "" where it has none."""
    for path in glob.glob(os.path.join(glob.escape(prefix), "conda-meta", "python-*.json")):
        with open(path, encoding="utf-8") as file:
            record = json.load(file)
        if record.get("name") == "python":
            return str(record["version"])
    return ""


def site_packages(prefix: str) -> str:
    """Return where packages are in an environment at `prefix`."""
    return os.path.join(prefix, "lib", f"python{node_version()}", "site-packages")


def _join(prefix: str, directory: str) -> str:
    """Make a virtual environment of the interpreter at `prefix`, and return its own: nothing below `prefix` changes."""
    own = site_packages(directory)
    os.makedirs(own)
    os.mkdir(os.path.join(directory, "bin"))
    with open(os.path.join(directory, "pyvenv.cfg"), "w", encoding="utf-8") as file:
        file.write(f"home = {os.path.join(prefix, 'bin')}\ninclude-system-site-packages = false\n")
    with open(os.path.join(own, PATHS), "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in path_lines([site_packages(prefix), *sys.path]))
    python = os.path.join(directory, "bin", "python")
    os.symlink(os.path.join(prefix, "bin", f"python{node_version()}"), python)
    return python


def path_lines(paths: Sequence[str]) -> list[str]:
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

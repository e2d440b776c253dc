"""Find a conda environment that a node has, as conda itself does."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping

from kernel_environment_conda.description import TITLE
from kernel_spec.errors import RuntimeEnvError

BASE = ("base", "root")
"""The names of the environment that conda itself is installed in."""


def find_prefix(name: str, variables: Mapping[str, str]) -> str:
    """Return the directory of the environment with this name, or path. Raises RuntimeEnvError where there is none.

    `variables` are the node's environment variables, which say where conda has its environments.
    """
    if os.path.isabs(name):
        if is_environment(name):
            return name
        raise RuntimeEnvError(f"{TITLE} names {name}, which is no conda environment on this node (no conda-meta there)")
    places = list(dict.fromkeys(_places(name, variables)))
    for place in places:
        if is_environment(place):
            return place
    raise RuntimeEnvError(
        f"{TITLE} names the environment {name!r}, which this node does not have (looked at: "
        f"{', '.join(places) or 'nothing, as no conda was found'}); make it there, give its path, or say what it is "
        "built of, as in {'dependencies': ['numpy=2.0']}"
    )


def is_environment(path: str) -> bool:
    """Return whether there is a conda environment."""
    return os.path.isdir(os.path.join(path, "conda-meta"))


def _places(name: str, variables: Mapping[str, str]) -> Iterator[str]:
    """Yield where an environment with this name may be: conda's order of `envs_dirs`, then all that it has listed."""
    roots = list(_roots(variables))
    if name in BASE:
        yield from roots
        return
    for variable in ("CONDA_ENVS_DIRS", "CONDA_ENVS_PATH"):
        for folder in filter(None, variables.get(variable, "").split(os.pathsep)):
            yield os.path.join(folder, name)
    for root in roots:
        yield os.path.join(root, "envs", name)
    home = variables.get("HOME", "")
    if home:
        yield os.path.join(home, ".conda", "envs", name)
        yield from _listed(os.path.join(home, ".conda", "environments.txt"), name)


def _roots(variables: Mapping[str, str]) -> Iterator[str]:
    """Yield where conda may be installed."""
    if root := variables.get("MAMBA_ROOT_PREFIX"):
        yield root
    programs = [variables.get("CONDA_EXE", "")]
    programs += [shutil.which(name, path=variables.get("PATH", "")) or "" for name in ("conda", "mamba")]
    for program in filter(None, programs):
        yield os.path.dirname(os.path.dirname(os.path.realpath(program)))


def _listed(path: str, name: str) -> Iterator[str]:
    """Yield what conda has noted of environments with this name."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError:
        return
    yield from (line for line in lines if os.path.basename(line) == name)

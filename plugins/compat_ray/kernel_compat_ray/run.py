"""Run a program of Ray in the same interpreter, with our `ray` first on the path."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence

from kernel_compat_ray.environment import OUR_RAY, WAIT_MILLISECONDS

DIRECTORY = os.path.dirname(OUR_RAY)
"""Holds nothing but a package `ray`, which makes room for kernel's."""

GYM_DIRECTORY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gym_path")
"""Holds nothing but a package `gym`, for programs that import it where it is not installed."""


def needs_gym() -> bool:
    """Return whether gym is not installed, and gymnasium is, so that ours can stand in for it."""
    found = importlib.util.find_spec("gym")
    ours = found is None or (found.origin or "").startswith(GYM_DIRECTORY)
    return ours and importlib.util.find_spec("gymnasium") is not None


def environment_of(environment: Mapping[str, str], wait_milliseconds: bool) -> dict[str, str]:
    """Return the environment in which `import ray` means kernel's, for a program and all that it starts."""
    ours = (DIRECTORY, GYM_DIRECTORY)
    inherited = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path and path not in ours]
    inherited += [GYM_DIRECTORY] if needs_gym() else []
    more = {WAIT_MILLISECONDS: "1"} if wait_milliseconds else {}
    return {**environment, "PYTHONPATH": os.pathsep.join([DIRECTORY, *inherited]), **more}


def run(arguments: Sequence[str], wait_milliseconds: bool = False) -> None:
    """Become `python SCRIPT ...` with our `ray`; does not return. `-m MODULE` and `-c CODE` work as well."""
    sys.stdout.flush()
    sys.stderr.flush()
    command = [sys.executable, *arguments]
    os.execve(sys.executable, command, environment_of(os.environ, wait_milliseconds))

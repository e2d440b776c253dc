"""After `import kernel_compat_ray.install`, `import ray` means kernel: in this process, its workers and their children.

A directory that holds nothing but a package `ray`, which only imports this module, goes to the front of the path.
Workers are given the path of the program, so they can import `ray` without any other setting.
"""

from __future__ import annotations

import os
import sys

from kernel_compat_ray.additions import add_to_handles
from kernel_compat_ray.environment import adopt_environment
from kernel_compat_ray.exceptions import use_names_of_ray
from kernel_compat_ray.facade import is_facade
from kernel_compat_ray.finder import install_finder
from kernel_compat_ray.run import DIRECTORY, GYM_DIRECTORY, needs_gym


def install() -> None:
    """Make `import ray` mean kernel's. Raises ImportError when Ray itself is loaded already. Safe to call twice."""
    loaded = sys.modules.get("ray")
    if loaded is not None and not is_facade(loaded) and not hasattr(loaded, "MAKES_ROOM_FOR_KERNEL"):
        raise ImportError(
            f"Ray itself is loaded in this process already, from {getattr(loaded, '__file__', None)}: two can't share "
            "the name. Import kernel_compat_ray.install before anything that imports ray, or run the program with: "
            "kernel ray-run SCRIPT"
        )
    install_finder()
    if DIRECTORY not in sys.path:
        sys.path.insert(0, DIRECTORY)
    if GYM_DIRECTORY not in sys.path and needs_gym():
        sys.path.append(GYM_DIRECTORY)
    adopt_environment(os.environ)
    add_to_handles()
    use_names_of_ray()


install()

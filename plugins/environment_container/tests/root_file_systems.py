"""A root file system for tests, in which this machine's programs and Python are mounted."""

from __future__ import annotations

import os
import sys
from pathlib import Path

PYTHON = os.path.join(os.path.realpath(sys.base_prefix), "bin", "python{}.{}".format(*sys.version_info))
"""The interpreter in it."""

MOUNTED = tuple(dict.fromkeys(("/usr", os.path.realpath(sys.base_prefix))))
"""The folders of this machine that are mounted there at the same path."""

MARK = "/etc/kernel-test"
"""A file that is in no other root file system."""


def make_root(directory: Path) -> Path:
    """Make a root file system in a directory, and return it."""
    for name in ("dev", "etc", "proc", "run", "sys", "tmp", "usr"):
        (directory / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64", "sbin"):
        if os.path.islink(f"/{name}"):
            (directory / name).symlink_to(f"usr/{name}")
    (directory / MARK[1:]).write_text("in the container")
    return directory
